#include "exec/cuda/measure/product_shapes.hpp"

#include <algorithm>
#include <numeric>

namespace tandem::exec::cuda {
namespace {

// ---- operations as products ----
// Row-major C[m,n] = op(A) op(B) is column-major C'[n,m] = op(B)' op(A)', so the first operand of cuBLAS is B.

DType result_type(DType dtype) { return dtype == DType::tf32 ? DType::fp32 : activation_type(dtype); }

std::vector<GemmShape> products(const MatMul& p, DType dtype) {
  GemmShape g;
  g.type = dtype;
  g.result = p.accumulate ? p.total : result_type(dtype);
  g.accumulate = p.accumulate;
  g.bias = p.bias;
  g.sums = p.sums;
  g.activation = p.activation;
  const bool fp8 = dtype == DType::fp8;
  const bool first_t = fp8 || p.trans_b, second_t = !fp8 && p.trans_a;
  g.first = first_t ? Stored{p.k, p.n, p.k, 0, true} : Stored{p.n, p.k, p.n, 0, false};
  g.second = second_t ? Stored{p.m, p.k, p.m, 0, true} : Stored{p.k, p.m, p.k, 0, false};
  g.out = {p.n, p.m, p.n, 0, false};
  g.fast_sum = fp8 && p.trans_b;  // forward products only, Transformer Engine's choice
  return {g};
}

/// The operands of attention as column-major matrices.
struct Attention {
  AttentionDims d;
  DType dtype;
  std::int64_t count() const { return d.batch * d.heads; }
  std::int64_t keys() const { return d.key_count(); }
  Stored packed(std::int64_t positions, bool t = false) const {  // q, k or v inside qkv
    return {d.head_dim, positions, count() * 3 * d.head_dim, 3 * d.head_dim, t};
  }
  Stored context(bool t = false) const { return {d.head_dim, d.seq, count() * d.head_dim, d.head_dim, t}; }
  Stored scores(bool t = false) const { return {keys(), d.seq, keys(), keys() * d.seq, t}; }
  GemmShape product(const Stored& first, const Stored& second, const Stored& out) const {
    GemmShape g;
    g.first = first;
    g.second = second;
    g.out = out;
    g.batch = count();
    g.type = dtype;
    g.result = result_type(dtype);
    return g;
  }
  bool plain() const { return d.groups() == d.heads && d.share == AttentionShare::whole && d.row_shards == 1; }
};

std::vector<GemmShape> products(const Op& op, const Attention& a) {
  if (!a.plain()) return {};
  const Stored q = a.packed(a.d.seq), k = a.packed(a.keys());
  if (std::holds_alternative<AttentionScores>(op)) return {a.product(a.packed(a.keys(), true), q, a.scores())};
  if (std::holds_alternative<AttentionContext>(op)) return {a.product(k, a.scores(), a.context())};
  if (std::holds_alternative<AttentionContextBackward>(op))
    return {a.product(a.packed(a.keys(), true), a.context(), a.scores()), a.product(a.context(), a.scores(true), k)};
  return {a.product(k, a.scores(), q), a.product(q, a.scores(true), k)};  // AttentionScoresBackward
}

bool multiplies(DType t) {
  return t == DType::fp32 || t == DType::tf32 || t == DType::bf16 || t == DType::fp16 || t == DType::fp8;
}

// ---- the list ----

class List {
 public:
  void product(const MatMul& p, DType t) { samples_.push_back({p, t, 0}); }
  /// The three products of a linear layer: forward, input gradient, weight gradient added to an fp32 total.
  void linear(std::int64_t tokens, std::int64_t out, std::int64_t in, DType t) {
    product({tokens, out, in, false, true}, t);
    product({tokens, in, out, false, false}, t);
    product({out, in, tokens, true, false, false, true, DType::fp32}, t);
  }
  void attention(const AttentionDims& d, DType t) {
    for (const Op& op :
         {Op(AttentionScores{d}), Op(AttentionContext{d}), Op(AttentionContextBackward{d}), Op(AttentionScoresBackward{d})})
      samples_.push_back({op, t, 0});
  }
  std::vector<CostSample>& samples() { return samples_; }

