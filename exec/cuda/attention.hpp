#pragma once
// Flash attention by cuDNN. Without cuDNN's frontend headers attention_absent.cpp replaces attention.cpp and refuses all calls.

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "exec/device/attention_calls.hpp"

namespace tandem::exec::cuda {

/// cuDNN's version, such as "cuDNN 9.19.0", or the reason why it is missing.
struct CudnnFact {
  bool there = false;
  std::string text;
};
CudnnFact cudnn_fact();

/// Attention on one stream. Each shape is planned once. For one thread at a time.
class CudnnAttention {
 public:
  /// `deterministic`: sum gradients in a fixed order, which is slower.
  CudnnAttention(cudaStream_t stream, bool deterministic);
  ~CudnnAttention();
  CudnnAttention(CudnnAttention&&) noexcept;

  /// Enqueues the call. Returns false, enqueuing nothing, if cuDNN is missing or has no engine for the shape; reason() then says
  /// why. Throws DeviceError.
  bool forward(const device::AttentionCall& call);
  bool backward(const device::AttentionCall& call);
  /// Plans a call's shape, so that the call neither loads kernels nor allocates memory. Throws DeviceError.
  void prepare_forward(const device::AttentionCall& call);
  void prepare_backward(const device::AttentionCall& call);
  const std::string& reason() const;
  /// Device memory that all planned shapes share, in bytes.
  std::size_t workspace_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::exec::cuda
