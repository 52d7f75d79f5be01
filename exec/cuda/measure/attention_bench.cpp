#include "exec/cuda/measure/attention_bench.hpp"

#include "exec/cuda/attention.hpp"
#include "exec/cuda/kernels.hpp"

namespace tandem::exec::cuda {
namespace {

using device::AttentionCall;

/// Operands in Megatron-Core's order (position, sequence, head, q/k/v, dim), inside the bench's pools.
AttentionCall call_of(Bench& b, const AttentionDims& d) {
  const auto bytes = [&](std::int64_t tensors) {
    return static_cast<std::size_t>(tensors * 2 * d.batch * d.heads * d.seq * d.head_dim);
  };
  const auto strides = [&](std::int64_t parts) {
    return device::AttentionStrides{d.heads * parts * d.head_dim, parts * d.head_dim, d.batch * d.heads * parts * d.head_dim};
  };
  std::byte *qkv = b.inputs.next(bytes(3)), *dqkv = b.outputs.next(bytes(3));
  const std::int64_t head = d.head_dim * 2;
  const device::AttentionShape shape{d.batch,     d.heads,  d.heads,    d.seq,      d.seq,     d.head_dim,
                                     DType::bf16, d.causal, strides(3), strides(3), strides(1), d.seq, d.score_factor()};
  return {shape,
          {qkv, qkv + head, qkv + 2 * head, b.outputs.next(bytes(1)),
           b.outputs.next(static_cast<std::size_t>(4 * d.batch * d.heads * d.seq)), b.inputs.next(bytes(1)), dqkv, dqkv + head,
           dqkv + 2 * head}};
}

/// For each sequence length, large cases come first.
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

void time_one(CudnnAttention& cudnn, Bench& bench, const AttentionDims& d, std::vector<CostSample>& out, double busy_s) {
  const AttentionCall call = call_of(bench, d);
  if (!cudnn.forward(call)) return;
  FlashAttention op{d, 0, false};
  op.kernel = AttentionKernel::tuned;
  out.push_back({op, DType::bf16, bench.stopwatch.seconds([&] { cudnn.forward(call); }, busy_s)});
  if (!cudnn.backward(call)) return;
  FlashAttentionBackward back{d, 0, false};
  back.kernel = AttentionKernel::tuned;
  out.push_back({back, DType::bf16, bench.stopwatch.seconds([&] { cudnn.backward(call); }, busy_s)});
}

}  // namespace

std::string attention_fact() {
  const CudnnFact fact = cudnn_fact();
  return (fact.there ? "" : "not measured: ") + fact.text;
}

std::vector<CostSample> time_attention(Bench& bench, double busy_s, const std::function<bool(double)>& proceed) {
  std::vector<CostSample> out;
  if (!cudnn_fact().there) return out;
  CudnnAttention cudnn(bench.stream, false);
  fill_random(bench.inputs.data(), static_cast<std::int64_t>(bench.inputs.size() / 2), Element::bf16, false, bench.stream);
  const auto list = cases();
  for (std::size_t i = 0; i < list.size() && proceed(static_cast<double>(i) / static_cast<double>(list.size())); ++i)
    time_one(cudnn, bench, list[i], out, busy_s);
  return out;
}

}  // namespace tandem::exec::cuda
