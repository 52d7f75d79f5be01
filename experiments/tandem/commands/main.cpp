#include <csignal>
#include <cstdint>
#include <cstdlib>

#include "experiments/tandem/commands/program.hpp"

#if defined(__GLIBC__)
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace {

/// A program that runs for milliseconds spends a tenth of them on page faults, so its heap requests large pages. If the kernel has
/// none, nothing changes.
void ask_for_large_pages() {
#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)
  constexpr int kHeap = 64 << 20, kBlock = 32 << 20;
  constexpr std::uintptr_t kPage = 2 << 20;
  mallopt(M_MMAP_THRESHOLD, kBlock);
  mallopt(M_TRIM_THRESHOLD, 2 * kHeap);
  mallopt(M_TOP_PAD, kHeap);
  void* volatile block = std::malloc(1 << 20);  // volatile, or the compiler would remove the pair
  std::free(block);  // the heap has grown by the whole pad, but only touched pages use memory
  const auto end = reinterpret_cast<std::uintptr_t>(sbrk(0)) / kPage * kPage;
  madvise(reinterpret_cast<void*>(end - kHeap + kPage), kHeap - kPage, MADV_HUGEPAGE);
  mallopt(M_TOP_PAD, 128 << 10);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  ask_for_large_pages();
  std::signal(SIGPIPE, SIG_IGN);  // a dead peer and a closed pipe are then errors where bytes are written; the program starts no children
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is then reported as an error, and no half-written file is left
  return static_cast<int>(tandem::program::run(argc, argv));
}
