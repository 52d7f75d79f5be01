#pragma once
// A cache of row counts per expert that the host has read from device memory.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "exec/backend/tensor.hpp"

namespace tandem::exec {

/// Each int32 tensor is read once, until a task that writes to it is issued. Only the issuing thread may use it.
class KnownCounts {
 public:
  using Numbers = std::vector<std::int32_t>;
  /// The values of `tensor`. Calls `read` if they are not cached. The reference is valid until the next call.
  const Numbers& of(const Tensor& tensor, const std::function<Numbers()>& read);
  /// Drops the values that overlap `tensor`. Call it before a task that writes to `tensor` is issued.
  void written(const Tensor& tensor);
  void clear() { kept_.clear(); }

 private:
  std::map<const std::byte*, Numbers> kept_;  ///< by address; no two overlap
};

}  // namespace tandem::exec
