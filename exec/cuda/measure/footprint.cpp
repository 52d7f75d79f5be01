#include "exec/cuda/measure/footprint.hpp"

#include <algorithm>
#include <cmath>

#include "exec/cuda/measure/product_shapes.hpp"

namespace tandem::exec::cuda {

Footprint::Footprint(const Nvml& nvml) : nvml_(nvml), before_(nvml.used_bytes()) {}

double Footprint::used() const {
  if (const auto bytes = nvml_.used_bytes()) return *bytes;
  std::size_t free = 0, all = 0;
  check(cudaMemGetInfo(&free, &all), "asking for free memory");
  return static_cast<double>(all - free);
}

void Footprint::add(const std::string& name, const std::string& how) {
  const double now = used();
  if (before_) {
    const double grown = std::max(now - *before_, 0.0);
    figures_.push_back({name, grown, "B", how});
    total_ += Bytes(std::llround(grown));
  }
  before_ = now;
}

void Footprint::context() {
  check(cudaSetDevice(0), "choosing the device");
  check(cudaFree(nullptr), "creating a context");
  add("context_memory", "device memory in use after the context was created, less before");
}

std::unique_ptr<CublasLt> Footprint::cublaslt() {
  constexpr std::int64_t kSize = 1024;
  constexpr std::size_t kWorkspace = std::size_t{32} << 20;
  const Buffer a(kSize * kSize * 2), b(kSize * kSize * 2), c(kSize * kSize * 2);
  before_ = used();
  auto lt = std::make_unique<CublasLt>();
  const Buffer workspace(kWorkspace);
  const Stream stream;
  auto gemm = Gemm::make(*lt, products_of(MatMul{kSize, kSize, kSize, false, true}, DType::bf16).at(0), {kWorkspace});
  if (!gemm) throw DeviceError("cuBLASLt has no algorithm for a product of 1024 x 1024 bf16 matrices");
  gemm->run({a.data(), b.data(), c.data(), nullptr, workspace.data(), kWorkspace}, stream);
  stream.wait();
  add("cublaslt_memory", "a handle, kernels loaded by a first product, and 32 MiB of workspace");
  return lt;
}

std::string Footprint::nccl() {
  const Library library("libnccl.so.2");
  if (!library) return "";
  int version = 0;
  library.get<int (*)(int*)>("ncclGetVersion")(&version);
  void* communicator = nullptr;
  const int device = 0;
  before_ = used();
  if (library.get<int (*)(void**, int, const int*)>("ncclCommInitAll")(&communicator, 1, &device) != 0) return "";
  add("nccl_memory", "a communicator of one rank (ncclCommInitAll)");
  library.get<int (*)(void*)>("ncclCommDestroy")(communicator);
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
}

}  // namespace tandem::exec::cuda
