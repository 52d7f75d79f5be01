#pragma once
// Shared by all measurements on the device.

#include <memory>

#include "exec/cuda/resources.hpp"
#include "exec/cuda/stopwatch.hpp"

namespace tandem::exec::cuda {

/// A stream with a stopwatch, and memory for calls to read and write. Operands rotate through the pools.
struct Bench {
  explicit Bench(std::size_t pool_bytes) : stopwatch(stream), inputs(pool_bytes), outputs(pool_bytes) {
    check(cudaMemsetAsync(outputs.data(), 0, outputs.size(), stream), "clearing memory");
  }
  Stream stream;
  Stopwatch stopwatch;
  Pool inputs, outputs;
};

}  // namespace tandem::exec::cuda
