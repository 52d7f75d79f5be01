// Works of attention with stored scores: products of all heads, and kernels on rows of scores.
#include <cmath>

#include "exec/device/works/attention_places.hpp"

namespace tandem::exec::device {
namespace {

/// The matrices of all heads of a batch: each [rows, cols], row-major, rows `ld` apart.
struct HeadMatrix {
  Typed data;
  std::int64_t rows, cols, ld;
  std::int64_t first, of_sequence, of_group, of_query;  ///< first offset; strides of sequence, group, query head in a group

  std::byte* at(std::int64_t sequence, std::int64_t group, std::int64_t query) const {
    const std::int64_t elements = first + sequence * of_sequence + group * of_group + query * of_query;
    return data.address + bytes_of(data.type, elements).count();
  }
};

/// Products of all heads: out = alpha op(first) op(second), column-major for cuBLAS.
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
  /// Row-major out = alpha op(a) op(b) for every head. A batch covers the groups of a sequence or the sequences, whichever are
  /// more. Heads that share an `out` run consecutively and accumulate.
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

double score_scale(const AttentionDims& d, bool scaled) { return scaled ? d.score_factor() : 1; }

/// The columns of a head group that an operand provides or receives.
enum class Part : std::uint8_t { query, key, value, context };

/// An operand whose rows may come from several context ranks.
struct Rows {
  bool out;
  std::size_t index;
  Part part;
};
std::vector<Rows> rows_of(const AttentionScores&) { return {{false, 0, Part::query}, {false, 1, Part::key}}; }
std::vector<Rows> rows_of(const AttentionContext&) { return {{false, 1, Part::value}, {true, 0, Part::context}}; }
std::vector<Rows> rows_of(const AttentionContextBackward&) {
  return {{false, 0, Part::context}, {false, 2, Part::value}, {true, 1, Part::value}};
}
std::vector<Rows> rows_of(const AttentionScoresBackward&) {
  return {{false, 1, Part::query}, {false, 2, Part::key}, {true, 0, Part::query}, {true, 1, Part::key}};
}

bool of_keys(Part part) { return part == Part::key || part == Part::value; }
SequenceMap shards_of(const AttentionDims& d, Part part) {
  const HeadLayout l = layout_of(d);
  return of_keys(part) ? l.key_shards : l.query_shards;
}
GroupColumns columns_of(const AttentionDims& d, Part part) {
  const std::int64_t queries = d.per_group() * d.head_dim, before = d.kv_packed ? queries : 0;
  if (part == Part::context) return {d.groups(), d.per_group() * d.value_width(), 0, d.per_group() * d.value_width()};
  if (part == Part::query) return {d.groups(), d.q_packed ? d.group_width() : queries, 0, queries};
  const std::int64_t width = d.kv_packed ? d.group_width() : d.pair_width();
  return part == Part::key ? GroupColumns{d.groups(), width, before, d.head_dim}
                           : GroupColumns{d.groups(), width, before + d.head_dim, d.value_width()};
}
/// Bytes of an operand's copy in order of positions; 0: it already has that order.
std::int64_t copy_bytes(const AttentionDims& d, Part part, DType type) {
  if (shards_of(d, part).context_size == 1) return 0;
  const GroupColumns columns = columns_of(d, part);
  return padded_bytes(type, d.batch * (of_keys(part) ? d.key_count() : d.seq) * columns.groups * columns.width);
}

/// Operands in order of positions: the originals, or copies in scratch memory.
template <class Op>
class Ordered {
 public:
  Ordered(const Op& op, const Operands& at) : dims_(op.dims), at_(at) {
    std::byte* scratch = at.around().scratch;
    for (const Rows& r : rows_of(op)) {
      const Typed own = r.out ? at.out(r.index) : at.in(r.index);
      const std::int64_t bytes = copy_bytes(dims_, r.part, own.type);
      const Typed copy = bytes > 0 ? Typed{scratch, own.type} : own;
      scratch += bytes;
      if (bytes > 0) (r.out ? behind_ : before_).push_back(r.out ? move(r.part, copy, own, true) : move(r.part, own, copy, false));
      operands_.push_back({r, copy});
    }
  }
  Typed in(std::size_t index) const { return find(false, index); }
  Typed out(std::size_t index) const { return find(true, index); }
  /// `works`, with the copies before and after.
  Works all(const Works& works) const {
    Works out = before_;
    append(out, works);
    append(out, behind_);
    return out;
  }

 private:
  Typed find(bool out, std::size_t index) const {
    for (const auto& [rows, copy] : operands_)
      if (rows.out == out && rows.index == index) return copy;
    return out ? at_.out(index) : at_.in(index);
  }
  RowOrderKernel move(Part part, const Typed& from, const Typed& to, bool back) const {
    return {at_.form({from, to}), from, to, dims_.batch, shards_of(dims_, part), columns_of(dims_, part), back};
  }

