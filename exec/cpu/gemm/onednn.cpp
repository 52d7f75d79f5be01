// Products by oneDNN, which compiles kernels for the processor that it finds.
#include <omp.h>

#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "exec/cpu/gemm/gemm.hpp"
#include "models/base/error.hpp"

namespace tandem::exec::cpu {
namespace {

using Shape = std::array<std::int64_t, 7>;  // m, n, k, strides of both factors, which are transposed

/// oneDNN takes as many threads as OpenMP gives the caller; a rank has one.
void stay_on_this_thread() {
  thread_local bool done = false;
  if (!done) omp_set_num_threads(1);
  done = true;
}

dnnl::memory::desc factor(std::int64_t rows, std::int64_t cols, const Factor<std::uint16_t>& f) {
  const dnnl::memory::dims strides = f.transposed ? dnnl::memory::dims{1, f.stride} : dnnl::memory::dims{f.stride, 1};
  return {{rows, cols}, dnnl::memory::data_type::bf16, strides};
}

/// What a thread has compiled, by shape: looking a primitive up costs more than a small product.
class Compiled {
 public:
  void multiply(const NarrowProduct& p) {
    const auto [place, fresh] = made_.try_emplace(shape(p));
    if (fresh) place->second = make(p);
    dnnl::matmul& product = place->second;
    const auto at = [this](const dnnl::memory::desc& of, const void* data) {
      return dnnl::memory(of, engine_, const_cast<void*>(data));
    };
    product.execute(stream_, {{DNNL_ARG_SRC, at(factor(p.m, p.k, p.a), p.a.data)},
                              {DNNL_ARG_WEIGHTS, at(factor(p.k, p.n, p.b), p.b.data)},
                              {DNNL_ARG_DST, at(result(p), p.c)}});
  }

 private:
  static Shape shape(const NarrowProduct& p) {
    return {p.m, p.n, p.k, p.a.stride, p.b.stride, p.a.transposed, p.b.transposed};
  }
  static dnnl::memory::desc result(const NarrowProduct& p) {
    return {{p.m, p.n}, dnnl::memory::data_type::f32, dnnl::memory::dims{p.n, 1}};
  }
  dnnl::matmul make(const NarrowProduct& p) {
    return dnnl::matmul({{factor(p.m, p.k, p.a), factor(p.k, p.n, p.b), result(p)}, engine_});
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Shape, dnnl::matmul> made_;
};

}  // namespace

void multiply(const Product<float>& p) {
  stay_on_this_thread();
  const auto done = dnnl_sgemm(p.a.transposed ? 'T' : 'N', p.b.transposed ? 'T' : 'N', p.m, p.n, p.k, p.scale, p.a.data, p.a.stride,
                               p.b.data, p.b.stride, p.add ? 1.0F : 0.0F, p.c, p.c_stride);
  if (done != dnnl_success) throw DeviceError("oneDNN refuses a product (status " + std::to_string(done) + ")");
}

bool multiplies_bf16() {
  constexpr int kNeeded = dnnl_cpu_isa_avx512_core_bf16;  // a set of bits, as every instruction set is there
  static const bool answer = (static_cast<int>(dnnl::get_effective_cpu_isa()) & kNeeded) == kNeeded;
  return answer;
}

void multiply(const NarrowProduct& product) {
  require(multiplies_bf16(), "a processor that does not multiply bf16");
  stay_on_this_thread();
  thread_local Compiled compiled;
  compiled.multiply(product);
}

}  // namespace tandem::exec::cpu
