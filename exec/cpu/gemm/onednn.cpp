// Products by oneDNN, which compiles kernels for the processor that it finds.
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>

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

}  // namespace

void multiply(const Product<float>& p) {
  stay_on_this_thread();
  const auto done = dnnl_sgemm(p.a.transposed ? 'T' : 'N', p.b.transposed ? 'T' : 'N', p.m, p.n, p.k, p.scale, p.a.data, p.a.stride,
                               p.b.data, p.b.stride, p.add ? 1.0F : 0.0F, p.c, p.c_stride);
  if (done != dnnl_success) throw DeviceError("oneDNN refuses a product (status " + std::to_string(done) + ")");
}

}  // namespace tandem::exec::cpu
