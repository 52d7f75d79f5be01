#pragma once
// Numbers in the device's memory that the host has read: how many rows experts get.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "exec/backend/tensor.hpp"

namespace tandem::exec {

/// A tensor of int32 is read once until something that writes to it is issued. For the thread that issues.
class KnownCounts {
 public:
  using Numbers = std::vector<std::int32_t>;
  /// The numbers of `tensor`; `read` is called where they are not known. Valid until the next call.
  const Numbers& of(const Tensor& tensor, const std::function<Numbers()>& read);
  /// What is issued next writes to `tensor`.
  void written(const Tensor& tensor);
  void clear() { kept_.clear(); }

 private:
  std::map<const std::byte*, Numbers> kept_;  ///< by address; no two overlap
};

}  // namespace tandem::exec
