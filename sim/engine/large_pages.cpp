#include "sim/engine/large_pages.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace tandem::sim {

void* allocate_large(std::size_t bytes) {
  if (bytes > SIZE_MAX - kLargePage) throw std::bad_alloc();
  const std::size_t whole = (bytes + kLargePage - 1) / kLargePage * kLargePage;
  void* const memory = std::aligned_alloc(kLargePage, whole);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(memory, whole, MADV_HUGEPAGE);  // a hint: if it is refused, small pages work too
#endif
  return memory;
}

}  // namespace tandem::sim
