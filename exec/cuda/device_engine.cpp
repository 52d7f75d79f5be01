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
    StreamEngine(cudaStreamPerThread).copy(to, from, bytes);
  }
  void fold(const Fold& f) override { StreamEngine(cudaStreamPerThread).fold(f); }
  void finish() override { check(cudaStreamSynchronize(cudaStreamPerThread), "waiting for the device"); }
};

class PinnedArea final : public StagingArea {
 public:
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    const auto kept = std::make_shared<Buffer>(std::max<std::size_t>(bytes, 1), Buffer::Where::host);
    return {kept, kept->data()};
  }
  void to_host(std::byte* to, const std::byte* from, std::int64_t bytes) override { copy(to, from, bytes, cudaMemcpyDeviceToHost); }
  void to_device(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    copy(to, from, bytes, cudaMemcpyHostToDevice);
  }

 private:
  static void copy(std::byte* to, const std::byte* from, std::int64_t bytes, cudaMemcpyKind kind) {
    if (bytes <= 0) return;
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, cudaStreamPerThread), "copying through the host");
    check(cudaStreamSynchronize(cudaStreamPerThread), "copying through the host");
  }
};

}  // namespace

void StreamEngine::copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (bytes <= 0 || to == from) return;
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream_), "copying between ranks");
}

void StreamEngine::fold(const Fold& f) {
  if (f.end > f.begin) launch(kernel_of(f), stream_);
}

StagingArea& device_staging_area() {
  static PinnedArea area;
  return area;
}

MemoryEngine& device_engine() {
  static DeviceEngine engine;
  return engine;
}

}  // namespace tandem::exec::cuda
