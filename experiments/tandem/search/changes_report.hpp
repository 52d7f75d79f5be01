#pragma once
// What a search says where nothing fits.

#include <string>

#include "experiments/tandem/search/changes.hpp"
#include "models/base/json.hpp"

namespace tandem::search {

/// One sentence without an end: that nothing fits, and what would, the least device time first.
std::string would_fit(const Search& search, const Answer& answer, const Changes& changes);
/// would_fit() and each change against the fastest layout that does not fit; why no layout can run, if none can; empty if changes were not
/// searched.
std::string changes_text(const Search& search, const Answer& answer, const Changes& changes);

nlohmann::ordered_json placed_json(const Placed& placed);
nlohmann::ordered_json changes_json(const Changes& changes);

}  // namespace tandem::search
