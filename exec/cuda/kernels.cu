// Memory-bound kernels as frameworks write them: 16 bytes per thread and access, rows in registers, one pass where possible. They
// exist only to be timed. Their arithmetic is that of the reference backend (exec/cpu).
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>

#include "exec/cuda/kernels.hpp"
#include "exec/cuda/resources.hpp"

namespace tandem::exec::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWide = 8;  // bf16 elements of 16 bytes
constexpr int kWarp = 32;

void launched() { check(cudaGetLastError(), "launching a kernel"); }
unsigned blocks_for(std::int64_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }
__device__ std::int64_t my_index() { return blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; }

struct Eight { float v[kWide]; };

__device__ Eight load8(const void* x, std::int64_t i) {
  const uint4 raw = static_cast<const uint4*>(x)[i];
  const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&raw);
  Eight out;
  for (int j = 0; j < kWide / 2; ++j) {
    const float2 f = __bfloat1622float2(pairs[j]);
    out.v[2 * j] = f.x;
    out.v[2 * j + 1] = f.y;
  }
  return out;
}

__device__ void store8(void* y, std::int64_t i, const Eight& e) {
  uint4 raw;
  auto* pairs = reinterpret_cast<__nv_bfloat162*>(&raw);
  for (int j = 0; j < kWide / 2; ++j) pairs[j] = __floats2bfloat162_rn(e.v[2 * j], e.v[2 * j + 1]);
  static_cast<uint4*>(y)[i] = raw;
}

// ---- random numbers: a hashed counter (splitmix64), two normals by the Box-Muller method ----

__device__ std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

__device__ float random_number(std::int64_t i, bool positive) {
  const std::uint64_t bits = mix(static_cast<std::uint64_t>(i));
  const float u = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
  if (positive) return u;
  const float angle = static_cast<float>(bits & 0xffffff) * 0x1p-24f;
  return sqrtf(-2 * logf(u)) * cospif(2 * angle);
}

template <class T>
__global__ void random_kernel(T* data, std::int64_t n, bool positive) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = my_index(); i < n; i += step) data[i] = T(random_number(i, positive));
}

template <class T>
void fill_with(void* data, std::int64_t n, bool positive, cudaStream_t s) {
  random_kernel<<<std::min(blocks_for(n), 65535u), kThreads, 0, s>>>(static_cast<T*>(data), n, positive);
}

// ---- launching ----

