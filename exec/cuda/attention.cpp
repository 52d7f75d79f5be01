#include "exec/cuda/attention.hpp"

#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/cuda/library.hpp"
#include "exec/cuda/resources.hpp"

// The frontend calls cuDNN through this handle of the opened library (NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING).
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace tandem::exec::cuda {
namespace {

namespace fe = cudnn_frontend;
using device::AttentionCall;
using device::AttentionShape;
using device::AttentionStrides;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Addresses = std::unordered_map<std::int64_t, void*>;
using Numbers = std::vector<std::int64_t>;

enum Name : std::int64_t { kQ = 1, kK, kV, kO, kStats, kDO, kDQ, kDK, kDV };

std::string library_file() { return "libcudnn.so." + std::to_string(CUDNN_MAJOR); }

/// The opened cuDNN library, with a handle for a stream.
class Cudnn {
 public:
  explicit Cudnn(cudaStream_t s) : library_(library_file()) {
    if (!library_) return;
    fe::cudnn_dlhandle = library_.raw();
    if (library_.get<decltype(&cudnnCreate)>("cudnnCreate")(&handle_) != CUDNN_STATUS_SUCCESS) handle_ = nullptr;
    if (handle_) library_.get<decltype(&cudnnSetStream)>("cudnnSetStream")(handle_, s);
  }
  ~Cudnn() {
    if (handle_) library_.get<decltype(&cudnnDestroy)>("cudnnDestroy")(handle_);
  }
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;
  cudnnHandle_t handle() const { return handle_; }
  std::string problem() const { return library_ ? library_file() + " gives no handle" : library_file() + ": " + library_.problem(); }

 private:
  Library library_;
  cudnnHandle_t handle_ = nullptr;
};

/// Builds the operations of one shape as a graph of cuDNN's frontend.
class Builder {
 public:
  explicit Builder(const AttentionShape& shape) : s_(shape) {
    const auto type = shape.type == DType::fp16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16;
    graph_.set_io_data_type(type).set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
  }

  fe::graph::Graph forward() {
    auto options = fe::graph::SDPA_attributes().set_generate_stats(true).set_attn_scale(scale());
    if (s_.causal) options.set_causal_mask(true);
    auto [o, stats] = graph_.sdpa(query(kQ), key(kK), key(kV), options);
    o->set_output(true).set_uid(kO).set_dim(queries()).set_stride(strides(s_.context));
    stats->set_output(true).set_uid(kStats).set_dim(stats_sizes()).set_stride(stats_strides()).set_data_type(fe::DataType_t::FLOAT)
        .set_alignment(s_.stats_alignment);
    return std::move(graph_);
  }

  fe::graph::Graph backward(bool deterministic) {
    auto options = fe::graph::SDPA_backward_attributes().set_attn_scale(scale());
    if (s_.causal) options.set_causal_mask(true);
    if (deterministic) options.set_deterministic_algorithm(true);
    const Tensor stats = graph_.tensor(fe::graph::Tensor_attributes().set_uid(kStats).set_dim(stats_sizes())
                                           .set_stride(stats_strides()).set_data_type(fe::DataType_t::FLOAT)
                                           .set_alignment(s_.stats_alignment));
    auto [dq, dk, dv] = graph_.sdpa_backward(query(kQ), key(kK), key(kV), context(kO), context(kDO), stats, options);
    dq->set_output(true).set_uid(kDQ).set_dim(queries()).set_stride(strides(s_.query));
    for (auto [tensor, uid] : {std::pair{dk, kDK}, std::pair{dv, kDV}})
      tensor->set_output(true).set_uid(uid).set_dim(keys()).set_stride(strides(s_.key));
    return std::move(graph_);
  }

 private:
  float scale() const { return static_cast<float>(s_.scale); }
  Numbers queries() const { return {s_.batch, s_.heads, s_.queries, s_.head_dim}; }
  Numbers keys() const { return {s_.batch, s_.groups, s_.keys, s_.head_dim}; }
  Numbers stats_sizes() const { return {s_.batch, s_.heads, s_.queries, 1}; }
  Numbers stats_strides() const { return {s_.heads * s_.stats_rows, s_.stats_rows, 1, 1}; }
  static Numbers strides(const AttentionStrides& at) { return {at.sequence, at.head, at.position, 1}; }
  Tensor input(std::int64_t uid, const Numbers& sizes, const AttentionStrides& at) {
    return graph_.tensor(fe::graph::Tensor_attributes().set_uid(uid).set_dim(sizes).set_stride(strides(at)));
  }
  Tensor query(std::int64_t uid) { return input(uid, queries(), s_.query); }
  Tensor key(std::int64_t uid) { return input(uid, keys(), s_.key); }
  Tensor context(std::int64_t uid) { return input(uid, queries(), s_.context); }

  AttentionShape s_;
  fe::graph::Graph graph_;
};

Addresses addresses(const device::AttentionOperands& at) {
  Addresses all{{kQ, at.query}, {kK, at.key}, {kV, at.value}, {kO, at.context}, {kStats, at.stats}};
  if (at.dcontext != nullptr) all.insert({{kDO, at.dcontext}, {kDQ, at.dquery}, {kDK, at.dkey}, {kDV, at.dvalue}});
  return all;
}

}  // namespace

CudnnFact cudnn_fact() {
  const Library library(library_file());
  if (!library) return {false, library_file() + " was not found"};
  const std::size_t v = library.get<decltype(&cudnnGetVersion)>("cudnnGetVersion")();
  return {true, "cuDNN " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100)};
}

