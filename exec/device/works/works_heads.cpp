// Works of query and key norms, soft caps and gates.
#include "exec/device/works/column_works.hpp"
#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {
namespace {

/// The heads of a row norm.
HeadRows heads_of(const AttentionDims& d) { return {d.batch * d.seq, d.groups(), d.per_group(), d.head_dim, d.group_width()}; }

/// A kernel whose warps keep heads of that length.
template <class Usual, class Long, class... Operands>
Work for_heads(const HeadRows& rows, const Operands&... operands) {
  if (std::max(rows.dim, rows.value) > kMostOfHead) return Long{operands...};
  return Usual{operands...};
}

}  // namespace

Works works(const HeadNorm& op, const Operands& at) {
  const bool tied = op.values == NormedValues::of_keys;
  const Typed qkv = at.out(0), kept = tied ? at.in(0) : at.out(1);
  const Typed of_queries = at.in_if(!op.plain, 1), of_keys = at.in_if(!op.plain, 2);
  const HeadRows rows = head_rows(op);
  const Form form = at.form({qkv, kept});
  return {for_heads<HeadNormKernel, LongHeadNormKernel>(rows, form, qkv, of_queries, of_keys, kept, rows, op.epsilon, tied)};
}

Works works(const HeadNormBackward& op, const Operands& at) {
  const bool tied = op.values == NormedValues::of_keys;
  const Typed dqkv = tied ? at.in(0) : at.out(0), kept = at.in(1), dkept = tied ? at.out(0) : Typed{};
  const Form form = at.form({dqkv, kept, dkept});
  const HeadRows rows = head_rows(op);
  const auto gradient = [&](Typed of_queries, Typed of_keys, Typed partials) {
    return for_heads<HeadNormGradKernel, LongHeadNormGradKernel>(rows, form, dqkv, kept, of_queries, of_keys, partials, rows,
                                                                 op.epsilon, dkept);
  };
  if (op.plain) return {gradient({}, {}, {})};
  const std::int64_t slabs = head_norm_slabs(rows.count());
  ColumnFoldKernel last = column_fold(at.compute(), at.around().scratch, slabs, op.dims.head_dim);
  last.sets = 2, last.first = at.out(1), last.second = at.out(2);
  return {gradient(at.in(2), at.in(3), partial_sums(at.compute(), at.around().scratch)), last};
}

Works works(const RowNormSums& op, const Operands& at) {
  const Typed qkv = at.in(0);
  return {RowSumsKernel{at.form({qkv}), qkv, {}, {}, {}, at.out(0), heads_of(op.dims)}};
}

Works works(const RowNorm& op, const Operands& at) {
  const Typed qkv = at.out(0), kept = at.out(1);
  return {RowNormKernel{at.form({qkv, kept}), qkv, at.in(1), at.in(2), at.in(3), kept, {heads_of(op.dims), op.ranks, op.epsilon}}};
}

Works works(const RowNormDots& op, const Operands& at) {
  const Typed dqkv = at.in(0), kept = at.in(1);
  return {RowSumsKernel{at.form({dqkv, kept}), dqkv, kept, at.in(2), at.in(3), at.out(0), heads_of(op.dims)}};
}

// The weights' gradients come first, because dqkv is overwritten.
Works works(const RowNormBackward& op, const Operands& at) {
  const Typed dqkv = at.out(0), kept = at.in(1), sums = at.in(4);
  const RowNorms norms{heads_of(op.dims), op.ranks, op.epsilon};
  const Form form = at.form({dqkv, kept});
  const RowNormWeightsKernel weights{form, dqkv, kept, sums, partial_sums(at.compute(), at.around().scratch), norms};
  const std::int64_t slabs = weights.slabs().count, queries = op.dims.q_width(), keys = op.dims.groups() * op.dims.head_dim;
  ColumnFoldKernel of_queries = column_fold(at.compute(), at.around().scratch, slabs, queries);
  std::byte* behind = at.around().scratch + bytes_of(weights.partials.type, slabs * queries).count();
  ColumnFoldKernel of_keys = column_fold(at.compute(), behind, slabs, keys);
  of_queries.first = at.out(1);
  of_keys.first = at.out(2);
  return {weights, of_queries, of_keys, RowNormGradKernel{form, dqkv, kept, at.in(2), at.in(3), sums, at.in(5), norms}};
}

Works works(const SoftCap& op, const Operands& at) {
  const Typed x = at.in(0), y = at.out(0);
  return {SoftCapKernel{at.form({x, y}), x, {}, y, op.elements, op.cap}};
}

Works works(const SoftCapBackward& op, const Operands& at) {
  const Typed dy = at.in(0), y = at.in(1), dx = at.out(0);
  return {SoftCapKernel{at.form({dy, y, dx}), dy, y, dx, op.elements, op.cap}};
}

Works works(const RowGate& op, const Operands& at) {
  const Typed x = at.in(0), y = at.out(0);
  return {RowGateKernel{at.form({x, y}), x, at.in(1), y, op.rows, op.cols}};
}

Works works(const RowGateBackward& op, const Operands& at) {
  const Typed dy = at.in(0), x = at.in(1), dx = at.out(0);
  return {RowGateGradKernel{at.form({dy, x, dx}), dy, x, at.in(2), dx, at.out(1), op.rows, op.cols}};
}

}  // namespace tandem::exec::device
