#pragma once
// What a framework keeps of its products in 8 or 4 bits: their inputs, for the gradients of matrices, and the matrices themselves.

#include <cstdint>

namespace tandem {

struct Plan;

/// Of attention's output, which attention without a score matrix keeps in 16 bits and the product behind it reads.
enum class AttentionOutput : std::uint8_t {
  wide,  ///< as attention has it, for both
  both,  ///< and a narrow one for the product
};

/// Where a plan's products are no narrower than its activations, or its stack says nothing: what the wider type would keep.
struct NarrowProducts {
  bool inputs = false;              ///< narrow, in one copy, in place of those of the activations' type
  AttentionOutput attention_output = AttentionOutput::wide;
  std::int64_t weight_copies = 0;   ///< narrow ones of every matrix of linear layers, for the whole step; stored narrow it is one of them
  std::int64_t scale_block = 0;     ///< elements that share a scale of one byte; 0: a scale for each tensor, which is not counted
  bool states() const { return inputs || weight_copies > 0; }
};

/// What the file of the plan's stack (models/stacks) says for a plan in 8 or 4 bits. The plan is complete. Throws ConfigError on a
/// list that is not of the form that models/stacks/README.md describes.
NarrowProducts stack_narrow_products(const Plan& plan);

}  // namespace tandem