struct CudnnAttention::State {
  struct Plan {
    fe::graph::Graph graph;
    std::string refused;  ///< reason why there is no engine
  };
  using Plans = std::map<AttentionShape, Plan>;

  State(cudaStream_t s, bool fixed) : stream(s), deterministic(fixed), cudnn(s) {}

  cudaStream_t stream;
  bool deterministic;
  Cudnn cudnn;
  Plans forward, backward;
  Buffer workspace;
  std::string reason;

  template <class Build>
  const Plan& plan(Plans& plans, const AttentionShape& shape, Build build) {
    if (const auto known = plans.find(shape); known != plans.end()) return known->second;
    Plan made{build(), ""};
    const std::int64_t bytes = built(made);
    if (made.refused.empty()) grow(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)));
    return plans.emplace(shape, std::move(made)).first->second;
  }
  /// Builds the plan. Returns the bytes of its workspace, or sets `refused`. The frontend throws if it does not find libcudart.
  std::int64_t built(Plan& made) const {
    std::int64_t bytes = 0;
    try {
      auto done = made.graph.build(cudnn.handle(), {fe::HeurMode_t::A});
      if (done.is_good()) done = made.graph.get_workspace_size(bytes);
      if (done.is_bad()) made.refused = "cuDNN: " + done.get_message();
    } catch (const std::exception& e) {
      made.refused = std::string("cuDNN: ") + e.what();
    }
    return bytes;
  }

  void grow(std::size_t bytes) {
    if (workspace.size() >= bytes) return;
    check(cudaStreamSynchronize(stream), "waiting for the device");
    workspace = Buffer();
    workspace = Buffer(bytes);
  }

  const Plan& forward_plan(const AttentionShape& shape) {
    return plan(forward, shape, [&] { return Builder(shape).forward(); });
  }
  const Plan& backward_plan(const AttentionShape& shape) {
    return plan(backward, shape, [&] { return Builder(shape).backward(deterministic); });
  }

  template <class PlanOf>
  bool run(const AttentionCall& call, PlanOf plan_of) {
    if (cudnn.handle() == nullptr) return reason = cudnn.problem(), false;
    const Plan& p = plan_of(call.shape);
    if (!p.refused.empty()) return reason = p.refused, false;
    auto at = addresses(call.at);
    if (auto result = p.graph.execute(cudnn.handle(), at, workspace.data()); result.is_bad())
      throw DeviceError("cuDNN: attention: " + result.get_message());
    return true;
  }
};

CudnnAttention::CudnnAttention(cudaStream_t stream, bool deterministic)
    : state_(std::make_unique<State>(stream, deterministic)) {}
CudnnAttention::~CudnnAttention() = default;
CudnnAttention::CudnnAttention(CudnnAttention&&) noexcept = default;

bool CudnnAttention::forward(const AttentionCall& call) {
  return state_->run(call, [&](const AttentionShape& shape) -> const State::Plan& { return state_->forward_plan(shape); });
}

bool CudnnAttention::backward(const AttentionCall& call) {
  return state_->run(call, [&](const AttentionShape& shape) -> const State::Plan& { return state_->backward_plan(shape); });
}

void CudnnAttention::prepare_forward(const AttentionCall& call) {
  if (state_->cudnn.handle() != nullptr) state_->forward_plan(call.shape);
}

void CudnnAttention::prepare_backward(const AttentionCall& call) {
  if (state_->cudnn.handle() != nullptr) state_->backward_plan(call.shape);
}

const std::string& CudnnAttention::reason() const { return state_->reason; }
std::size_t CudnnAttention::workspace_bytes() const { return state_->workspace.size(); }

}  // namespace tandem::exec::cuda
