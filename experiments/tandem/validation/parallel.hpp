#pragma once
// Work on many items at once.

#include <cstddef>
#include <functional>

namespace tandem::program {

/// Threads that this machine runs at once, at least 1.
int all_cores();

/// Calls `work(i)` once for each i below `count` on `jobs` threads, in no order. When some throw, the exception of the
/// smallest i is thrown after all threads have ended.
void for_each_index(std::size_t count, int jobs, const std::function<void(std::size_t)>& work);

}  // namespace tandem::program
