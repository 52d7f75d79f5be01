#pragma once
// Flash attention by cuDNN. attention.cpp where cuDNN's frontend headers are, else attention_absent.cpp, which can do none.

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "exec/device/attention_calls.hpp"

namespace tandem::exec::cuda {

/// cuDNN's version, such as "cuDNN 9.19.0", or why there is none.
struct CudnnFact {
  bool there = false;
  std::string text;
};
CudnnFact cudnn_fact();

/// Attention of one stream, planned once a shape. For one thread at a time.
class CudnnAttention {
 public:
  /// `deterministic`: of sums over keys, in a fixed order, which is slower.
  CudnnAttention(cudaStream_t stream, bool deterministic);
  ~CudnnAttention();
  CudnnAttention(CudnnAttention&&) noexcept;

  /// Enqueues it. False, and nothing is enqueued, where cuDNN is not there or has no engine for the shape: `reason` says which.
  /// Throws DeviceError.
  bool forward(const device::AttentionCall& call);
  bool backward(const device::AttentionCall& call);
  const std::string& reason() const;
  /// Bytes of the device that all shapes planned until now share.
  std::size_t workspace_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::exec::cuda
