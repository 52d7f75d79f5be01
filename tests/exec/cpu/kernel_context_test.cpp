// Attention spread over the ranks of a context group: rings, gathered keys and exchanged heads, each against the whole.
#include "tests/exec/cpu/attention_cases.hpp"

namespace tandem::exec::test {
namespace {

// 24 positions: pieces of equal length for two, three and four context ranks.
WholeAttention setting(bool causal, bool alibi, double dropout) {
  WholeAttention a;
  a.queries = a.keys = 24;
  a.causal = causal;
  a.alibi = alibi;
  a.dropout = dropout;
  return a;
}
WholeAttention any_setting() { return setting(GENERATE(true, false), GENERATE(false, true), GENERATE(0.0, 0.3)); }

struct Group {
  const WholeAttention& a;
  const Qkv& x;
  std::int64_t c;
  Kernels& kernels;

  void on(std::int64_t rank) const {
    kernels.context.context_rank = static_cast<std::int32_t>(rank);
    kernels.context.context_size = static_cast<std::int32_t>(c);
    kernels.context.first_sequence = 3;
    keep_apart(kernels, a.documents, a.keys);
  }
  Layout layout(std::int64_t rank) const { return {a, rows_of(a.batch, c, rank, a.queries)}; }
  Layout gathered() const { return {a, rows_by_rank(a.batch, c, a.keys)}; }
  std::int64_t local() const { return a.queries / c; }
  std::int64_t stats() const { return a.batch * a.heads * local(); }
  AttentionDims dims(AttentionShare share) const {
    AttentionDims d = a.dims();
    d.share = share;
    return d;
  }
};

// What a context group gives, gathered, and what one rank books.
struct Outcome {
  Values context;
  Qkv gradient;
};

Outcome nothing(const WholeAttention& a) { return {a.zeros().q, a.zeros()}; }

Outcome alone(const WholeAttention& a, const Qkv& x, const Values& dcontext) {
  Kernels kernels;
  kernels.context.first_sequence = 3;
  return {flash(kernels, a, x).context, flash_backward(kernels, a, x, dcontext)};
}

// Checks what an operation has booked against the graph's figure, and gives it. A graph does not know documents.
template <class Attention>
std::int64_t booked(Kernels& kernels, std::int64_t before, const Attention& op) {
  const std::int64_t now = kernels.backend->counters().gemm_flops - before;
  if (!op.dims.documents) CHECK(now == matrix_flops(op).count());
  return now;
}

// ---- ring ----

class Ring {
 public:
  Ring(const Group& group, const Values& dcontext) : g_(group), dcontext_(dcontext) {}

  Outcome run() {
    Outcome out = nothing(g_.a);
    for (std::int64_t r = 0; r < g_.c; ++r) forward(r, out);
    for (std::int64_t r = 0; r < g_.c; ++r) dkv_.push_back(result(g_.layout(r).kv_size()));
    for (int step = 0; step < g_.c; ++step) backward_step(step);
    for (std::int64_t r = 0; r < g_.c; ++r) g_.layout(r).add_q_of_qkv(dq_[static_cast<std::size_t>(r)].values, out.gradient.q);
    for (std::int64_t owner = 0; owner < g_.c; ++owner)
      g_.layout(owner).add_kv(dkv_[static_cast<std::size_t>(owner)].values, out.gradient);
    return out;
  }
  std::int64_t flops = 0;

 private:
  AttentionDims dims() const {
    AttentionDims d = g_.dims(AttentionShare::queries);
    d.seq = g_.local();
    d.kv_packed = false;
    return d;
  }
  std::int64_t owner(std::int64_t rank, int step) const { return (rank - step + g_.c) % g_.c; }

