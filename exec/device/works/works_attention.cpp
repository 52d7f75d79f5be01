// Works of attention. Those that keep scores have all rows of a sequence, ordered (sequence, position); flash attention may share them
// among context ranks.
#include <cmath>

#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {
namespace {

/// Context ranks that have heads of a tensor rank's, and which of these shares is this rank's.
std::int64_t head_parts(const AttentionDims& d, const KernelContext& c) { return d.share == AttentionShare::heads ? c.context_size : 1; }
std::int64_t head_part(const AttentionDims& d, const KernelContext& c) { return d.share == AttentionShare::heads ? c.context_rank : 0; }

AttentionPlace place_of(const AttentionDims& d, const Operands& at, int ring_step = -1) {
  const KernelContext& c = at.context();
  const std::int64_t parts = head_parts(d, c), ranks = c.context_size;
  require(d.row_shards == 1 || (d.row_shards == ranks && d.share != AttentionShare::whole && ring_step < 0),
          "rows of other ranks in an attention that does not share its work with them");
  require(d.window == 0 || (d.causal && ring_step < 0), "a window of keys in a ring, or where all keys are seen");
  AttentionPlace place{d.batch, d.heads, d.seq, d.key_count(), d.head_dim, (c.tensor_rank * parts + head_part(d, c)) * d.heads,
                       c.tensor_size * parts * d.heads, c.first_sequence, d.causal, false, {}, d.window, d.chunked};
  if (d.share == AttentionShare::queries) place.queries_of = SequenceMap(ranks, d.seq), place.query_rank = c.context_rank;
  if (ring_step >= 0) place.keys_of = SequenceMap(ranks, d.key_count()), place.key_rank = (c.context_rank + ranks - ring_step % ranks) % ranks;
  return place;
}

HeadLayout layout_of(const AttentionDims& d) {
  const std::int64_t q_width = d.q_packed ? d.qkv_width() : d.q_width(), kv_width = d.kv_packed ? d.qkv_width() : d.kv_width();
  HeadLayout l{d.head_dim, d.value_width(), d.per_group(), q_width, kv_width, d.seq, d.key_count(), d.q_packed, d.kv_packed, d.heads, d.batch};
  if (d.share == AttentionShare::heads) l.query_shards = SequenceMap(d.row_shards, d.seq / d.row_shards);
  l.key_shards = SequenceMap(d.row_shards, d.key_count() / d.row_shards);
  return l;
}

/// A matrix of every head of a batch: [rows, cols], row-major, rows `ld` apart, with the offsets of a sequence and of a head.
struct HeadMatrix {
  Typed data;
  std::int64_t rows, cols, ld;
  std::int64_t first, of_sequence, of_group, of_query;  ///< elements from one to the next: sequence, group, query head of a group

  std::byte* at(std::int64_t sequence, std::int64_t group, std::int64_t query) const {
    const std::int64_t elements = first + sequence * of_sequence + group * of_group + query * of_query;
    return data.address + bytes_of(data.type, elements).count();
  }
};

/// Products of all heads: out = alpha op(first) op(second), column-major, as cuBLAS has them.
struct HeadProducts {
  const AttentionDims& dims;
  DType type;
  double alpha = 1;

  HeadMatrix query(Typed t) const {
    const std::int64_t hd = dims.head_dim, width = dims.q_packed ? dims.qkv_width() : dims.q_width();
    return {t, dims.seq, hd, width, 0, dims.seq * width, dims.q_packed ? dims.group_width() : dims.per_group() * hd, hd};
  }
  HeadMatrix context(Typed t) const {
    const std::int64_t wide = dims.value_width(), width = dims.context_width();
    return {t, dims.seq, wide, width, 0, dims.seq * width, dims.per_group() * wide, wide};
  }
  /// part 0: keys, 1: values.
  HeadMatrix key(Typed t, std::int64_t part) const {
    const std::int64_t keys = dims.key_count(), cols = part == 0 ? dims.head_dim : dims.value_width();
    const std::int64_t width = dims.kv_packed ? dims.qkv_width() : dims.kv_width();
    const std::int64_t first = dims.key_column(0) + part * dims.head_dim;
    return {t, keys, cols, width, first, keys * width, dims.kv_packed ? dims.group_width() : dims.pair_width(), 0};
  }
  HeadMatrix scores(Typed t) const {
    const std::int64_t per = dims.heads / dims.groups(), square = dims.seq * dims.key_count();
    return {t, dims.seq, dims.key_count(), dims.key_count(), 0, dims.heads * square, per * square, square};
  }

  struct Term {
    HeadMatrix matrix;
    bool transposed = false;
  };
  /// Row-major out = alpha op(a) op(b) for every head. A batch runs over the groups of a sequence, or over the sequences, whichever are
  /// more. Heads that share an `out` follow each other and add up.
  Works all(const Term& a, const Term& b, const HeadMatrix& out) const {
    const bool over_groups = dims.groups() >= dims.batch;
    const std::int64_t batch = over_groups ? dims.groups() : dims.batch, rest = over_groups ? dims.batch : dims.groups();
    Works works;
    for (std::int64_t r = 0; r < rest; ++r)
      for (std::int64_t q = 0; q < dims.heads / dims.groups(); ++q) {
        const std::int64_t s = over_groups ? r : 0, g = over_groups ? 0 : r;
        GemmShape shape{stored(b, over_groups), stored(a, over_groups), stored({out}, over_groups), batch, type, out.data.type};
        shape.accumulate = q > 0 && out.of_query == 0;
        works.push_back(Product{shape, b.matrix.at(s, g, q), a.matrix.at(s, g, q), out.at(s, g, q), nullptr, alpha});
      }
    return works;
  }

