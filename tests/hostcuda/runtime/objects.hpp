#pragma once
// What CUDA's handles point to.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "tests/hostcuda/runtime/capture.hpp"
#include "tests/hostcuda/runtime/lane.hpp"
#include "tests/hostcuda/runtime/point.hpp"

struct CUstream_st {
  tandem::hostcuda::Lane lane;
  tandem::hostcuda::Position captured;  ///< of the thread that captures
};

struct CUevent_st {
  unsigned flags;
  std::shared_ptr<tandem::hostcuda::Point> point;  ///< null: never recorded outside a capture
  tandem::hostcuda::Position captured;
  std::mutex mutex;
  std::int64_t recorder = -1;  ///< the stream's number
};

struct CUgraph_st {
  std::vector<tandem::hostcuda::Node> nodes;
  std::size_t lanes = 0;
};

struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
};

namespace tandem::hostcuda {

/// Handles that were made and not destroyed. A call with another one is an error.
template <class Handle>
class Live {
 public:
  void add(Handle* h) {
    const std::lock_guard lock(mutex_);
    all_.insert(h);
  }
  bool remove(Handle* h) {
    const std::lock_guard lock(mutex_);
    return all_.erase(h) > 0;
  }
  bool has(Handle* h) {
    const std::lock_guard lock(mutex_);
    return all_.contains(h);
  }
  /// Calls body(handle) for all; none is destroyed meanwhile.
  template <class F>
  void each(F body) {
    const std::lock_guard lock(mutex_);
    for (Handle* h : all_) body(*h);
  }

 private:
  std::mutex mutex_;
  std::set<Handle*> all_;
};

Live<CUstream_st>& streams();
Live<CUevent_st>& events();

/// The stream that a handle names: cudaStreamPerThread is the thread's own. nullptr if there is none.
CUstream_st* stream_of(cudaStream_t handle);

/// Enqueues work on a stream, or makes it a node of the stream's capture.
cudaError_t put(CUstream_st& stream, Work work);

/// True if the thread captures, which forbids calls that a graph would not hold. Ends the capture as invalid.
bool breaks_capture();

/// Lets all streams begin what they have.
void kick_all();

/// Waits for all that was enqueued on all streams, as cudaFree does. Ends the program if that takes too long: a deadlock.
void wait_for_device(const char* call);

}  // namespace tandem::hostcuda
