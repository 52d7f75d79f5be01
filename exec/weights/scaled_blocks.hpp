#pragma once
// Weights in 8 bits with a scale for each block of a matrix, as DeepSeek-V3's files have them.

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/weights/weight_files.hpp"

namespace tandem::exec {

/// A matrix W of E4M3 numbers whose element (r, c) is W[r, c] * scale[r / block, c / block] (deepseek-ai/DeepSeek-V3:
/// inference/kernel.py, weight_dequant).
class ScaledBlocks {
 public:
  /// Reads the scales. Nothing if `scales` is no fp32 matrix with one number for each block, or `block` is 0.
  static std::optional<ScaledBlocks> of(const WeightFiles& files, const StoredTensor& matrix, const StoredTensor& scales,
                                        std::int64_t block);
  /// `count` numbers from the matrix' number `first` on, in fp32.
  std::vector<std::byte> numbers(const WeightFiles& files, const StoredTensor& matrix, std::int64_t first,
                                 std::int64_t count) const;

 private:
  std::int64_t block_ = 0, across_ = 0;  ///< rows and columns of a block; blocks beside each other
  std::vector<float> scales_;
};

/// The value of an E4M3 number (arXiv 2209.05433 section 3): 4 bits of exponent with bias 7, 3 of mantissa, no infinities.
float from_e4m3(std::uint8_t bits);

}  // namespace tandem::exec
