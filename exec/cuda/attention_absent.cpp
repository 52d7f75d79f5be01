// Replaces attention.cpp in builds without cuDNN's frontend headers.
#include "exec/cuda/attention.hpp"

namespace tandem::exec::cuda {
namespace {

constexpr const char* kReason = "this build is without cudnn_frontend.h (CUDNN_FRONTEND_INCLUDE_DIR)";

}  // namespace

CudnnFact cudnn_fact() { return {false, kReason}; }

struct CudnnAttention::State {
  std::string reason = kReason;
};

CudnnAttention::CudnnAttention(cudaStream_t, bool) : state_(std::make_unique<State>()) {}
CudnnAttention::~CudnnAttention() = default;
CudnnAttention::CudnnAttention(CudnnAttention&&) noexcept = default;

bool CudnnAttention::forward(const device::AttentionCall&) { return false; }
bool CudnnAttention::backward(const device::AttentionCall&) { return false; }
void CudnnAttention::prepare_forward(const device::AttentionCall&) {}
void CudnnAttention::prepare_backward(const device::AttentionCall&) {}
const std::string& CudnnAttention::reason() const { return state_->reason; }
std::size_t CudnnAttention::workspace_bytes() const { return 0; }

}  // namespace tandem::exec::cuda