__global__ void spin_kernel(std::int64_t nanoseconds) {
  std::int64_t begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

__global__ void nothing() {}
__global__ void increment_kernel(std::int32_t* counter) { *counter += 1; }

// ---- elementwise: one thread, eight elements ----

__global__ void copy_kernel(const uint4* x, uint4* y, std::int64_t n) {
  if (const std::int64_t i = my_index(); i < n) y[i] = x[i];
}

__global__ void zero_kernel(uint4* y, std::int64_t n) {
  if (const std::int64_t i = my_index(); i < n) y[i] = uint4{0, 0, 0, 0};
}

__global__ void add_kernel(const void* a, const void* b, void* y, std::int64_t n) {
  const std::int64_t i = my_index();
  if (i >= n) return;
  Eight x = load8(a, i);
  const Eight z = load8(b, i);
  for (int j = 0; j < kWide; ++j) x.v[j] += z.v[j];
  store8(y, i, x);
}

__device__ float gelu(float x) {
  constexpr float kRootOfTwoOverPi = 0.7978845608f, kCubic = 0.044715f;
  return 0.5f * x * (1 + tanhf(kRootOfTwoOverPi * (x + kCubic * x * x * x)));
}

__global__ void bias_gelu_kernel(const void* x, const void* bias, void* y, std::int64_t n, unsigned wide_cols) {
  const std::int64_t i = my_index();
  if (i >= n) return;
  Eight e = load8(x, i);
  const Eight b = load8(bias, i % wide_cols);
  for (int j = 0; j < kWide; ++j) e.v[j] = gelu(e.v[j] + b.v[j]);
  store8(y, i, e);
}

__global__ void cast_kernel(const uint4* x, uint2* y, std::int64_t n) {
  const std::int64_t i = my_index();
  if (i >= n) return;
  const uint4 raw = x[i];
  const auto* pairs = reinterpret_cast<const __nv_bfloat162_raw*>(&raw);
  uint2 out;
  auto* small = reinterpret_cast<__nv_fp8x2_storage_t*>(&out);
  for (int j = 0; j < kWide / 2; ++j) small[j] = __nv_cvt_bfloat16raw2_to_fp8x2(pairs[j], __NV_SATFINITE, __NV_E4M3);
  y[i] = out;
}

__global__ void accumulate_kernel(const void* x, float4* y, std::int64_t n) {
  const std::int64_t i = my_index();
  if (i >= n) return;
  const Eight e = load8(x, i);
  for (int half = 0; half < 2; ++half) {
    float4 t = y[2 * i + half];
    t.x += e.v[4 * half];
    t.y += e.v[4 * half + 1];
    t.z += e.v[4 * half + 2];
    t.w += e.v[4 * half + 3];
    y[2 * i + half] = t;
  }
}

struct AdamNumbers {
  float rate = 1e-4f, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, decay = 0.1f, correction1 = 0.5f, correction2 = 0.5f;
};

__device__ float adam_one(float g, float& w, float& m, float& v, const AdamNumbers& a) {
  m = a.beta1 * m + (1 - a.beta1) * g;
  v = a.beta2 * v + (1 - a.beta2) * g * g;
  const float step = m / a.correction1 / (sqrtf(v / a.correction2) + a.epsilon);
  w -= a.rate * (step + a.decay * w);
  return w;
}

__global__ void adamw_kernel(AdamOperands o, AdamNumbers a, std::int64_t n) {
  const std::int64_t i = my_index();
  if (i >= n) return;
  const float4 g = reinterpret_cast<const float4*>(o.gradient)[i];
  float4 w = reinterpret_cast<float4*>(o.master)[i], m = reinterpret_cast<float4*>(o.first)[i];
  float4 v = reinterpret_cast<float4*>(o.second)[i];
  const __nv_bfloat162 low = __floats2bfloat162_rn(adam_one(g.x, w.x, m.x, v.x, a), adam_one(g.y, w.y, m.y, v.y, a));
  const __nv_bfloat162 high = __floats2bfloat162_rn(adam_one(g.z, w.z, m.z, v.z, a), adam_one(g.w, w.w, m.w, v.w, a));
  reinterpret_cast<float4*>(o.master)[i] = w;
  reinterpret_cast<float4*>(o.first)[i] = m;
  reinterpret_cast<float4*>(o.second)[i] = v;
  auto* weights = static_cast<__nv_bfloat162*>(o.weight);
  weights[2 * i] = low;
  weights[2 * i + 1] = high;
}

// ---- rows: one block each ----

struct Sum { __device__ float operator()(float a, float b) const { return a + b; } };
struct Largest { __device__ float operator()(float a, float b) const { return fmaxf(a, b); } };

/// Reduces `x` over the block; every thread gets the result.
template <class F>
__device__ float reduce_block(float x, float neutral, F combine) {
  __shared__ float of_warp[kWarp];
  for (int d = kWarp / 2; d > 0; d /= 2) x = combine(x, __shfl_xor_sync(0xffffffffu, x, d));
  const int warps = blockDim.x / kWarp;
  __syncthreads();
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = static_cast<int>(threadIdx.x % kWarp) < warps ? of_warp[threadIdx.x % kWarp] : neutral;
  for (int d = kWarp / 2; d > 0; d /= 2) x = combine(x, __shfl_xor_sync(0xffffffffu, x, d));
  return x;
}

/// A row of at most Pieces * blockDim.x * kWide elements, in registers.
template <int Pieces>
struct Row {
  Eight piece[Pieces];
  int count = 0;
  __device__ Row(const void* x, std::int64_t row, int wide_cols) {
#pragma unroll
    for (int p = 0; p < Pieces; ++p) {
      const int i = threadIdx.x + p * static_cast<int>(blockDim.x);
      if (i >= wide_cols) continue;
      piece[p] = load8(x, row * wide_cols + i);
      count = p + 1;
    }
  }
  template <class F>
  __device__ void each(F f) {
#pragma unroll
    for (int p = 0; p < Pieces; ++p)
      if (p < count)
        for (int j = 0; j < kWide; ++j) f(piece[p].v[j], p, j);
  }
  __device__ void store(void* y, std::int64_t row, int wide_cols) {
#pragma unroll
    for (int p = 0; p < Pieces; ++p)
      if (p < count) store8(y, row * wide_cols + threadIdx.x + p * static_cast<int>(blockDim.x), piece[p]);
  }
};

template <int Pieces, bool Rms>
__global__ void norm_kernel(NormOperands o, int cols, float epsilon) {
  const int wide = cols / kWide;
  Row<Pieces> row(o.x, blockIdx.x, wide);
  float sum = 0, squares = 0;
  if (!Rms) row.each([&](float& v, int, int) { sum += v; });
  const float mean = Rms ? 0 : reduce_block(sum, 0, Sum{}) / cols;
  row.each([&](float& v, int, int) { squares += (v - mean) * (v - mean); });
  const float scale = rsqrtf(reduce_block(squares, 0, Sum{}) / cols + epsilon);
#pragma unroll
  for (int p = 0; p < Pieces; ++p) {
    if (p >= row.count) continue;
    const int at = threadIdx.x + p * static_cast<int>(blockDim.x);
    const Eight gamma = load8(o.gamma, at), beta = Rms ? Eight{} : load8(o.beta, at);
    for (int j = 0; j < kWide; ++j) row.piece[p].v[j] = (row.piece[p].v[j] - mean) * scale * gamma.v[j] + (Rms ? 0 : beta.v[j]);
  }
  row.store(o.y, blockIdx.x, wide);
  if (threadIdx.x == 0) reinterpret_cast<float2*>(o.stats)[blockIdx.x] = float2{mean, scale};
}

template <int Pieces>
__global__ void softmax_kernel(const void* x, void* y, int cols) {
  const int wide = cols / kWide;
  Row<Pieces> row(x, blockIdx.x, wide);
  float largest = -INFINITY, sum = 0;
  row.each([&](float& v, int, int) { largest = fmaxf(largest, v); });
  largest = reduce_block(largest, -INFINITY, Largest{});
  row.each([&](float& v, int, int) { sum += v = __expf(v - largest); });
  const float share = 1 / reduce_block(sum, 0, Sum{});
  row.each([&](float& v, int, int) { v *= share; });
  row.store(y, blockIdx.x, wide);
}

/// Calls launch(Pieces as a constant, threads) with the smallest number of registers that holds a row.
template <class F>
void by_row(std::int64_t cols, F launch) {
  const int wide = static_cast<int>(cols / kWide);
  const int threads = std::min(kThreads, (wide + kWarp - 1) / kWarp * kWarp);
  const int pieces = (wide + threads - 1) / threads;
  if (pieces <= 1) launch(std::integral_constant<int, 1>{}, threads);
  else if (pieces <= 2) launch(std::integral_constant<int, 2>{}, threads);
  else if (pieces <= 4) launch(std::integral_constant<int, 4>{}, threads);
  else launch(std::integral_constant<int, 8>{}, threads);
}

constexpr float kEpsilon = 1e-5f;

template <bool Rms>
void norm(const NormOperands& o, std::int64_t rows, std::int64_t cols, cudaStream_t s) {
  by_row(cols, [&](auto pieces, int threads) {
    norm_kernel<decltype(pieces)::value, Rms><<<static_cast<unsigned>(rows), threads, 0, s>>>(o, static_cast<int>(cols), kEpsilon);
  });
  launched();
}

constexpr int kLossThreads = 512;

__global__ void loss_kernel(LossOperands o, int wide) {
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(wide);
  float largest = -INFINITY, sum = 0;  // of this thread; `sum` is the sum of exp(x - largest)
  for (int i = threadIdx.x; i < wide; i += blockDim.x) {
    const Eight e = load8(o.logits, first + i);
    float here = e.v[0];
    for (int j = 1; j < kWide; ++j) here = fmaxf(here, e.v[j]);
    const float now = fmaxf(largest, here);
    sum *= __expf(largest - now);
    for (int j = 0; j < kWide; ++j) sum += __expf(e.v[j] - now);
    largest = now;
  }
  const float top = reduce_block(largest, -INFINITY, Largest{});
  const float total = reduce_block(sum * __expf(largest - top), 0, Sum{});
  const int target = o.targets[blockIdx.x];
  for (int i = threadIdx.x; i < wide; i += blockDim.x) {
    Eight e = load8(o.logits, first + i);
    for (int j = 0; j < kWide; ++j) {
      const bool hit = i * kWide + j == target;
      if (hit) o.loss[blockIdx.x] = logf(total) + top - e.v[j];
      e.v[j] = __expf(e.v[j] - top) / total - (hit ? 1 : 0);
    }
    store8(o.gradient, first + i, e);
  }
}

}  // namespace

