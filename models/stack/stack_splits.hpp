#pragma once
// The splits of layers over pipeline stages that a stack's options can say.

#include <cstdint>

namespace tandem {

struct Plan;

/// Which stages' numbers of layers an option sets.
enum class StageChoice : std::uint8_t {
  none,  ///< no stage's: the framework splits
  ends,  ///< the first stage's and the last one's; the others, and the chunks of a stage, have equal numbers
  any,   ///< every chunk's
};

struct StackSplits {
  StageChoice choice = StageChoice::none;
  bool empty_ends = false;  ///< the first chunk may have the embedding alone, and the last one the head
};

/// What the stack of a completed plan can say at its date. Nothing for a stack whose file does not tell.
StackSplits stack_splits(const Plan& plan);

}  // namespace tandem
