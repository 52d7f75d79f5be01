#pragma once
// A rank's queues and marks on the device: CUDA streams and events.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "exec/backend/queue.hpp"
#include "exec/backend/update_rows.hpp"
#include "exec/cuda/attention.hpp"
#include "exec/cuda/device_clock.hpp"
#include "exec/cuda/rank_products.hpp"
#include "exec/cuda/staging.hpp"
#include "exec/device/works/work.hpp"

namespace tandem::exec::cuda {

/// State shared by all queues of a rank.
struct RankShared {
  std::shared_ptr<DeviceClock> clock = std::make_shared<DeviceClock>();
  std::shared_ptr<Buffer> fault;  ///< a device::Fault in pinned memory
  PieceForms<device::Pieces> pieces;

  device::Fault& found() const { return *reinterpret_cast<device::Fault*>(fault->data()); }
};

class DeviceMark final : public Mark {
 public:
  explicit DeviceMark(const RankShared& shared) : shared_(shared) {}
  void wait() override;
  std::chrono::steady_clock::time_point reached() const override { return shared_.clock->time_of(event_); }
  void set(cudaStream_t stream) { event_.record(stream); }
  void hold(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, event_, 0), "making a stream wait"); }

 private:
  const RankShared& shared_;
  Event event_{cudaEventBlockingSync};
};

class DeviceQueue final : public Queue {
 public:
  DeviceQueue(const RankShared& shared, ProductMeans products, bool deterministic)
      : shared_(shared), products_(std::move(products)), attention_(stream_, deterministic) {}

  void prepare(const Launch& launch) override;
  void run(const Launch& launch) override;
  void upload(std::byte* to, std::span<const std::byte> from) override { staging_.upload(to, from, stream_); }
  void download(std::span<std::byte> to, const std::byte* from) override;
  void mark(Mark& mark) override { static_cast<DeviceMark&>(mark).set(stream_); }
  void wait(const Mark& mark) override { static_cast<const DeviceMark&>(mark).hold(stream_); }
  void finish() override;

  std::int64_t product_flops() const { return flops_; }
  cudaStream_t stream() const { return stream_; }
  /// Reasons why attention did not run on cuDNN.
  const std::set<std::string>& own_attention() const { return own_attention_; }
  /// Scratch memory in bytes: of matrix products, of attention, and of other operations.
  std::int64_t workspace_bytes() const {
    std::size_t bytes = products_.workspace_bytes() + attention_.workspace_bytes() + scratch_.size();
    for (const Buffer& old : retired_) bytes += old.size();
    return static_cast<std::int64_t>(bytes);
  }

 private:
  /// Plans products of experts for several numbers of rows, and reserves scratch memory for the most rows.
  void prepare_counted(const Launch& launch);
  /// Waits for the row counts of the experts, reads them, and runs the launch.
  void run_counted(const Launch& launch, const Tensor& counts);
  /// At least `bytes` bytes of scratch memory, for one operation at a time.
  std::byte* scratch(std::int64_t bytes);
  /// Performs an operation's works one after the other.
  struct Performer;
  struct Planner;

  const RankShared& shared_;
  Stream stream_;
  RankProducts products_;
  CudnnAttention attention_;
  std::set<std::string> own_attention_;
  Staging staging_;
  Buffer scratch_;
  std::vector<Buffer> retired_;  ///< buffers that were too small. cudaFree() would wait for NCCL, which may wait for this thread
  Event idle_{cudaEventBlockingSync | cudaEventDisableTiming};
  std::int64_t flops_ = 0;
};

}  // namespace tandem::exec::cuda
