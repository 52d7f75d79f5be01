#include "exec/cuda/device_queue.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "exec/cuda/launch.hpp"
#include "exec/device/fault_text.hpp"

namespace tandem::exec::cuda {

struct DeviceQueue::Performer {
  DeviceQueue& q;

  void operator()(const device::Product& p) const { q.products_.run(p, q.stream_); }
  void operator()(const device::Clearing& c) const {
    check(cudaMemsetAsync(c.address, std::to_integer<int>(c.value), static_cast<std::size_t>(c.bytes), q.stream_), "clearing memory");
  }
  void operator()(const device::FlashKernel& kernel) const {
    const auto call = [&](const device::AttentionCall& c) { return q.attention_.forward(c); };
    if (!by_library(kernel, call)) launch(kernel, q.stream_);
    else if (kernel.merges) launch(device::merge_of(kernel), q.stream_);
  }
  void operator()(const device::FlashGradKernels& kernels) const {
    const auto call = [&](const device::AttentionCall& c) { return q.attention_.backward(c); };
    if (by_library(kernels, call)) return add_parts(kernels);
    launch(kernels.query, q.stream_);
    launch(kernels.key, q.stream_);
  }
  template <class Kernel>
  void operator()(const Kernel& kernel) const {
    launch(kernel, q.stream_);
  }

 private:
  void add_parts(const device::FlashGradKernels& kernels) const {
    if (!kernels.query.adds) return;
    for (const device::RingAddKernel& add : device::adds_of(kernels)) launch(add, q.stream_);
  }
  /// Calls the library for all calls. Returns false, noting why, if it refuses. All calls share a shape, so the first answer holds.
  template <class Kernels, class Call>
  bool by_library(const Kernels& kernels, Call call) const {
    std::string reason = device::beyond_libraries(kernels);
    if (reason.empty()) {
      const auto calls = device::calls_of(kernels);
      if (std::all_of(calls.begin(), calls.end(), call)) return true;
      reason = q.attention_.reason();
    }
    q.own_attention_.insert(reason);
    return false;
  }
};

void DeviceMark::wait() {
  event_.wait();
  device::throw_of(shared_.found());
}

/// Plans what libraries do.
struct DeviceQueue::Planner {
  DeviceQueue& q;
  bool counted = false;  ///< products stand for those of other numbers of rows

  void operator()(const device::Product& p) const { q.products_.prepare(p, counted, q.stream_); }
  void operator()(const device::FlashKernel& kernel) const {
    if (!device::beyond_libraries(kernel).empty()) return;
    for (const device::AttentionCall& call : device::calls_of(kernel)) q.attention_.prepare_forward(call);
  }
  void operator()(const device::FlashGradKernels& kernels) const {
    if (!device::beyond_libraries(kernels).empty()) return;
    for (const device::AttentionCall& call : device::calls_of(kernels)) q.attention_.prepare_backward(call);
  }
  void operator()(const auto&) const {}
};

void DeviceQueue::prepare(const Launch& launch) {
  if (counted_rows(launch.op)) return prepare_counted(launch);
  const device::WorkContext around{shared_.pieces.of(launch), &shared_.found(), scratch(device::scratch_bytes(launch))};
  retired_.clear();
  const bool attends =
      std::holds_alternative<FlashAttention>(launch.op) || std::holds_alternative<FlashAttentionBackward>(launch.op);
  if (!attends && !device::has_products(launch.op)) return;
  for (const device::Work& work : device::works_of(launch, around)) std::visit(Planner{*this}, work);
}

// Numbers of rows are known only during the step. The library chooses among kernels by size, so powers of two load most of them.
void DeviceQueue::prepare_counted(const Launch& launch) {
  scratch(device::most_scratch_bytes(launch));
  retired_.clear();
  const device::WorkContext around{shared_.pieces.of(launch), &shared_.found(), scratch_.data()};
  for (std::int64_t rows = 1; rows <= device::most_rows(launch); rows *= 2) {
    const Op one = device::of_one_expert(launch.op, rows);
    const std::int32_t counts[] = {static_cast<std::int32_t>(rows)};
    const Launch known{one, launch.compute, launch.in, launch.out, launch.context, counts};
    for (const device::Work& work : device::works_of(known, around)) std::visit(Planner{*this, true}, work);
  }
}

void DeviceQueue::run(const Launch& launch) {
  if (const auto* op = std::get_if<HostCopy>(&launch.op)) {
    const auto kind = op->to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    const Tensor& device = op->to_host ? launch.in[0] : launch.out[0];
    const auto bytes = static_cast<std::size_t>(bytes_of(device.dtype, device.elements).count());
    return check(cudaMemcpyAsync(launch.out[0].address, launch.in[0].address, bytes, kind, stream_), "copying what is offloaded");
  }
  if (const auto counts = counted_rows(launch.op); counts && launch.rows.empty()) return run_counted(launch, launch.in[*counts]);
  const device::WorkContext around{shared_.pieces.of(launch), &shared_.found(), scratch(device::scratch_bytes(launch))};
  for (const device::Work& work : device::works_of(launch, around)) {
    std::visit(Performer{*this}, work);
    flops_ += device::product_flops(work);
  }
}

void DeviceQueue::run_counted(const Launch& launch, const Tensor& counts) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(counts.elements));
  download(std::as_writable_bytes(std::span(rows)), counts.address);
  stream_.wait();
  Launch known = launch;
  known.rows = rows;
  run(known);
}

void DeviceQueue::download(std::span<std::byte> to, const std::byte* from) {
  if (!to.empty()) check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_), "copying to the host");
}

void DeviceQueue::finish() {
  idle_.record(stream_);
  idle_.wait();
  device::throw_of(shared_.found());
}

std::byte* DeviceQueue::scratch(std::int64_t bytes) {
  if (static_cast<std::int64_t>(scratch_.size()) < bytes) {
    if (scratch_.size() > 0) retired_.push_back(std::move(scratch_));
    scratch_ = Buffer(static_cast<std::size_t>(bytes));
  }
  return scratch_.data();
}

}  // namespace tandem::exec::cuda
