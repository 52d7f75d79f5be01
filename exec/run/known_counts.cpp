#include "exec/run/known_counts.hpp"

#include <iterator>

namespace tandem::exec {
namespace {

const std::byte* end_of(const std::byte* begin, const KnownCounts::Numbers& numbers) {
  return begin + numbers.size() * sizeof(std::int32_t);
}

}  // namespace

const KnownCounts::Numbers& KnownCounts::of(const Tensor& tensor, const std::function<Numbers()>& read) {
  const auto found = kept_.find(tensor.address);
  if (found != kept_.end() && std::ssize(found->second) == tensor.elements) return found->second;
  written(tensor);
  return kept_[tensor.address] = read();
}

void KnownCounts::written(const Tensor& tensor) {
  const std::byte* const end = tensor.address + bytes_of(tensor.dtype, tensor.elements).count();
  auto at = kept_.lower_bound(tensor.address);
  if (at != kept_.begin() && end_of(std::prev(at)->first, std::prev(at)->second) > tensor.address) --at;
  while (at != kept_.end() && at->first < end) at = kept_.erase(at);
}

}  // namespace tandem::exec
