#pragma once
// Questions and knowledge as they stand in files of `search --keep`.

#include <string>

#include "experiments/tandem/search/search.hpp"
#include "models/base/json.hpp"

namespace tandem::search {

/// What a search is asked, so that two can be told apart by field.
nlohmann::json question_json(const Search& search);

/// Lists of numbers, one after another.
nlohmann::ordered_json knowledge_json(const Knowledge& knowledge);

/// Throws ConfigError where it is none of `space`.
Knowledge read_knowledge(const nlohmann::json& kept, const Space& space, const std::string& file);

}  // namespace tandem::search
