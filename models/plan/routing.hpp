#pragma once
// How a router turns logits into scores and compares groups of experts.

#include <cstdint>

namespace tandem {

enum class RouterScores : std::uint8_t { softmax, sigmoid };
/// A group's score: its largest expert score, or the sum of its two largest (DeepSeek-V3, arXiv 2412.19437 section 2.1.2).
enum class GroupScore : std::uint8_t { max, top2 };

}  // namespace tandem
