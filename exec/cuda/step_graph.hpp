#pragma once
// The work of several streams as one CUDA graph.

#include <functional>
#include <vector>

#include "exec/backend/backend.hpp"
#include "exec/cuda/resources.hpp"

namespace tandem::exec::cuda {

class StepGraph final : public Replay {
 public:
  /// Captures what `issue` enqueues on `streams`. The graph starts on the first stream; later work on that stream waits for all of
  /// it. Throws DeviceError.
  StepGraph(const std::vector<cudaStream_t>& streams, const std::function<void()>& issue);
  ~StepGraph() override;
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  void start() override;

 private:
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace tandem::exec::cuda
