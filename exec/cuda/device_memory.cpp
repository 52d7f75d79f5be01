#include "exec/cuda/device_memory.hpp"

#include <algorithm>
#include <utility>

#include "exec/backend/memory_text.hpp"
#include "models/base/error.hpp"
#include "models/graph/memory_plan.hpp"

namespace tandem::exec::cuda {
namespace {

/// A Buffer whose error says how much memory was wanted and how much is free.
Buffer device_buffer(std::size_t bytes) {
  try {
    return Buffer(bytes);
  } catch (const DeviceError&) {
    std::size_t free = 0, all = 0;
    if (cudaGetLastError() != cudaErrorMemoryAllocation || cudaMemGetInfo(&free, &all) != cudaSuccess) throw;
    throw DeviceError(no_device_memory(bytes, free, all));
  }
}

class DeviceMemory final : public Memory {
 public:
  DeviceMemory(std::size_t bytes, std::shared_ptr<Transfers> transfers, std::shared_ptr<AllocatedBytes> book)
      : buffer_(device_buffer(std::max<std::size_t>(bytes, 1))),
        bytes_(bytes),
        transfers_(std::move(transfers)),
        book_(std::move(book)) {
    book_->add(static_cast<std::int64_t>(bytes_));
  }
  ~DeviceMemory() override { book_->add(-static_cast<std::int64_t>(bytes_)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* address() override { return buffer_.data(); }
  std::size_t size() const override { return bytes_; }
  void read(std::size_t at, std::span<std::byte> to) const override {
    require_inside(at, to.size());
    copy(to.data(), buffer_.data() + at, to.size(), cudaMemcpyDeviceToHost);
  }
  void write(std::size_t at, std::span<const std::byte> from) override {
    require_inside(at, from.size());
    copy(buffer_.data() + at, from.data(), from.size(), cudaMemcpyHostToDevice);
  }
  void fill(std::size_t at, std::size_t bytes, std::byte value) override {
    require_inside(at, bytes);
    transfer([&](cudaStream_t s) { return cudaMemsetAsync(buffer_.data() + at, std::to_integer<int>(value), bytes, s); });
  }

 private:
  void require_inside(std::size_t at, std::size_t bytes) const {
    require(at <= bytes_ && bytes <= bytes_ - at, "bytes outside a backend's memory");
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, cudaMemcpyKind kind) const {
    transfer([=](cudaStream_t s) { return cudaMemcpyAsync(to, from, bytes, kind, s); });
  }
  /// Copies and waits. Queues' streams do not synchronise with the default stream, so another stream is used.
  template <class F>
  void transfer(F copy) const {
    std::lock_guard lock(transfers_->mutex);
    check(copy(transfers_->stream), "copying between host and device");
    transfers_->stream.wait();
  }

  Buffer buffer_;
  std::size_t bytes_;
  std::shared_ptr<Transfers> transfers_;
  std::shared_ptr<AllocatedBytes> book_;
};

class PinnedMemory final : public Memory {
 public:
  explicit PinnedMemory(std::size_t bytes) : buffer_(std::max<std::size_t>(bytes, 1), Buffer::Where::host), bytes_(bytes) {}

  std::byte* address() override { return buffer_.data(); }
  std::size_t size() const override { return bytes_; }
  void read(std::size_t at, std::span<std::byte> to) const override {
    std::copy_n(inside(at, to.size()), to.size(), to.data());
  }
  void write(std::size_t at, std::span<const std::byte> from) override {
    std::copy_n(from.data(), from.size(), inside(at, from.size()));
  }
  void fill(std::size_t at, std::size_t bytes, std::byte value) override { std::fill_n(inside(at, bytes), bytes, value); }

 private:
  std::byte* inside(std::size_t at, std::size_t bytes) const {
    require(at <= bytes_ && bytes <= bytes_ - at, "bytes outside a backend's memory");
    return buffer_.data() + at;
  }

  Buffer buffer_;
  std::size_t bytes_;
};

static_assert(kArenaAlignment <= 256, "cudaMalloc aligns to 256 bytes");

}  // namespace

std::unique_ptr<Memory> allocate_pinned(std::size_t bytes) { return std::make_unique<PinnedMemory>(bytes); }

void AllocatedBytes::add(std::int64_t bytes) {
  std::lock_guard lock(mutex);
  live += bytes;
  peak = std::max(peak, live);
}

std::unique_ptr<Memory> allocate(std::size_t bytes, std::shared_ptr<Transfers> transfers, std::shared_ptr<AllocatedBytes> book) {
  return std::make_unique<DeviceMemory>(bytes, std::move(transfers), std::move(book));
}

}  // namespace tandem::exec::cuda
