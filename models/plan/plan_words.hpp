#pragma once
// A plan's parts as lists of whole numbers: what caches of things computed from plans look up by. Every member is in its list. A new one
// does not compile until it is.

#include <cstdint>
#include <vector>

#include "models/plan/plan.hpp"

namespace tandem {

/// Appends all of a part but its name and notes. Texts are hashed; a fusion set counts by its name.
void append_words(std::vector<std::int64_t>& words, const ModelSpec& model);
void append_words(std::vector<std::int64_t>& words, const ParallelSpec& parallel);
void append_words(std::vector<std::int64_t>& words, const TrainingSpec& training);
/// The framework and its date, which with the other parts give its facts.
void append_words(std::vector<std::int64_t>& words, const PlanStack& stack);

/// For hash tables of such lists.
struct WordsHash {
  std::size_t operator()(const std::vector<std::int64_t>& words) const;
};

}  // namespace tandem
