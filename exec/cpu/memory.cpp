#include "exec/cpu/memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "exec/backend/memory_text.hpp"
#include "models/base/error.hpp"
#include "models/base/threads.hpp"
#include "models/graph/memory_plan.hpp"

namespace tandem::exec::cpu {
namespace {

constexpr std::align_val_t kAlignment{static_cast<std::size_t>(kArenaAlignment)};

class HostMemory final : public Memory {
 public:
  HostMemory(std::byte* data, std::size_t bytes, std::shared_ptr<AllocatedBytes> book)
      : data_(data), bytes_(bytes), book_(std::move(book)) {
    book_->live += static_cast<std::int64_t>(bytes_);
    book_->peak = std::max(book_->peak, book_->live);
  }
  ~HostMemory() override {
    book_->live -= static_cast<std::int64_t>(bytes_);
    ::operator delete(data_, kAlignment);
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* address() override { return data_; }
  std::size_t size() const override { return bytes_; }
  void read(std::size_t at, std::span<std::byte> to) const override {
    require_inside(at, to.size());
    if (!to.empty()) std::memcpy(to.data(), data_ + at, to.size());
  }
  void write(std::size_t at, std::span<const std::byte> from) override {
    require_inside(at, from.size());
    if (!from.empty()) std::memcpy(data_ + at, from.data(), from.size());
  }
  void fill(std::size_t at, std::size_t bytes, std::byte value) override {
    require_inside(at, bytes);
    // On all cores: first touching an arena is slow, because the kernel must then find its pages.
    constexpr std::size_t kPart = std::size_t{16} << 20;
    for_each_index((bytes + kPart - 1) / kPart, {all_cores()}, [&](std::size_t i) {
      std::memset(data_ + at + i * kPart, std::to_integer<int>(value), std::min(kPart, bytes - i * kPart));
    });
  }

 private:
  void require_inside(std::size_t at, std::size_t bytes) const {
    require(at <= bytes_ && bytes <= bytes_ - at, "bytes outside a backend's memory");
  }

  std::byte* data_;
  std::size_t bytes_;
  std::shared_ptr<AllocatedBytes> book_;
};

}  // namespace

std::unique_ptr<Memory> allocate(std::size_t bytes, std::shared_ptr<AllocatedBytes> book) {
  void* data = ::operator new(bytes, kAlignment, std::nothrow);
  if (data == nullptr) throw DeviceError(no_host_memory(bytes));
  return std::make_unique<HostMemory>(static_cast<std::byte*>(data), bytes, std::move(book));
}

}  // namespace tandem::exec::cpu
