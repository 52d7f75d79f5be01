// Matrix products by oneDNN, which compiles kernels for the present processor.
#include <oneapi/dnnl/dnnl.hpp>
#include <omp.h>
#include <sys/mman.h>

#include <array>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include "exec/cpu/gemm/gemm.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::cpu {
namespace {

/// oneDNN uses OpenMP's number of threads; a rank needs one.
void stay_on_this_thread() {
  thread_local bool done = false;
  if (!done) omp_set_num_threads(1);
  done = true;
}

/// Generous memory for oneDNN's kernels and tables: 6 MB of addresses were measured (oneDNN 2.6.3, AVX-512).
constexpr std::size_t kKernelBytes = std::size_t{32} << 20;

/// Checks that the memory is available, because oneDNN would end the process without it.
void require_kernel_memory() {
  void* mapped = mmap(nullptr, kKernelBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  munmap(mapped, kKernelBytes);
}

struct Processor {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

/// Each thread has its own stream.
Processor& processor() {
  thread_local Processor mine;
  return mine;
}

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, const Factor<Bf16>& f) {
  const dnnl::memory::dims strides = f.transposed ? dnnl::memory::dims{1, f.stride} : dnnl::memory::dims{f.stride, 1};
  return {{rows, columns}, dnnl::memory::data_type::bf16, strides};
}

dnnl::matmul::primitive_desc described(const Product<float, Bf16>& p, const dnnl::engine& engine) {
  const dnnl::memory::desc c({p.m, p.n}, dnnl::memory::data_type::f32, dnnl::memory::dims{p.c_stride, 1});
  dnnl::primitive_attr attributes;
  if (p.add) {
    dnnl::post_ops behind;
    behind.append_sum(1.0F);
    attributes.set_post_ops(behind);
  }
  const auto a = matrix(p.m, p.k, p.a), b = matrix(p.k, p.n, p.b);
#if DNNL_VERSION_MAJOR < 3
  return {{a, b, c}, attributes, engine};
#else
  return {engine, a, b, c, attributes};
#endif
}

struct Kernel {
  dnnl::memory::desc a, b, c;
  dnnl::matmul multiply;
};

/// oneDNN shares kernels among threads. Only one thread creates them at a time, so that others never see partial ones.
Kernel made(const Product<float, Bf16>& p, const dnnl::engine& engine) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const dnnl::matmul::primitive_desc d = described(p, engine);
  return {d.src_desc(), d.weights_desc(), d.dst_desc(), dnnl::matmul(d)};
}

/// A cache per thread. Expert layers without capacity create ever new shapes, so a full cache is cleared.
const Kernel& kernel_of(const Product<float, Bf16>& p, const dnnl::engine& engine) {
  constexpr std::size_t kMost = 1024;
  using Key = std::array<std::int64_t, 9>;
  thread_local std::map<Key, Kernel> kept;
  const Key key{p.m, p.n, p.k, p.a.stride, p.b.stride, p.c_stride, p.a.transposed, p.b.transposed, p.add};
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  if (kept.size() >= kMost) kept.clear();
  return kept.emplace(key, made(p, engine)).first->second;
}

void run(const Product<float, Bf16>& p) {
  Processor& on = processor();
  const Kernel& kernel = kernel_of(p, on.engine);
  const auto memory = [&](const dnnl::memory::desc& as, const void* at) {
    return dnnl::memory(as, on.engine, const_cast<void*>(at));
  };
  kernel.multiply.execute(on.stream, {{DNNL_ARG_SRC, memory(kernel.a, p.a.data)},
                                      {DNNL_ARG_WEIGHTS, memory(kernel.b, p.b.data)},
                                      {DNNL_ARG_DST, memory(kernel.c, p.c)}});
  on.stream.wait();
}

[[noreturn]] void refuse(dnnl_status_t status) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  throw DeviceError("oneDNN refuses a product (status " + std::to_string(status) + ")");
}

/// Multiplies 16 x 16 matrices in all four combinations of transposed factors.
template <class F>
void multiply_small() {
  constexpr int kSide = 16;
  const std::array<F, kSide * kSide> factor{};
  std::array<float, kSide * kSide> result{};
  for (const bool a : {false, true})
    for (const bool b : {false, true})
      multiply(Product<float, F>{kSide, kSide, kSide, {factor.data(), kSide, a}, {factor.data(), kSide, b}, result.data(), kSide});
}

}  // namespace

void prepare_products() {
  static std::once_flag once;
  std::call_once(once, [] {
    require_kernel_memory();
    multiply_small<float>();
    if (multiplies_bf16()) multiply_small<Bf16>();
  });
}

void multiply(const Product<float>& p) {
  stay_on_this_thread();
  const auto done = dnnl_sgemm(p.a.transposed ? 'T' : 'N', p.b.transposed ? 'T' : 'N', p.m, p.n, p.k, p.scale, p.a.data, p.a.stride,
                               p.b.data, p.b.stride, p.add ? 1.0F : 0.0F, p.c, p.c_stride);
  if (done != dnnl_success) refuse(done);
}

bool multiplies_bf16() {
  static const auto has = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  constexpr auto kBf16 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);  // its own bit, and those of sets that it includes
  return (has & kBf16) == kBf16;
}

void multiply(const Product<float, Bf16>& p) {
  require(p.scale == 1, "a product of bf16 is not scaled");
  stay_on_this_thread();
  try {
    run(p);
  } catch (const dnnl::error& e) {
    refuse(e.status);
  }
}

}  // namespace tandem::exec::cpu
