#pragma once
// An allocator for arrays of tens of megabytes that are written once. The page fault for every 4 KiB takes longer than writing the
// page. So huge pages are requested where the system offers them (Linux, transparent_hugepage: madvise).

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace tandem::sim {

/// Bytes of a huge page. Arrays that fill fewer than four use the standard allocator.
inline constexpr std::size_t kLargePage = std::size_t{2} << 20;

/// Returns at least `bytes`, aligned to kLargePage; free them with std::free. Throws std::bad_alloc.
void* allocate_large(std::size_t bytes);

/// Allocator for std::vector that asks the system for large pages.
template <class T>
struct LargePages {
  using value_type = T;

  LargePages() = default;
  template <class U>
  LargePages(const LargePages<U>&) {}

  T* allocate(std::size_t n) { return large(n) ? static_cast<T*>(allocate_large(n * sizeof(T))) : std::allocator<T>().allocate(n); }
  void deallocate(T* memory, std::size_t n) {
    if (large(n)) std::free(memory);
    else std::allocator<T>().deallocate(memory, n);
  }
  bool operator==(const LargePages&) const = default;

 private:
  static bool large(std::size_t n) { return n >= 4 * kLargePage / sizeof(T); }
};

}  // namespace tandem::sim