  void forward(std::int64_t rank, Outcome& out) {
    g_.on(rank);
    const Layout own = g_.layout(rank);
    std::vector<Operand> merged{result(own.q_size()), result(g_.stats())};
    for (int step = 0; step < g_.c; ++step) {
      const FlashAttention op{dims(), g_.a.dropout, g_.a.alibi, step};
      std::vector<Operand> in{real(own.qkv(g_.x)), real(g_.layout(owner(rank, step)).kv(g_.x))};
      if (step > 0) in.insert(in.end(), merged.begin(), merged.end());
      const std::int64_t before = g_.kernels.backend->counters().gemm_flops;
      const auto now = g_.kernels.run(op, in, merged);
      flops += booked(g_.kernels, before, op);
      merged = {real(now[0]), real(now[1])};
    }
    own.add_q(merged[0].values, out.context);
    context_.push_back(merged[0]);
    stats_.push_back(merged[1]);
    dq_.push_back(result(own.qkv_size()));
  }
  // Keys' gradients belong to their owner, whoever holds them now.
  void backward_step(int step) {
    for (std::int64_t rank = 0; rank < g_.c; ++rank) {
      g_.on(rank);
      const auto r = static_cast<std::size_t>(rank), o = static_cast<std::size_t>(owner(rank, step));
      const FlashAttentionBackward op{dims(), g_.a.dropout, g_.a.alibi, step};
      std::vector<Operand> in{real(g_.layout(rank).q(dcontext_)), real(g_.layout(rank).qkv(g_.x)),
                              real(g_.layout(owner(rank, step)).kv(g_.x)), context_[r], stats_[r]};
      if (step > 0) in.insert(in.end(), {dq_[r], dkv_[o]});
      const std::int64_t before = g_.kernels.backend->counters().gemm_flops;
      const auto out = g_.kernels.run(op, in, {dq_[r], dkv_[o]});
      flops += booked(g_.kernels, before, op);
      dq_[r] = real(out[0]);
      dkv_[o] = real(out[1]);
    }
  }

