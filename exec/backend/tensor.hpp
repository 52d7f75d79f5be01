#pragma once
// An operand of a task as a backend gets it.

#include <cstddef>
#include <cstdint>

#include "models/base/dtype.hpp"

namespace tandem::exec {

/// `address` is of the backend's memory: only its kernels, its queues and its Memory may follow it.
struct Tensor {
  std::byte* address = nullptr;
  DType dtype = DType::fp32;
  std::int64_t elements = 0;
};

}  // namespace tandem::exec
