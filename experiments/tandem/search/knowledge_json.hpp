#pragma once
// Questions and knowledge in the JSON of `search --keep` files.

#include <string>

#include "experiments/tandem/search/search.hpp"
#include "models/base/json.hpp"

namespace tandem::search {

/// The question of a search, so that two questions can be compared field by field.
nlohmann::json question_json(const Search& search);

/// The knowledge as a JSON object of flat lists of numbers.
std::string knowledge_text(const Knowledge& knowledge);

/// Throws ConfigError if the knowledge does not belong to `space`.
Knowledge read_knowledge(const nlohmann::json& kept, const Space& space, const std::string& file);

}  // namespace tandem::search
