#include "exec/cuda/device_engine.hpp"

#include <algorithm>

#include "exec/cuda/launch.hpp"
#include "exec/cuda/resources.hpp"
#include "exec/device/fold.hpp"

namespace tandem::exec::cuda {
namespace {

device::FoldKernel kernel_of(const Fold& f) {
  require(f.in.size() <= device::kMostMembers && f.out.size() <= device::kMostMembers, "more ranks on a device than a fold has operands");
  device::FoldKernel k{};
  k.form = device::Form::mixed;
  std::copy(f.in.begin(), f.in.end(), k.in);
  std::copy(f.out.begin(), f.out.end(), k.out);
  k.members = static_cast<int>(f.in.size()), k.outputs = static_cast<int>(f.out.size());
  k.begin = f.begin, k.count = f.end - f.begin, k.to = f.to;
  k.type = f.type, k.reduce = f.reduce;
  return k;
}

class DeviceEngine final : public MemoryEngine {
 public:
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    if (bytes <= 0 || to == from) return;
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, cudaStreamPerThread), "copying between ranks");
  }
  void fold(const Fold& f) override {
    if (f.end > f.begin) launch(kernel_of(f), cudaStreamPerThread);
  }
  void finish() override { check(cudaStreamSynchronize(cudaStreamPerThread), "waiting for the device"); }
};

}  // namespace

MemoryEngine& device_engine() {
  static DeviceEngine engine;
  return engine;
}

}  // namespace tandem::exec::cuda
