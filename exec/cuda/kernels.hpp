#pragma once
// The kernels of kernels.cu as functions: each launches on a stream and returns at once. Pointers are device memory aligned to
// 16 bytes; counts are elements and multiples of 8. Every launch throws DeviceError when it fails.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tandem::exec::cuda {

/// fp8 is e4m3.
enum class Element { fp32, bf16, fp16, fp8 };
/// Independent numbers ~ N(0, 1), or uniform in (0, 1) where `positive`, rounded to `type`.
void fill_random(void* data, std::int64_t n, Element type, bool positive, cudaStream_t s);
/// Keeps the device busy for about so long, so that the host can queue work behind it.
void spin(double seconds, cudaStream_t s);
void empty_kernel(cudaStream_t s);
/// One block that adds 1 to a counter: a kernel that depends on the one before it.
void increment(std::int32_t* counter, cudaStream_t s);

// bf16 unless the name says otherwise
void copy(const void* x, void* y, std::int64_t n, cudaStream_t s);
void add(const void* a, const void* b, void* y, std::int64_t n, cudaStream_t s);
/// Bias of length cols, tanh-approximated GELU.
void bias_gelu(const void* x, const void* bias, void* y, std::int64_t n, std::int64_t cols, cudaStream_t s);
struct NormOperands { const void *x, *gamma, *beta; void* y; float* stats; };
/// cols at most kMostRow.
inline constexpr std::int64_t kMostRow = 16384;
void layer_norm(const NormOperands& o, std::int64_t rows, std::int64_t cols, cudaStream_t s);
void rms_norm(const NormOperands& o, std::int64_t rows, std::int64_t cols, cudaStream_t s);
void softmax(const void* x, void* y, std::int64_t rows, std::int64_t cols, cudaStream_t s);
struct LossOperands { const void* logits; const std::int32_t* targets; float* loss; void* gradient; };
/// Loss of each row and gradient of the logits; a row is read twice.
void cross_entropy(const LossOperands& o, std::int64_t rows, std::int64_t cols, cudaStream_t s);
struct AdamOperands { const float* gradient; void* weight; float *master, *first, *second; };
/// fp32 gradients, states and master weights, bf16 weights.
void adamw(const AdamOperands& o, std::int64_t n, cudaStream_t s);
void cast_fp8(const void* x, void* y, std::int64_t n, cudaStream_t s);
/// fp32 y += x.
void accumulate(const void* x, float* y, std::int64_t n, cudaStream_t s);
void fill_zero(void* y, std::int64_t bytes, cudaStream_t s);

}  // namespace tandem::exec::cuda
