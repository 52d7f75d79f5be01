#include "experiments/tandem/validation/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace tandem::program {

int all_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

void for_each_index(std::size_t count, int jobs, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> failed(count);
  const auto worker = [&] {
    for (std::size_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        failed[i] = std::current_exception();
      }
  };
  std::vector<std::jthread> others;
  for (std::size_t j = 1; j < std::min<std::size_t>(static_cast<std::size_t>(std::max(jobs, 1)), count); ++j)
    others.emplace_back(worker);
  worker();
  others.clear();
  for (const std::exception_ptr& e : failed)
    if (e) std::rethrow_exception(e);
}

}  // namespace tandem::program
