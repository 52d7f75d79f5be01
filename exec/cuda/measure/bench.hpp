#pragma once
// What every measurement on the device shares.

#include <memory>

#include "exec/cuda/resources.hpp"
#include "exec/cuda/stopwatch.hpp"

namespace tandem::exec::cuda {

/// A stream, a stopwatch on it, and memory that calls read from and write to. Operands rotate through the pools.
struct Bench {
  explicit Bench(std::size_t pool_bytes) : stopwatch(stream), inputs(pool_bytes), outputs(pool_bytes) {
    check(cudaMemsetAsync(outputs.data(), 0, outputs.size(), stream), "clearing memory");
  }
  Stream stream;
  Stopwatch stopwatch;
  Pool inputs, outputs;
};

}  // namespace tandem::exec::cuda
