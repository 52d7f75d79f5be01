#pragma once
// Calls that are on streams and have not ended, for the watch to name when they take too long.

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

/// Any thread may call.
class Pending {
 public:
  /// nullptr: nobody watches.
  explicit Pending(Arrivals* arrivals) : arrivals_(arrivals) {}
  /// A call has been put on `stream`.
  void add(cudaStream_t stream, Waiting call);
  /// Looks what has ended, and shows the oldest call of each stream that has not. Whether there is any.
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
