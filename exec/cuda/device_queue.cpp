#include "exec/cuda/device_queue.hpp"

#include <type_traits>
#include <variant>

#include "exec/cuda/launch.hpp"
#include "exec/device/fault_text.hpp"

namespace tandem::exec::cuda {
namespace {

/// One after the other on a stream.
struct Performer {
  RankProducts& products;
  cudaStream_t stream;

  void operator()(const device::Product& p) const { products.run(p, stream); }
  void operator()(const device::Clearing& c) const {
    check(cudaMemsetAsync(c.address, std::to_integer<int>(c.value), static_cast<std::size_t>(c.bytes), stream), "clearing memory");
  }
  template <class Kernel>
  void operator()(const Kernel& kernel) const {
    launch(kernel, stream);
  }
};

}  // namespace

void DeviceMark::wait() {
  event_.wait();
  device::throw_of(shared_.found());
}

void DeviceQueue::prepare(const Launch& launch) {
  const device::Surroundings around{shared_.pieces, &shared_.found(), room(device::room_bytes(launch.op))};
  if (!device::is_product(launch.op)) return;
  for (const device::Work& work : device::works_of(launch, around))
    if (const auto* product = std::get_if<device::Product>(&work)) products_.prepare(*product, stream_);
}

void DeviceQueue::run(const Launch& launch) {
  const device::Surroundings around{shared_.pieces, &shared_.found(), room(device::room_bytes(launch.op))};
  for (const device::Work& work : device::works_of(launch, around)) {
    std::visit(Performer{products_, stream_}, work);
    flops_ += device::product_flops(work);
  }
}

void DeviceQueue::download(std::span<std::byte> to, const std::byte* from) {
  if (!to.empty()) check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_), "copying to the host");
}

void DeviceQueue::finish() {
  idle_.record(stream_);
  idle_.wait();
  device::throw_of(shared_.found());
}

std::byte* DeviceQueue::room(std::int64_t bytes) {
  if (static_cast<std::int64_t>(room_.size()) < bytes) {
    stream_.wait();
    room_ = Buffer(static_cast<std::size_t>(bytes));
  }
  return room_.data();
}

}  // namespace tandem::exec::cuda