 private:
  std::vector<CostSample> samples_;
};

/// Hidden and feed-forward sizes of common models: GPT-3, Megatron, Llama.
struct Width { std::int64_t hidden, ffn, qkv; };
constexpr Width kWidths[] = {
    {1024, 4096, 3072},    {1536, 6144, 4608},    {2048, 8192, 6144},    {2560, 10240, 7680},  {3072, 12288, 9216},
    {4096, 16384, 12288},  {5120, 20480, 15360},  {6144, 24576, 18432},  {8192, 32768, 24576}, {12288, 49152, 36864},
    {16384, 65536, 49152}, {18432, 73728, 55296}, {4096, 14336, 6144},   {4096, 11008, 12288}, {8192, 28672, 10240},
    {5120, 13824, 15360},  {16384, 53248, 18432}};
constexpr std::int64_t kTokens[] = {1024, 2048, 4096, 8192, 16384};
constexpr std::int64_t kLargestUnsplit = 8192;  // largest hidden size that is trained without tensor parallelism

/// The four linear layers of a block.
void block(List& list, const Width& w, std::int64_t tensor, std::int64_t tokens, DType t) {
  list.linear(tokens, w.qkv / tensor, w.hidden, t);
  list.linear(tokens, w.hidden, w.hidden / tensor, t);
  list.linear(tokens, w.ffn / tensor, w.hidden, t);
  list.linear(tokens, w.hidden, w.ffn / tensor, t);
}

List blocks(DType t) {
  List list;
  for (const Width& w : kWidths)
    for (std::int64_t tensor : {1, 2, 4, 8})
      for (std::int64_t tokens : kTokens)
        if (tensor > 1 || w.hidden <= kLargestUnsplit) block(list, w, tensor, tokens, t);
  return list;
}

/// Vocabulary heads, whole and split over eight tensor ranks.
List heads(DType t) {
  List list;
  for (std::int64_t vocab : {30592, 50304, 51200, 128256})
    for (std::int64_t hidden : {1024, 4096, 8192, 12288})
      for (std::int64_t tensor : {1, 8})
        for (std::int64_t tokens : {2048, 8192}) list.linear(tokens, vocab / tensor, hidden, t);
  return list;
}

/// Small and badly shaped products: short inner dimensions, some not multiples of 8, sizes around one wave of tiles.
List awkward(DType t) {
  List list;
  const auto forward = [&](std::int64_t m, std::int64_t n, std::int64_t k) { list.product({m, n, k, false, true}, t); };
  for (std::int64_t k = 16; k <= 32768; k *= 2) forward(4096, 4096, k);
  for (std::int64_t n = 64; n <= 8192; n *= 2) forward(n, n, n);
  for (std::int64_t n : {64, 128, 192, 256, 384, 512})
    for (std::int64_t k : {64, 512, 4096}) forward(n, n, k);
  for (std::int64_t m = 128; m <= 40 * 128; m += 128) forward(m, 4096, 4096);
  for (std::int64_t k : {1000, 1001, 1020, 1023, 4090, 4095, 4097, 4100}) list.linear(4096, 4096, k, t);
  for (std::int64_t m : {1, 8, 32, 100, 1000, 3000, 5000}) forward(m, 4096, 4096);
  list.linear(4096, 8, 4096, t);  // a mixture-of-experts router
  return list;
}

List attentions(DType t) {
  List list;
  for (std::int64_t batch : {1, 4})
    for (std::int64_t heads : {8, 12, 16, 32})
      for (std::int64_t seq : {512, 1024, 2048, 4096})
        for (std::int64_t dim : {64, 96, 128}) list.attention({batch, heads, seq, dim}, t);
  return list;
}

/// Merges lists so that every prefix contains each list in proportion. Element i of n gets position (i + 1/2) / n. Within a list,
/// elements are taken with a large stride.
std::vector<CostSample> woven(std::vector<List> lists) {
  struct Placed { double at; CostSample sample; };
  std::vector<Placed> placed;
  for (List& list : lists) {
    auto& s = list.samples();
    std::size_t stride = s.size() * 618 / 1000 | 1;  // about the golden ratio, so that neighbours are far apart
    while (std::gcd(stride, s.size()) != 1) stride += 2;
    for (std::size_t i = 0; i < s.size(); ++i)
      placed.push_back({(static_cast<double>(i) + 0.5) / static_cast<double>(s.size()), s[i * stride % s.size()]});
  }
  std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) { return a.at < b.at; });
  std::vector<CostSample> out;
  for (Placed& p : placed) out.push_back(std::move(p.sample));
  return out;
}

/// Every `keep`-th element of a list. Rates in other types need fewer points.
List thinned(List list, std::size_t keep) {
  List out;
  for (std::size_t i = 0; i < list.samples().size(); i += keep) out.samples().push_back(list.samples()[i]);
  return out;
}

}  // namespace

std::vector<GemmShape> products_of(const Op& op, DType dtype) {
  if (!multiplies(dtype)) return {};
  if (const auto* p = std::get_if<MatMul>(&op)) return products(*p, dtype);
  if (const auto* a = std::get_if<AttentionScores>(&op)) return products(op, Attention{a->dims, dtype});
  if (const auto* a = std::get_if<AttentionContext>(&op)) return products(op, Attention{a->dims, dtype});
  if (const auto* a = std::get_if<AttentionContextBackward>(&op)) return products(op, Attention{a->dims, dtype});
  if (const auto* a = std::get_if<AttentionScoresBackward>(&op)) return products(op, Attention{a->dims, dtype});
  return {};
}

std::vector<CostSample> default_products() {
  constexpr std::size_t kFp8 = 5, kFp16 = 13, kTf32 = 23, kFp32 = 47, kFewAwkward = 3;  // coprime to 12, so that every layer stays
  return woven({blocks(DType::bf16), heads(DType::bf16), awkward(DType::bf16), attentions(DType::bf16),
                thinned(blocks(DType::fp8), kFp8), thinned(awkward(DType::fp8), kFewAwkward), thinned(blocks(DType::fp16), kFp16),
                thinned(attentions(DType::fp16), kFp16), thinned(blocks(DType::tf32), kTf32),
                thinned(awkward(DType::tf32), kFewAwkward), thinned(blocks(DType::fp32), kFp32)});
}

}  // namespace tandem::exec::cuda
