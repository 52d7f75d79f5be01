// The twin of attention.cpp for builds without cuDNN's frontend headers.
#include "exec/cuda/attention.hpp"

namespace tandem::exec::cuda {

std::string attention_fact() { return "not measured: built without cudnn_frontend.h (CUDNN_FRONTEND_INCLUDE_DIR)"; }

std::vector<CostSample> time_attention(Bench&, double, const std::function<bool(double)>&) { return {}; }

}  // namespace tandem::exec::cuda
