#pragma once
// Kernels of attention without a score matrix. A plan names one (training.attention_kernel), and operations carry it.

#include <cstdint>

namespace tandem {

/// Which library's kernel computes attention without a score matrix. The kernels differ only in speed.
enum class AttentionKernel : std::uint8_t {
  flash1,  ///< FlashAttention's first version
  triton,  ///< flash-attn's in Triton
  flash2,  ///< FlashAttention 2
  tuned,   ///< written for the device generation: cuDNN's, FlashAttention 3
  own,     ///< Tandem's CUDA kernel (exec/device/flash.hpp) for cases without library kernels; no tensor cores
};

}  // namespace tandem