 private:
  static Stored stored(const Term& t, bool over_groups) {
    const HeadMatrix& m = t.matrix;
    return {m.cols, m.rows, m.ld, over_groups ? m.of_group : m.of_sequence, t.transposed};
  }
};

void append(Works& to, const Works& more) { to.insert(to.end(), more.begin(), more.end()); }

double score_scale(const AttentionDims& d, bool scaled) { return scaled ? 1 / std::sqrt(static_cast<double>(d.head_dim)) : 1; }

}  // namespace

Works works(const AttentionScores& op, const Operands& at) {
  const HeadProducts p{op.dims, at.compute(), score_scale(op.dims, op.scaled)};
  return p.all({p.query(at.in(0))}, {p.key(at.in(1), 0), true}, p.scores(at.out(0)));
}

Works works(const AttentionContext& op, const Operands& at) {
  const HeadProducts p{op.dims, at.compute()};
  return p.all({p.scores(at.in(0))}, {p.key(at.in(1), 1)}, p.context(at.out(0)));
}

Works works(const AttentionContextBackward& op, const Operands& at) {
  const HeadProducts p{op.dims, at.compute()};
  const auto dcontext = p.context(at.in(0));
  Works all = p.all({dcontext}, {p.key(at.in(2), 1), true}, p.scores(at.out(0)));
  append(all, p.all({p.scores(at.in(1)), true}, {dcontext}, p.key(at.out(1), 1)));
  return all;
}

Works works(const AttentionScoresBackward& op, const Operands& at) {
  const HeadProducts p{op.dims, at.compute(), score_scale(op.dims, op.scaled)};
  const auto dscores = p.scores(at.in(0));
  Works all = p.all({dscores}, {p.key(at.in(2), 0)}, p.query(at.out(0)));
  append(all, p.all({dscores, true}, {p.query(at.in(1))}, p.key(at.out(1), 0)));
  return all;
}

Works works(const AttentionSoftmax& op, const Operands& at) {
  const bool drops = op.dropout > 0 && (op.part == SoftmaxPart::whole || op.part == SoftmaxPart::dropout);
  const Typed scores = at.in(0), probs = at.out(0), dropped = at.out_if(drops && op.part == SoftmaxPart::whole, 1);
  SoftmaxKernel kernel{at.form({scores, probs, dropped}), scores, probs, dropped, place_of(op.dims, at), op.part};
  kernel.place.alibi = op.alibi;
  if (drops) kernel.place.dropout = at.dropout(op.site, op.dropout);
  return {kernel};
}

Works works(const AttentionSoftmaxBackward& op, const Operands& at) {
  AttentionPlace place = place_of(op.dims, at);
  if (op.dropout > 0) place.dropout = at.dropout(op.site, op.dropout);
  const Typed dprobs = at.in(0), out = at.out(0);
  if (op.part == SoftmaxPart::dropout) return {SoftmaxKernel{at.form({dprobs, out}), dprobs, out, {}, place, SoftmaxPart::dropout}};
  const Typed probs = at.in(1);
  return {SoftmaxGradKernel{at.form({dprobs, probs, out}), dprobs, probs, out, place}};
}

Works works(const FlashAttention& op, const Operands& at) {
  const Typed q = at.in(0), kv = at.in(1), context = at.out(0);
  FlashKernel kernel{at.form({q, kv, context}), q, kv, context, at.out(1), place_of(op.dims, at, op.ring_step), layout_of(op.dims),
                     op.sinks ? at.in(2) : Typed{}, head_part(op.dims, at.context()) * op.dims.heads, op.ring_step > 0};
  kernel.place.alibi = op.alibi;
  kernel.place.soft_cap = op.soft_cap;
  if (op.dropout > 0) kernel.place.dropout = at.dropout(op.site, op.dropout);
  return {kernel};
}

Works works(const FlashAttentionBackward& op, const Operands& at) {
  const FlashGradOperands o{at.in(0), at.in(1), at.in(2), at.in(3), at.in(4), at.out(0), at.out(1)};
  require(!op.sinks || op.ring_step <= 0, "sinks join once");
  AttentionPlace place = place_of(op.dims, at, op.ring_step);
  place.alibi = op.alibi;
  place.soft_cap = op.soft_cap;
  if (op.dropout > 0) place.dropout = at.dropout(op.site, op.dropout);
  const Form form = at.form({o.dcontext, o.q, o.kv, o.context, o.dq, o.dkv});
  const HeadLayout layout = layout_of(op.dims);
  const bool adds = op.ring_step > 0;
  Works all{FlashGradKernels{{form, o, place, layout, adds}, {form, o, place, layout, adds}}};
  const std::int64_t parts = head_parts(op.dims, at.context()), heads = op.dims.heads;
  if (op.sinks)
    all.push_back(SinkGradKernel{at.form({o.dcontext, o.context}), o.dcontext, o.context, o.stats, at.in(5), at.out(2), place, layout,
                                 head_part(op.dims, at.context()) * heads, parts * heads});
  return all;
}

}  // namespace tandem::exec::device