void fill_random(void* data, std::int64_t n, Element type, bool positive, cudaStream_t s) {
  switch (type) {
    case Element::bf16: fill_with<__nv_bfloat16>(data, n, positive, s); break;
    case Element::fp16: fill_with<__half>(data, n, positive, s); break;
    case Element::fp8: fill_with<__nv_fp8_e4m3>(data, n, positive, s); break;
    case Element::fp32: fill_with<float>(data, n, positive, s); break;
  }
  launched();
}

void spin(double seconds, cudaStream_t s) {
  spin_kernel<<<1, 1, 0, s>>>(static_cast<std::int64_t>(seconds * 1e9));
  launched();
}

void empty_kernel(cudaStream_t s) {
  nothing<<<1, 1, 0, s>>>();
  launched();
}

void increment(std::int32_t* counter, cudaStream_t s) {
  increment_kernel<<<1, 1, 0, s>>>(counter);
  launched();
}

void copy(const void* x, void* y, std::int64_t n, cudaStream_t s) {
  copy_kernel<<<blocks_for(n / kWide), kThreads, 0, s>>>(static_cast<const uint4*>(x), static_cast<uint4*>(y), n / kWide);
  launched();
}

void add(const void* a, const void* b, void* y, std::int64_t n, cudaStream_t s) {
  add_kernel<<<blocks_for(n / kWide), kThreads, 0, s>>>(a, b, y, n / kWide);
  launched();
}

