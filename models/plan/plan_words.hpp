#pragma once
// A plan's parts as lists of integers: keys for caches of results computed from
// plans. A list has every member. A new member does not compile until it is added.

#include <cstdint>
#include <vector>

#include "models/plan/plan.hpp"

namespace tandem {

/// Appends all of a part except name and notes. Strings are hashed; a fusion set is represented by its name.
void append_words(std::vector<std::int64_t>& words, const ModelSpec& model);
void append_words(std::vector<std::int64_t>& words, const ParallelSpec& parallel);
void append_words(std::vector<std::int64_t>& words, const TrainingSpec& training);
/// Appends the framework and its date. With the other parts they determine its facts.
void append_words(std::vector<std::int64_t>& words, const PlanStack& stack);

/// Hash of such lists.
struct WordsHash {
  std::size_t operator()(const std::vector<std::int64_t>& words) const;
};

}  // namespace tandem
