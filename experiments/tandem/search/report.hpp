#pragma once
// What a search prints.

#include <optional>
#include <string>

#include "experiments/tandem/search/changes.hpp"
#include "experiments/tandem/search/fewer.hpp"
#include "experiments/tandem/search/pareto.hpp"
#include "experiments/tandem/search/search.hpp"

namespace tandem::search {

/// The question, the best rows, the changes that would make something fit, and the counts, for people.
std::string to_text(const Search& search, const Answer& answer, const Changes& changes, const std::optional<Fewer>& fewer = {});

/// schema_version 1; docs/reference/json-keys.md lists the keys.
std::string to_json(const Search& search, const Answer& answer, const Changes& changes, const std::optional<Fewer>& fewer = {});

/// The text about a Pareto front.
std::string to_text(const std::vector<Search*>& searches, const ParetoFront& front);
std::string to_json(const std::vector<Search*>& searches, const ParetoFront& front);
/// Contents of a page about a front, as JSON for reports/html/search.js.
std::string page_json(const std::vector<Search*>& searches, const ParetoFront& front);

/// Outcomes of the candidates that `where` ("tensor=16,pipeline=1") names: their number by outcome, and one example of each with the reason
/// in words. Throws ConfigError where it names no axis, no value of one, or too many candidates.
std::string why_text(const Search& search, const Answer& answer, const std::string& where);

/// Where no degrees go into the number of devices: what they need; else empty.
std::string devices_text(const Search& search, const Answer& answer);

/// If no layout can run: a line for each reason except memory, with the problem of the first candidate that has it.
std::string obstacles_text(const Search& search, const Answer& answer);

}  // namespace tandem::search
