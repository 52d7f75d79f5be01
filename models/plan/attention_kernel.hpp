#pragma once
// Kernels of attention without a score matrix: a plan has one (training.attention_kernel), and operations name it.

#include <cstdint>

namespace tandem {

/// Whose kernels compute attention without a score matrix; they differ in speed alone.
enum class AttentionKernel : std::uint8_t {
  flash1,  ///< FlashAttention's first version
  triton,  ///< flash-attn's in Triton
  flash2,  ///< FlashAttention 2
  tuned,   ///< written for the device's generation: cuDNN's, FlashAttention 3
  own,     ///< Tandem's on CUDA (exec/device/flash.hpp), for what libraries have not; without tensor cores
};

}  // namespace tandem
