#include "models/base/held_files.hpp"

#include <atomic>
#include <mutex>

namespace tandem {
namespace {

struct Held {
  std::mutex mutex;
  std::uint64_t holders = 0, periods = 0;
  std::atomic<std::uint64_t> now{0};  ///< the period, 0 between two
};

Held& held() {
  static Held all;
  return all;
}

}  // namespace

HeldFiles::HeldFiles() {
  const std::lock_guard lock(held().mutex);
  if (held().holders++ == 0) held().now = ++held().periods;
}

HeldFiles::~HeldFiles() {
  const std::lock_guard lock(held().mutex);
  if (--held().holders == 0) held().now = 0;
}

std::uint64_t HeldFiles::period() {
  return held().now;
}

}  // namespace tandem
