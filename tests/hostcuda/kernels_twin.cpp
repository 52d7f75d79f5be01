// Stands for exec/cuda/kernels.cu: what the algorithm timer needs of it. The others measure a device, which is not there.
#include "exec/cuda/kernels.hpp"

#include <bit>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>

#include "exec/cuda/resources.hpp"
#include "models/base/error.hpp"
#include "models/base/narrow.hpp"
#include "tests/hostcuda/runtime/issue.hpp"

namespace tandem::exec::cuda {
namespace {

void put(cudaStream_t s, std::function<void()> work) { check(hostcuda::issue(s, std::move(work)), "launching a kernel"); }

[[noreturn]] void refuse() { throw ContractError("kernels that measure a device have no twin on the host"); }

}  // namespace

void fill_random(void* data, std::int64_t n, Element type, bool positive, cudaStream_t s) {
  put(s, [=] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> uniform;
    for (std::int64_t i = 0; i < n; ++i) {
      const float value = positive ? uniform(random) : normal(random);
      if (type == Element::fp32) static_cast<float*>(data)[i] = value;
      else if (type == Element::bf16) static_cast<std::uint16_t*>(data)[i] = to_bf16(value);
      else if (type == Element::fp16) static_cast<std::uint16_t*>(data)[i] = to_fp16(value);
      else refuse();
    }
  });
}

void spin(double seconds, cudaStream_t s) {
  put(s, [=] { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); });
}

void empty_kernel(cudaStream_t) { refuse(); }
void increment(std::int32_t*, cudaStream_t) { refuse(); }
void copy(const void*, void*, std::int64_t, cudaStream_t) { refuse(); }
void add(const void*, const void*, void*, std::int64_t, cudaStream_t) { refuse(); }
void bias_gelu(const void*, const void*, void*, std::int64_t, std::int64_t, cudaStream_t) { refuse(); }
void layer_norm(const NormOperands&, std::int64_t, std::int64_t, cudaStream_t) { refuse(); }
void rms_norm(const NormOperands&, std::int64_t, std::int64_t, cudaStream_t) { refuse(); }
void softmax(const void*, void*, std::int64_t, std::int64_t, cudaStream_t) { refuse(); }
void cross_entropy(const LossOperands&, std::int64_t, std::int64_t, cudaStream_t) { refuse(); }
void adamw(const AdamOperands&, std::int64_t, cudaStream_t) { refuse(); }
void cast_fp8(const void*, void*, std::int64_t, cudaStream_t) { refuse(); }
void accumulate(const void*, float*, std::int64_t, cudaStream_t) { refuse(); }
void fill_zero(void*, std::int64_t, cudaStream_t) { refuse(); }

}  // namespace tandem::exec::cuda
