#include "tests/hostcuda/runtime/heap.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/hostcuda/runtime/settings.hpp"

namespace tandem::hostcuda {
namespace {

constexpr std::size_t kAlignment = 256, kZone = 256, kReserved = std::size_t{64} << 30, kPage = 4096;
constexpr std::size_t kMostPoison = std::size_t{1} << 20;
constexpr int kPoison = 0xFF, kRed = 0xA5;

std::size_t rounded(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// Fills a block, of a large one (a workspace) only both ends.
void poison(std::byte* at, std::size_t bytes) {
  const std::size_t end = std::min(bytes, kMostPoison);
  std::memset(at, kPoison, end);
  std::memset(at + bytes - end, kPoison, end);
}

/// One range of addresses. Blocks lie behind each other where the first gap has space.
class Heap {
 public:
  Heap() {
    void* const at = mmap(nullptr, kReserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) std::abort();
    begin_ = static_cast<std::byte*>(at);
  }
  std::byte* take(std::size_t bytes, std::size_t limit) {
    const std::lock_guard lock(mutex_);
    if (taken_ + bytes > limit) return nullptr;
    const std::size_t space = rounded(bytes, kAlignment) + 2 * kZone;
    std::size_t at = 0;
    for (const auto& [from, size] : blocks_) {
      if (from - at >= space) break;
      at = from + rounded(size, kAlignment) + 2 * kZone;
    }
    blocks_[at] = bytes;
    taken_ += bytes;
    end_ = std::max(end_, at + space);
    std::byte* const block = begin_ + at + kZone;
    std::memset(block - kZone, kRed, kZone);
    std::memset(block + bytes, kRed, space - kZone - bytes);
    poison(block, bytes);
    return block;
  }
  Given give_back(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = block_of(data);
    if (found == blocks_.end() || begin_ + found->first + kZone != data) return Given::unknown;
    const auto [at, bytes] = *found;
    const std::size_t space = rounded(bytes, kAlignment) + 2 * kZone;
    const auto red = [&](std::size_t from, std::size_t to) {
      return std::all_of(begin_ + from, begin_ + to, [](std::byte b) { return b == std::byte{kRed}; });
    };
    const bool whole = red(at, at + kZone) && red(at + kZone + bytes, at + space);
    poison(begin_ + at, space);
    blocks_.erase(found);
    taken_ -= bytes;
    return whole ? Given::back : Given::damaged;
  }
  bool inside(const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = block_of(data);
    if (found == blocks_.end()) return false;
    const std::byte* const first = begin_ + found->first + kZone;
    return data >= first && static_cast<const std::byte*>(data) + bytes <= first + found->second;
  }
  bool holds(const void* data) const { return data >= begin_ && data < begin_ + kReserved; }
  std::size_t taken() {
    const std::lock_guard lock(mutex_);
    return taken_;
  }
  void protect(int how) { mprotect(begin_, std::max(rounded(end_, kPage), kPage), how); }

 private:
  std::map<std::size_t, std::size_t>::iterator block_of(const void* data) {
    if (!holds(data)) return blocks_.end();
    const auto next = blocks_.upper_bound(static_cast<std::size_t>(static_cast<const std::byte*>(data) - begin_));
    return next == blocks_.begin() ? blocks_.end() : std::prev(next);
  }

  std::byte* begin_ = nullptr;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> blocks_;  ///< by their red zones' beginning: the bytes between the zones
  std::size_t taken_ = 0, end_ = 0;
};

// Kept at the program's end: threads of streams may still run.
Heap& heap(Kind kind) {
  static Heap *const device = new Heap, *const pinned = new Heap;
  return kind == Kind::device ? *device : *pinned;
}

std::mutex guard_mutex;
int opened = 0;

}  // namespace

std::byte* take(Kind kind, std::size_t bytes) {
  const Opened memory;
  return heap(kind).take(std::max<std::size_t>(bytes, 1), kind == Kind::device ? settings().memory : kReserved / 2);
}

Given give_back(Kind kind, void* data) {
  const Opened memory;
  return heap(kind).give_back(data);
}

std::size_t taken_bytes(Kind kind) { return heap(kind).taken(); }

bool of_device(const void* data) { return heap(Kind::device).holds(data); }

bool inside(Kind kind, const void* data, std::size_t bytes) { return heap(kind).inside(data, bytes); }

Opened::Opened() : guards_(settings().guards) {
  if (!guards_) return;
  const std::lock_guard lock(guard_mutex);
  if (opened++ == 0) heap(Kind::device).protect(PROT_READ | PROT_WRITE);
}

Opened::~Opened() {
  if (!guards_) return;
  const std::lock_guard lock(guard_mutex);
  if (--opened == 0 && settings().guards) heap(Kind::device).protect(PROT_NONE);
}

void apply_guards() {
  const std::lock_guard lock(guard_mutex);
  heap(Kind::device).protect(settings().guards && opened == 0 ? PROT_NONE : PROT_READ | PROT_WRITE);
}

}  // namespace tandem::hostcuda