  Group g_;
  const Values& dcontext_;
  std::vector<Operand> context_, stats_, dq_, dkv_;
};

// ---- gathered keys ----

// A rank's own queries and the gathered keys of all, by flash attention; its part of `out`.
void flash_gathered(const Group& g, std::int64_t rank, const Values& dcontext, Outcome& out) {
  g.on(rank);
  const Layout own = g.layout(rank), all = g.gathered();
  AttentionDims d = g.dims(AttentionShare::queries);
  d.seq = g.local(), d.keys = g.a.keys, d.kv_packed = false, d.row_shards = g.c;
  const FlashAttention op{d, g.a.dropout, g.a.alibi};
  const FlashAttentionBackward back{d, g.a.dropout, g.a.alibi};
  const Operand qkv = real(own.qkv(g.x)), kv = real(all.kv(g.x));
  const std::int64_t before = g.kernels.backend->counters().gemm_flops;
  const auto f = g.kernels.run(op, {qkv, kv}, {result(own.q_size()), result(g.stats())});
  const std::int64_t between = before + booked(g.kernels, before, op);
  const auto b = g.kernels.run(back, {real(own.q(dcontext)), qkv, kv, real(f[0]), real(f[1])},
                               {result(own.qkv_size()), result(all.kv_size())});
  booked(g.kernels, between, back);
  own.add_q(f[0], out.context);
  own.add_q_of_qkv(b[0], out.gradient.q);
  all.add_kv(b[1], out.gradient);
}

// The same by the operations that keep the scores, with the queries' columns of qkv or alone.
struct ScoreOperands {
  AttentionDims d;
  Layout queries, keys;
  Operand q, kv;
};

void by_scores(const Group& g, const ScoreOperands& s, const Values& dcontext, Outcome& out) {
  const std::int64_t square = s.d.batch * s.d.heads * s.d.seq * s.d.key_count();
  const Values scores = g.kernels.one(AttentionScores{s.d}, {s.q, s.kv}, square);
  std::vector<Operand> probs_out(g.a.dropout > 0 ? 2 : 1, result(square));
  const auto probs = g.kernels.run(AttentionSoftmax{s.d, g.a.dropout, g.a.alibi}, {real(scores)}, probs_out);
  const Values context = g.kernels.one(AttentionContext{s.d}, {real(probs.back()), s.kv}, s.queries.q_size());
  const auto dkv_size = static_cast<std::int64_t>(s.kv.values.size());
  const auto half = g.kernels.run(AttentionContextBackward{s.d}, {real(s.queries.q(dcontext)), real(probs.back()), s.kv},
                                  {result(square), result(dkv_size)});
  const Values dscores = g.kernels.one(AttentionSoftmaxBackward{s.d, g.a.dropout}, {real(half[0]), real(probs[0])}, square);
  const Op last = AttentionScoresBackward{s.d};
  s.queries.add_q(context, out.context);
  if (s.d.kv_packed) {
    const auto rest = g.kernels.run(last, {real(dscores), s.q, s.kv, real(half[1])}, {real(half[1]), same_as(0)});
    s.queries.add_qkv(rest[0], out.gradient);
  } else {
    const auto rest = g.kernels.run(last, {real(dscores), s.q, s.kv, real(half[1])}, {result(s.queries.qkv_size()), real(half[1])});
    s.queries.add_q_of_qkv(rest[0], out.gradient.q);
    s.keys.add_kv(rest[1], out.gradient);
  }
}

// ---- exchanged heads ----

// All rows of a share of the heads, ordered by context rank.
Layout exchanged(const Group& g, std::int64_t part, std::int64_t parts) {
  return {g.a, rows_by_rank(g.a.batch, g.c, g.a.queries), part * g.a.groups / parts, g.a.groups / parts};
}
AttentionDims exchanged_dims(const Group& g, std::int64_t parts) {
  AttentionDims d = g.dims(AttentionShare::heads);
  d.heads /= parts;
  d.kv_heads = g.a.groups == g.a.heads ? 0 : g.a.groups / parts;
  d.row_shards = g.c;
  return d;
}
void flash_exchanged(const Group& g, std::int64_t part, std::int64_t parts, const Values& dcontext, Outcome& out) {
  const Layout own = exchanged(g, part, parts);
  const AttentionDims d = exchanged_dims(g, parts);
  const Operand qkv = real(own.qkv(g.x));
  const FlashAttention op{d, g.a.dropout, g.a.alibi};
  const FlashAttentionBackward back{d, g.a.dropout, g.a.alibi};
  const std::int64_t before = g.kernels.backend->counters().gemm_flops;
  const auto f = g.kernels.run(op, {qkv, qkv}, {result(own.q_size()), result(d.batch * d.heads * d.seq)});
  const std::int64_t between = before + booked(g.kernels, before, op);
  const auto b =
      g.kernels.run(back, {real(own.q(dcontext)), qkv, qkv, real(f[0]), real(f[1])}, {result(own.qkv_size()), same_as(0)});
  booked(g.kernels, between, back);
  own.add_q(f[0], out.context);
  own.add_qkv(b[0], out.gradient);
}

void check_same(const Outcome& out, const Outcome& expected) {
  check_close(out.context, expected.context, 1e-13);
  check_close(flat(out.gradient), flat(expected.gradient), 1e-12);
}

}  // namespace

TEST_CASE("the steps of a ring add up to the whole attention and its gradients") {
  const WholeAttention a = any_setting();
  const std::int64_t c = GENERATE(1, 2, 3, 4);
  const Qkv x = a.random(1);
  const Values dcontext = random_values(a.q_size(), 9);
  Kernels kernels;
  Ring ring({a, x, c, kernels}, dcontext);
  check_same(ring.run(), alone(a, x, dcontext));
  const std::int64_t pairs = a.causal ? 24 * 25 / 2 : 24 * 24;
  CHECK(ring.flops == (4 + 10) * a.batch * a.heads * pairs * a.dim);
}

TEST_CASE("own queries and gathered keys give a rank its rows of the whole attention, with flash attention and with scores") {
  const WholeAttention a = any_setting();
  const std::int64_t c = GENERATE(1, 2, 3, 4);
  const Qkv x = a.random(1);
  const Values dcontext = random_values(a.q_size(), 9);
  Kernels kernels;
  const Group g{a, x, c, kernels};
  Outcome flashed = nothing(a), scored = nothing(a);
  for (std::int64_t r = 0; r < c; ++r) {
    flash_gathered(g, r, dcontext, flashed);
    AttentionDims d = g.dims(AttentionShare::queries);
    d.seq = g.local(), d.keys = a.keys, d.kv_packed = false, d.row_shards = c;
    by_scores(g, {d, g.layout(r), g.gathered(), real(g.layout(r).qkv(x)), real(g.gathered().kv(x))}, dcontext, scored);
  }
  const Outcome expected = alone(a, x, dcontext);
  check_same(flashed, expected);
  check_same(scored, expected);
}

TEST_CASE("exchanged heads give the whole attention of their heads, over tensor ranks too", "[cpu]") {
  WholeAttention a = any_setting();
  a.heads = 8;
  const std::int64_t c = GENERATE(2, 4), tensor = GENERATE(1, 2), parts = c * tensor;
  a.groups = 8;
  const Qkv x = a.random(1);
  const Values dcontext = random_values(a.q_size(), 9);
  Kernels kernels;
  kernels.context.tensor_size = static_cast<std::int32_t>(tensor);
  const Group g{a, x, c, kernels};
  Outcome flashed = nothing(a), scored = nothing(a);
  for (std::int64_t t = 0; t < tensor; ++t)
    for (std::int64_t r = 0; r < c; ++r) {
      g.on(r);
      kernels.context.tensor_rank = static_cast<std::int32_t>(t);
      flash_exchanged(g, t * c + r, parts, dcontext, flashed);
      const Layout own = exchanged(g, t * c + r, parts);
      by_scores(g, {exchanged_dims(g, parts), own, own, real(own.qkv(x)), real(own.qkv(x))}, dcontext, scored);
    }
  const Outcome expected = alone(a, x, dcontext);
  CHECK(flashed.context == expected.context);  // every row and column is computed as it is on one rank
  CHECK(flat(flashed.gradient) == flat(expected.gradient));
  check_same(scored, expected);
}

TEST_CASE("exchanged heads keep the groups of their keys") {
  WholeAttention a = setting(true, true, 0.3);
  a.heads = 12;
  a.groups = 4;
  const Qkv x = a.random(1);
  const Values dcontext = random_values(a.q_size(), 9);
  Kernels kernels;
  const Group g{a, x, 2, kernels};
  Outcome out = nothing(a);
  for (std::int64_t r = 0; r < 2; ++r) {
    g.on(r);
    flash_exchanged(g, r, 2, dcontext, out);
  }
  check_same(out, alone(a, x, dcontext));
}

TEST_CASE("context ranks keep documents apart as one rank does, tiles of queries included") {
  WholeAttention a = setting(true, true, GENERATE(0.0, 0.3));
  a.queries = a.keys = 96;
  a.heads = a.groups = 4;
  a.documents = random_documents(a.batch, a.keys, GENERATE(5, 60), 4);
  const std::int64_t c = GENERATE(2, 3, 4);
  const Qkv x = a.random(1);
  const Values dcontext = random_values(a.q_size(), 9);
  Kernels kernels;
  const Group g{a, x, c, kernels};
  const Outcome expected = alone(a, x, dcontext);
  check_close(expected.context, plain_attention(a, x, [&] {
                KernelContext of = kernels.on_host();
                of.first_sequence = 3;
                return of;
              }()), 1e-14);
  g.on(0);
  check_same(Ring(g, dcontext).run(), expected);
  Outcome gathered = nothing(a), scored = nothing(a), swapped = nothing(a);
  for (std::int64_t r = 0; r < c; ++r) {
    flash_gathered(g, r, dcontext, gathered);
    AttentionDims d = g.dims(AttentionShare::queries);
    d.seq = g.local(), d.keys = a.keys, d.kv_packed = false, d.row_shards = c;
    by_scores(g, {d, g.layout(r), g.gathered(), real(g.layout(r).qkv(x)), real(g.gathered().kv(x))}, dcontext, scored);
    if (a.groups % c == 0) flash_exchanged(g, r, c, dcontext, swapped);
  }
  check_same(gathered, expected);
  check_same(scored, expected);
  if (a.groups % c == 0) check_same(swapped, expected);
}

TEST_CASE("rows of ranks that do not share the work are refused") {
  const WholeAttention a = setting(true, false, 0);
  const Qkv x = a.random(1);
  Kernels kernels;
  const Group g{a, x, 2, kernels};
  g.on(0);
  AttentionDims d = g.dims(AttentionShare::queries);
  d.seq = 12, d.keys = 24, d.row_shards = 3;
  const auto run = [&](int ring_step) {
    Kernels fresh;  // an asynchronous queue does nothing more behind a failure
    StepTable* table = fresh.context.table;
    fresh.context = kernels.context;
    fresh.context.table = table;
    return fresh.run(FlashAttention{d, 0, false, ring_step}, {real(g.layout(0).qkv(x)), real(g.gathered().qkv(x))},
                     {result(g.layout(0).q_size()), result(g.stats())});
  };
  CHECK_THROWS_AS(run(-1), ContractError);
  d.row_shards = 2;
  CHECK_THROWS_AS(run(0), ContractError);
  CHECK_NOTHROW(run(-1));
  d.share = AttentionShare::whole;
  CHECK_THROWS_AS(run(-1), ContractError);
}

}  // namespace tandem::exec::test
