#pragma once
// An operand of a task, as a backend receives it.

#include <cstddef>
#include <cstdint>

#include "models/base/dtype.hpp"

namespace tandem::exec {

/// `address` points into the backend's memory: only its kernels, queues and Memory may dereference it.
struct Tensor {
  std::byte* address = nullptr;
  DType dtype = DType::fp32;
  std::int64_t elements = 0;
};

}  // namespace tandem::exec
