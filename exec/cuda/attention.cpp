#include "exec/cuda/attention.hpp"

#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "exec/cuda/kernels.hpp"
#include "exec/cuda/library.hpp"
#include "models/base/error.hpp"

// The frontend calls cuDNN through this handle of the opened library (NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING).
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace tandem::exec::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Addresses = std::unordered_map<std::int64_t, void*>;

enum Name : std::int64_t { kQ = 1, kK, kV, kO, kStats, kDO, kDQ, kDK, kDV };

/// cuDNN, opened, with a handle on a stream.
class Cudnn {
 public:
  explicit Cudnn(cudaStream_t s) : library_(file()) {
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
  static std::string file() { return "libcudnn.so." + std::to_string(CUDNN_MAJOR); }
  cudnnHandle_t handle() const { return handle_; }

 private:
  Library library_;
  cudnnHandle_t handle_ = nullptr;
};

/// One forward and its backward pass, on memory of their own inside the bench's pools.
class Attention {
 public:
  Attention(const Cudnn& cudnn, Bench& bench, const AttentionDims& d) : cudnn_(cudnn), b_(bench), d_(d) {
    std::byte* qkv = b_.inputs.next(bytes(3));
    std::byte* dqkv = b_.outputs.next(bytes(3));
    const std::int64_t head = d_.head_dim * 2;
    at_ = {{kQ, qkv}, {kK, qkv + head}, {kV, qkv + 2 * head}, {kO, b_.outputs.next(bytes(1))}, {kDO, b_.inputs.next(bytes(1))},
           {kStats, b_.outputs.next(static_cast<std::size_t>(4 * d_.batch * d_.heads * d_.seq))},
           {kDQ, dqkv}, {kDK, dqkv + head}, {kDV, dqkv + 2 * head}};
  }

  std::optional<double> forward(double busy_s) {
    fe::graph::Graph g = graph();
    auto options = fe::graph::SDPA_attributes().set_generate_stats(true).set_attn_scale(scale());
    if (d_.causal) options.set_causal_mask(true);
    auto [o, stats] = g.sdpa(packed(g, kQ), packed(g, kK), packed(g, kV), options);
    o->set_output(true).set_uid(kO).set_dim(sizes()).set_stride(strides(1));
    stats->set_output(true).set_uid(kStats).set_data_type(fe::DataType_t::FLOAT);
    return time(g, busy_s);
  }

  /// After `forward`, whose results it reads.
  std::optional<double> backward(double busy_s) {
    fe::graph::Graph g = graph();
    auto options = fe::graph::SDPA_backward_attributes().set_attn_scale(scale());
    if (d_.causal) options.set_causal_mask(true);
    const Tensor stats = g.tensor(fe::graph::Tensor_attributes().set_uid(kStats).set_dim({d_.batch, d_.heads, d_.seq, 1})
                                      .set_stride({d_.heads * d_.seq, d_.seq, 1, 1}).set_data_type(fe::DataType_t::FLOAT));
    auto [dq, dk, dv] = g.sdpa_backward(packed(g, kQ), packed(g, kK), packed(g, kV), plain(g, kO), plain(g, kDO), stats, options);
    for (auto [tensor, uid] : {std::pair{dq, kDQ}, std::pair{dk, kDK}, std::pair{dv, kDV}})
      tensor->set_output(true).set_uid(uid).set_dim(sizes()).set_stride(strides(3));
    return time(g, busy_s);
  }

