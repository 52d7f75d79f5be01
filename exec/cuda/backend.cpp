// The CUDA backend of one rank: one stream per queue, products by cuBLASLt, other kernels by Tandem. Ranks of one process share the
// first device.
#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "exec/cuda/device_engine.hpp"
#include "exec/cuda/device_facts.hpp"
#include "exec/cuda/device_memory.hpp"
#include "exec/cuda/device_queue.hpp"
#include "exec/cuda/launch.hpp"
#include "exec/cuda/step_graph.hpp"
#include "exec/device/cuda.hpp"
#include "exec/device/piece_ranges.hpp"

namespace tandem::exec {
namespace cuda {
namespace {

constexpr std::size_t kHopperWorkspace = std::size_t{32} << 20, kWorkspace = std::size_t{8} << 20;

/// One handle for all ranks of the process.
std::shared_ptr<const CublasLt> shared_cublaslt() {
  static std::mutex mutex;
  static std::weak_ptr<const CublasLt> kept;
  std::lock_guard lock(mutex);
  auto lt = kept.lock();
  if (!lt) kept = lt = std::make_shared<const CublasLt>();
  return lt;
}

/// Shared memory that a launch can ask for.
std::size_t most_shared() {
  int bytes = 0;
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), "asking for the device's shared memory");
  return static_cast<std::size_t>(bytes) - kMostOwnShared;
}

std::int64_t bytes_in_use() {
  std::size_t free = 0, all = 0;
  if (cudaMemGetInfo(&free, &all) != cudaSuccess) return 0;  // counters may also be read after a failure
  return static_cast<std::int64_t>(all - free);
}

std::shared_ptr<Buffer> no_fault() {
  auto fault = std::make_shared<Buffer>(sizeof(device::Fault), Buffer::Where::host);
  *reinterpret_cast<device::Fault*>(fault->data()) = {};
  return fault;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(const DeviceFacts& facts, const CudaOptions& options)
      : options_(options),
        products_{shared_cublaslt(), facts.major >= 9 ? kHopperWorkspace : kWorkspace, options.choices},
        most_shared_(most_shared()) {
    shared_.fault = no_fault();
    write_value(*table_, 0, StepTable{});
  }

  std::string_view name() const override { return "cuda"; }
  bool asynchronous() const override { return true; }
  bool needs_rows() const override { return true; }
  Answer supports(const Op& op, const OperandTypes& types) const override {
    if (std::holds_alternative<HostCopy>(op)) return {};
    return device::can(op, types, most_shared_);
  }
  std::unique_ptr<Memory> allocate(std::size_t bytes) override { return cuda::allocate(bytes, transfers_, book_); }
  Memory& step_table() override { return *table_; }
  Memory& documents(std::size_t bytes) override {
    if (!documents_) documents_ = cuda::allocate(bytes, transfers_, table_book_);
    return *documents_;
  }
  std::unique_ptr<Memory> allocate_host(std::size_t bytes) override { return allocate_pinned(bytes); }
  void load_pieces(std::span<const PieceRow> rows) override {
    piece_memory_.clear();
    host_rows_.clear();
    shared_.pieces = {pieces_of(rows), {}};
  }
  void split_updates(std::span<const UpdateRows> updates) override {
    shared_.pieces.updates.clear();
    for (const UpdateRows& u : updates) shared_.pieces.updates.emplace_back(u.unit, pieces_of(u.rows));
  }
  Queue& queue(tandem::Stream stream) override {
    std::lock_guard lock(mutex_);
    auto& place = queues_[static_cast<std::size_t>(stream)];
    if (!place) place = std::make_unique<DeviceQueue>(shared_, products_, options_.deterministic);
    return *place;
  }
  std::unique_ptr<Mark> make_mark() override {
    shared_.clock->refresh();  // marks are made before a step sets them, also before a recorded step
    return std::make_unique<DeviceMark>(shared_);
  }
  std::unique_ptr<Replay> capture(const std::function<void()>& issue) override {
    std::vector<cudaStream_t> streams{static_cast<DeviceQueue&>(queue(tandem::Stream::compute)).stream()};
    for (const auto& q : queues_)
      if (q && q->stream() != streams.front()) streams.push_back(q->stream());
    const std::int64_t before = issued_flops();
    auto graph = std::make_unique<StepGraph>(streams, issue);
    const std::int64_t flops = issued_flops() - before;
    replayed_flops_ -= flops;  // issued, but not performed yet
    return std::make_unique<Counted>(std::move(graph), [this, flops] { replayed_flops_ += flops; });
  }
  std::vector<std::string> notes() const override {
    std::set<std::string> reasons;
    for (const auto& q : queues_)
      if (q) reasons.insert(q->own_attention().begin(), q->own_attention().end());
    std::vector<std::string> all;
    for (const auto& r : reasons) all.push_back("attention is Tandem's own kernel, without tensor cores, where cuDNN cannot do it: " + r);
    return all;
  }
  BackendCounters counters() const override {
    std::int64_t workspaces = 0;
    for (const auto& q : queues_) workspaces += q ? q->workspace_bytes() : 0;
    std::lock_guard lock(book_->mutex);
    return {issued_flops() + replayed_flops_, book_->live, book_->peak, workspaces, bytes_in_use()};
  }

 private:
  /// Adds a replay's FLOPs to the counters.
  class Counted final : public Replay {
   public:
    Counted(std::unique_ptr<Replay> inner, std::function<void()> count) : inner_(std::move(inner)), count_(std::move(count)) {}
    void start() override { inner_->start(), count_(); }

   private:
    std::unique_ptr<Replay> inner_;
    std::function<void()> count_;
  };

  /// Copies the rows to the device, where they stay until the next load_pieces().
  device::Pieces pieces_of(std::span<const PieceRow> rows) {
    const auto ranges = device::piece_ranges(rows);
    const auto rows_at = on_device(std::as_bytes(rows)), ranges_at = on_device(std::as_bytes(std::span(ranges)));
    return {reinterpret_cast<const PieceRow*>(rows_at), reinterpret_cast<const device::PieceRange*>(ranges_at),
            static_cast<std::int64_t>(ranges.size()), device::end_of_states(rows), device::end_of_parameters(rows),
            device::end_of_squares(rows), host_rows_.emplace_back(rows.begin(), rows.end())};
  }
  const std::byte* on_device(std::span<const std::byte> bytes) {
    piece_memory_.push_back(cuda::allocate(bytes.size(), transfers_, table_book_));
    piece_memory_.back()->write(0, bytes);
    return piece_memory_.back()->address();
  }

  std::int64_t issued_flops() const {
    std::int64_t flops = 0;
    for (const auto& q : queues_) flops += q ? q->product_flops() : 0;
    return flops;
  }

  CudaOptions options_;
  std::int64_t replayed_flops_ = 0;
  ProductMeans products_;
  std::size_t most_shared_;
  std::shared_ptr<Transfers> transfers_ = std::make_shared<Transfers>();
  std::shared_ptr<AllocatedBytes> book_ = std::make_shared<AllocatedBytes>(), table_book_ = std::make_shared<AllocatedBytes>();
  std::unique_ptr<Memory> table_ = cuda::allocate(sizeof(StepTable), transfers_, table_book_), documents_;
  std::vector<std::unique_ptr<Memory>> piece_memory_;
  std::deque<std::vector<PieceRow>> host_rows_;
  RankShared shared_;
  std::mutex mutex_;
  std::array<std::unique_ptr<DeviceQueue>, kStreams> queues_;  ///< last: they use all of the above
};

}  // namespace
}  // namespace cuda

void require_cuda_device() { cuda::require_device(); }

CudaCard cuda_card() {
  const cuda::DeviceFacts facts = cuda::require_device();
  CudaCard card{facts.card, "cuBLASLt " + cuda::shared_cublaslt()->version()};
  for (const Figure& f : facts.figures) {
    if (f.name == "multiprocessors") card.multiprocessors = static_cast<std::int64_t>(f.value);
    if (f.name == "memory") card.memory_bytes = static_cast<std::int64_t>(f.value);
  }
  return card;
}

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::make_unique<cuda::CudaBackend>(cuda::require_device(), options);
}

std::vector<std::unique_ptr<Communicator>> make_cuda_communicators(int world) {
  cuda::require_device();
  return make_thread_communicators(world, cuda::device_engine());
}

StagingArea& cuda_staging_area() {
  cuda::require_device();
  return cuda::device_staging_area();
}

}  // namespace tandem::exec