void bias_gelu(const void* x, const void* bias, void* y, std::int64_t n, std::int64_t cols, cudaStream_t s) {
  bias_gelu_kernel<<<blocks_for(n / kWide), kThreads, 0, s>>>(x, bias, y, n / kWide, static_cast<unsigned>(cols / kWide));
  launched();
}

void layer_norm(const NormOperands& o, std::int64_t rows, std::int64_t cols, cudaStream_t s) { norm<false>(o, rows, cols, s); }
void rms_norm(const NormOperands& o, std::int64_t rows, std::int64_t cols, cudaStream_t s) { norm<true>(o, rows, cols, s); }

void softmax(const void* x, void* y, std::int64_t rows, std::int64_t cols, cudaStream_t s) {
  by_row(cols, [&](auto pieces, int threads) {
    softmax_kernel<decltype(pieces)::value><<<static_cast<unsigned>(rows), threads, 0, s>>>(x, y, static_cast<int>(cols));
  });
  launched();
}

void cross_entropy(const LossOperands& o, std::int64_t rows, std::int64_t cols, cudaStream_t s) {
  loss_kernel<<<static_cast<unsigned>(rows), kLossThreads, 0, s>>>(o, static_cast<int>(cols / kWide));
  launched();
}

void adamw(const AdamOperands& o, std::int64_t n, cudaStream_t s) {
  adamw_kernel<<<blocks_for(n / 4), kThreads, 0, s>>>(o, AdamNumbers{}, n / 4);
  launched();
}

void cast_fp8(const void* x, void* y, std::int64_t n, cudaStream_t s) {
  cast_kernel<<<blocks_for(n / kWide), kThreads, 0, s>>>(static_cast<const uint4*>(x), static_cast<uint2*>(y), n / kWide);
  launched();
}

void accumulate(const void* x, float* y, std::int64_t n, cudaStream_t s) {
  accumulate_kernel<<<blocks_for(n / kWide), kThreads, 0, s>>>(x, reinterpret_cast<float4*>(y), n / kWide);
  launched();
}

void fill_zero(void* y, std::int64_t bytes, cudaStream_t s) {
  zero_kernel<<<blocks_for(bytes / 16), kThreads, 0, s>>>(static_cast<uint4*>(y), bytes / 16);
  launched();
}

}  // namespace tandem::exec::cuda