 private:
  std::size_t bytes(std::int64_t tensors) const {
    return static_cast<std::size_t>(tensors * 2 * d_.batch * d_.heads * d_.seq * d_.head_dim);
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(d_.head_dim)); }
  std::vector<std::int64_t> sizes() const { return {d_.batch, d_.heads, d_.seq, d_.head_dim}; }
  /// Of (position, sequence, head, `parts` tensors beside each other, dim).
  std::vector<std::int64_t> strides(std::int64_t parts) const {
    const std::int64_t head = parts * d_.head_dim;
    return {d_.heads * head, head, d_.batch * d_.heads * head, 1};
  }
  static fe::graph::Graph graph() {
    fe::graph::Graph g;
    g.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    return g;
  }
  Tensor input(fe::graph::Graph& g, std::int64_t uid, std::int64_t parts) const {
    return g.tensor(fe::graph::Tensor_attributes().set_uid(uid).set_dim(sizes()).set_stride(strides(parts)));
  }
  Tensor packed(fe::graph::Graph& g, std::int64_t uid) const { return input(g, uid, 3); }
  Tensor plain(fe::graph::Graph& g, std::int64_t uid) const { return input(g, uid, 1); }

  /// nullopt where cuDNN has no engine for it.
  std::optional<double> time(fe::graph::Graph& g, double busy_s) {
    std::int64_t workspace_bytes = 0;
    if (g.build(cudnn_.handle(), {fe::HeurMode_t::A}).is_bad() || g.get_workspace_size(workspace_bytes).is_bad())
      return std::nullopt;
    const Buffer workspace(static_cast<std::size_t>(std::max<std::int64_t>(workspace_bytes, 1)));
    return b_.stopwatch.seconds(
        [&] {
          if (auto result = g.execute(cudnn_.handle(), at_, workspace.data()); result.is_bad())
            throw DeviceError("cuDNN: attention: " + result.get_message());
        },
        busy_s);
  }

  const Cudnn& cudnn_;
  Bench& b_;
  AttentionDims d_;
  Addresses at_;
};

/// Large ones first within each sequence length.
std::vector<AttentionDims> cases() {
  std::vector<AttentionDims> out;
  for (const std::int64_t heads : {32, 8, 16})
    for (const std::int64_t batch : {4, 1})
      for (const std::int64_t seq : {2048, 4096, 1024, 8192})
        for (const std::int64_t dim : {128, 64})
          for (const bool causal : {true, false}) {
            AttentionDims d{batch, heads, seq, dim};
            d.causal = causal;
            out.push_back(d);
          }
  return out;
}

/// nullopt where there is no cuDNN: the library, or one that it opens itself, is missing.
std::optional<std::string> version() {
  const Library library(Cudnn::file());
  if (!library) return std::nullopt;
  const std::size_t v = library.get<decltype(&cudnnGetVersion)>("cudnnGetVersion")();
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

void time_one(const Cudnn& cudnn, Bench& bench, const AttentionDims& d, std::vector<CostSample>& out, double busy_s) {
  Attention attention(cudnn, bench, d);
  const auto forward = attention.forward(busy_s);
  if (!forward) return;
  FlashAttention op{d, 0, false};
  op.kernel = AttentionKernel::tuned;
  out.push_back({op, DType::bf16, *forward});
  const auto backward = attention.backward(busy_s);
  if (!backward) return;
  FlashAttentionBackward back{d, 0, false};
  back.kernel = AttentionKernel::tuned;
  out.push_back({back, DType::bf16, *backward});
}

}  // namespace

std::string attention_fact() {
  const auto v = version();
  return v ? "cuDNN " + *v : "not measured: " + Cudnn::file() + " was not found";
}

std::vector<CostSample> time_attention(Bench& bench, double busy_s, const std::function<bool(double)>& proceed) {
  std::vector<CostSample> out;
  const Cudnn cudnn(bench.stream);
  if (!cudnn.handle()) return out;
  fill_random(bench.inputs.data(), static_cast<std::int64_t>(bench.inputs.size() / 2), Element::bf16, false, bench.stream);
  const auto list = cases();
  for (std::size_t i = 0; i < list.size() && proceed(static_cast<double>(i) / static_cast<double>(list.size())); ++i)
    time_one(cudnn, bench, list[i], out, busy_s);
  return out;
}

}  // namespace tandem::exec::cuda
