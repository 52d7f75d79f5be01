#pragma once
// The kernels of kernels.cu as functions. Each launches on a stream and returns at once. Pointers are device memory aligned to 16
// bytes. Counts are in elements and multiples of 8. A failed launch throws DeviceError.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tandem::exec::cuda {

/// fp8 is e4m3.
enum class Element { fp32, bf16, fp16, fp8 };
/// Independent numbers, rounded to `type`: uniform in (0, 1) if `positive`, else from N(0, 1).
void fill_random(void* data, std::int64_t n, Element type, bool positive, cudaStream_t s);
/// Keeps the device busy for about `seconds`, so that the host can queue work behind it.
void spin(double seconds, cudaStream_t s);
void empty_kernel(cudaStream_t s);
/// A one-block kernel that increments a counter, so that it depends on the kernel before it.
void increment(std::int32_t* counter, cudaStream_t s);

// bf16 unless stated otherwise
void copy(const void* x, void* y, std::int64_t n, cudaStream_t s);
void add(const void* a, const void* b, void* y, std::int64_t n, cudaStream_t s);
/// y = GELU(x + bias) with the tanh approximation; `bias` has `cols` elements.
void bias_gelu(const void* x, const void* bias, void* y, std::int64_t n, std::int64_t cols, cudaStream_t s);
struct NormOperands { const void *x, *gamma, *beta; void* y; float* stats; };
/// `cols` is at most kMostRow.
inline constexpr std::int64_t kMostRow = 16384;
void layer_norm(const NormOperands& o, std::int64_t rows, std::int64_t cols, cudaStream_t s);
void rms_norm(const NormOperands& o, std::int64_t rows, std::int64_t cols, cudaStream_t s);
void softmax(const void* x, void* y, std::int64_t rows, std::int64_t cols, cudaStream_t s);
struct LossOperands { const void* logits; const std::int32_t* targets; float* loss; void* gradient; };
/// The loss of each row and the gradient of its logits. Each row is read twice.
void cross_entropy(const LossOperands& o, std::int64_t rows, std::int64_t cols, cudaStream_t s);
struct AdamOperands { const float* gradient; void* weight; float *master, *first, *second; };
/// Updates n elements. Gradients, optimizer states and master weights are fp32, weights bf16.
void adamw(const AdamOperands& o, std::int64_t n, cudaStream_t s);
void cast_fp8(const void* x, void* y, std::int64_t n, cudaStream_t s);
/// y += x in fp32.
void accumulate(const void* x, float* y, std::int64_t n, cudaStream_t s);
void fill_zero(void* y, std::int64_t bytes, cudaStream_t s);

}  // namespace tandem::exec::cuda
