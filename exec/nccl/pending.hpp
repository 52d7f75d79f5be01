#pragma once
// Enqueued calls that have not ended. The watch names them if they take too long.

#include <cuda_runtime_api.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "exec/cuda/resources.hpp"
#include "exec/process/arrivals.hpp"

namespace tandem::exec::nccl {

/// Thread-safe.
class Pending {
 public:
  /// nullptr: no watch.
  explicit Pending(Arrivals* arrivals) : arrivals_(arrivals) {}
  /// Call it after a call was enqueued on `stream`.
  void add(cudaStream_t stream, Waiting call);
  /// Removes completed calls and shows each stream's oldest pending call to the watch. Returns true if any is pending.
  bool look();

 private:
  struct Call {
    std::unique_ptr<cuda::Event> end;
    Waiting waiting;
    std::unique_ptr<Arrivals::Moving> shown;
  };

  Arrivals* const arrivals_;
  std::mutex mutex_;
  std::map<cudaStream_t, std::deque<Call>> calls_;
  std::vector<std::unique_ptr<cuda::Event>> free_;
};

}  // namespace tandem::exec::nccl
