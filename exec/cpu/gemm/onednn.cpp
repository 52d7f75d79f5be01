// Products by oneDNN, which compiles kernels for the processor that it finds.
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <sys/mman.h>

#include <array>
#include <mutex>
#include <new>
#include <string>

#include "exec/cpu/gemm/gemm.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::cpu {
namespace {

/// oneDNN takes as many threads as OpenMP gives the caller; a rank has one.
void stay_on_this_thread() {
  thread_local bool done = false;
  if (!done) omp_set_num_threads(1);
  done = true;
}

/// What oneDNN's kernels and tables take, with room to spare: 6 MB of addresses were measured (oneDNN 2.6.3, AVX-512).
constexpr std::size_t kKernelRoom = std::size_t{32} << 20;

/// oneDNN ends the process where it cannot have memory for its kernels, so what it will take is asked for beforehand.
void ask_for_room() {
  void* room = mmap(nullptr, kKernelRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  munmap(room, kKernelRoom);
}

}  // namespace

void prepare_products() {
  static std::once_flag once;
  std::call_once(once, [] {
    ask_for_room();
    constexpr int kSide = 16;
    const std::array<float, kSide * kSide> factor{};
    std::array<float, kSide * kSide> result{};
    for (const bool a : {false, true})
      for (const bool b : {false, true})
        multiply(Product<float>{kSide, kSide, kSide, {factor.data(), kSide, a}, {factor.data(), kSide, b}, result.data(), kSide});
  });
}

void multiply(const Product<float>& p) {
  stay_on_this_thread();
  const auto done = dnnl_sgemm(p.a.transposed ? 'T' : 'N', p.b.transposed ? 'T' : 'N', p.m, p.n, p.k, p.scale, p.a.data, p.a.stride,
                               p.b.data, p.b.stride, p.add ? 1.0F : 0.0F, p.c, p.c_stride);
  if (done == dnnl_out_of_memory) throw std::bad_alloc();
  if (done != dnnl_success) throw DeviceError("oneDNN refuses a product (status " + std::to_string(done) + ")");
}

}  // namespace tandem::exec::cpu
