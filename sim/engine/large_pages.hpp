#pragma once
// Memory for what is written once and is tens of megabytes: a page fault for every 4 KiB of it takes the kernel longer than writing
// it takes us. Where larger pages are to be had by asking (Linux, transparent_hugepage: madvise), they are asked for.

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace tandem::sim {

/// Of a page that is asked for; what has not several of them is allocated as ever.
inline constexpr std::size_t kLargePage = std::size_t{2} << 20;

/// At least `bytes`, aligned to kLargePage, for std::free. Throws std::bad_alloc.
void* allocate_large(std::size_t bytes);

/// For std::vector.
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