  const AttentionDims& dims_;
  const Operands& at_;
  Works before_, behind_;
  std::vector<std::pair<Rows, Typed>> operands_;
};

template <class Op>
std::int64_t copies_scratch(const Op& op, const Launch& launch) {
  std::int64_t bytes = 0;
  for (const Rows& r : rows_of(op)) bytes += copy_bytes(op.dims, r.part, (r.out ? launch.out : launch.in)[r.index].dtype);
  return bytes;
}

std::int64_t all_queries(const AttentionDims& d, const KernelContext& c) {
  return d.share == AttentionShare::queries ? c.context_size / d.head_ranks * d.seq : d.seq;
}

}  // namespace

std::int64_t scores_scratch(const Launch& launch) {
  const auto with_scores = [&](const auto& op) -> std::int64_t {
    if constexpr (requires { rows_of(op); }) return copies_scratch(op, launch);
    else return 0;
  };
  if (const auto* o = std::get_if<AttentionSoftmax>(&launch.op))
    return o->relative_buckets == 0 ? 0 : padded_bytes(DType::int32, all_queries(o->dims, launch.context) + o->dims.key_count());
  return std::visit(with_scores, launch.op);
}

Works works(const AttentionScores& op, const Operands& at) {
  const HeadProducts p{op.dims, at.compute(), score_scale(op.dims, op.scaled)};
  const Ordered o(op, at);
  return o.all(p.all({p.query(o.in(0))}, {p.key(o.in(1), 0), true}, p.scores(at.out(0))));
}

Works works(const AttentionContext& op, const Operands& at) {
  const HeadProducts p{op.dims, at.compute()};
  const Ordered o(op, at);
  return o.all(p.all({p.scores(at.in(0))}, {p.key(o.in(1), 1)}, p.context(o.out(0))));
}

Works works(const AttentionContextBackward& op, const Operands& at) {
  const HeadProducts p{op.dims, at.compute()};
  const Ordered o(op, at);
  const auto dcontext = p.context(o.in(0));
  Works all = p.all({dcontext}, {p.key(o.in(2), 1), true}, p.scores(at.out(0)));
  append(all, p.all({p.scores(at.in(1)), true}, {dcontext}, p.key(o.out(1), 1)));
  return o.all(all);
}

Works works(const AttentionScoresBackward& op, const Operands& at) {
  const HeadProducts p{op.dims, at.compute(), score_scale(op.dims, op.scaled)};
  const Ordered o(op, at);
  const auto dscores = p.scores(at.in(0));
  Works all = p.all({dscores}, {p.key(o.in(2), 0)}, p.query(o.out(0)));
  append(all, p.all({dscores, true}, {p.query(o.in(1))}, p.key(o.out(1), 0)));
  return o.all(all);
}

Works works(const AttentionSoftmax& op, const Operands& at) {
  const bool drops = op.dropout > 0 && (op.part == SoftmaxPart::whole || op.part == SoftmaxPart::dropout);
  const Typed scores = at.in(0), probs = at.out(0), dropped = at.out_if(drops && op.part == SoftmaxPart::whole, 1);
  SoftmaxKernel kernel{at.form({scores, probs, dropped}), scores, probs, dropped, place_of(op.dims, at), op.part, {}};
  kernel.place.alibi = op.alibi;
  if (drops) kernel.place.dropout = at.dropout(op.site, op.dropout);
  if (op.relative_buckets == 0 || op.part == SoftmaxPart::dropout || op.part == SoftmaxPart::softmax) return {kernel};
  require(!op.alibi, "ALiBi and relative bias at once");
  const BucketsKernel buckets{kernel.form, reinterpret_cast<std::int32_t*>(at.around().scratch), all_queries(op.dims, at.context()),
                              op.dims.key_count(), op.relative_buckets, op.dims.causal};
  kernel.relative = {at.in(1), op.relative_buckets, buckets.queries, buckets.to};
  return {buckets, kernel};
}

Works works(const AttentionSoftmaxBackward& op, const Operands& at) {
  AttentionPlace place = place_of(op.dims, at);
  if (op.dropout > 0) place.dropout = at.dropout(op.site, op.dropout);
  const Typed dprobs = at.in(0), out = at.out(0);
  if (op.part == SoftmaxPart::dropout)
    return {SoftmaxKernel{at.form({dprobs, out}), dprobs, out, {}, place, SoftmaxPart::dropout, {}}};
  const Typed probs = at.in(1);
  Works all{SoftmaxGradKernel{at.form({dprobs, probs, out}), dprobs, probs, out, place}};
  if (op.relative_buckets > 0) all.push_back(BucketGradKernel{at.form({out}), out, at.out(1), place, op.relative_buckets});
  return all;
}

}  // namespace tandem::exec::device
