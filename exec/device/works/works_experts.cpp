// Works of experts.
#include <algorithm>

#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {
namespace {

const std::int32_t* integers(const Typed& t) { return as<const std::int32_t>(t); }

ChoiceRows choice_rows(const MoeDims& d, const Operands& at, std::size_t slots) {
  return {integers(at.in(slots)), d, d.rows(), at.around().fault};
}

/// Rows that nobody takes are 0; without a capacity every row is taken.
Works cleared_rows(const MoeDims& d, const Typed& rows) {
  if (d.capacity == 0) return {};
  return {Clearing{rows.address, bytes_of(rows.type, d.rows() * d.hidden).count(), std::byte{0}}};
}

/// Matrices [rows, cols] of a batch, row-major, as cuBLAS sees them.
Stored stored(std::int64_t rows, std::int64_t cols, bool transposed) { return {cols, rows, cols, rows * cols, transposed}; }

std::byte* moved(const Typed& t, std::int64_t elements) { return t.address + bytes_of(t.type, elements).count(); }

template <class Op>
ExpertRows rows_of(const Op& op, const Operands& at, std::size_t counts) {
  return {op.ragged ? integers(at.in(counts)) : nullptr, op.groups, op.experts, op.m};
}

}  // namespace

Works works(const TopKRouter& op, const Operands& at) {
  const MoeDims& d = op.dims;
  require(d.top_k >= 1 && d.top_k <= d.experts, "more choices than experts");
  const Typed logits = at.in(0), probs = at.out(0);
  auto* chosen = reinterpret_cast<std::int32_t*>(at.around().room);
  auto *slots = as<std::int32_t>(at.out(2)), *counts = as<std::int32_t>(at.out(3));
  const Form form = at.form({logits, probs});
  const std::int64_t tokens = routed_tokens(form, d.experts, routed_rows(op.routing, 1));
  return {RouterKernel{form, logits, at.in_if(op.routing.bias, 1), probs, at.out(1), chosen, d, op.routing, tokens},
          ChoiceCountsKernel{Form::doubles, chosen, counts, d.tokens * d.top_k, d.experts},
          SlotsKernel{Form::doubles, chosen, counts, slots, d}};
}

Works works(const TopKRouterBackward& op, const Operands& at) {
  const MoeDims& d = op.dims;
  const Typed probs = at.in(1), dlogits = at.out(0);
  const double factor = op.aux_loss * static_cast<double>(d.experts) / static_cast<double>(d.tokens * op.micro_batches);
  const Form form = at.form({probs, dlogits});
  return {RouterGradKernel{form, at.in(0), probs, at.in_if(op.routing.bias, 6), dlogits, integers(at.in(4)), d, op.routing, factor,
                           at.table(), routed_tokens(form, d.experts, routed_rows(op.routing, 2))}};
}

Works works(const BalanceGrad& op, const Operands& at) {
  const MoeDims& d = op.dims;
  const Typed gradient = at.out(0);
  return {BalanceGradKernel{at.form({gradient}), integers(at.in(0)), gradient, d.experts, d.tokens * d.top_k, op.scale()}};
}

Works works(const MoeDispatch& op, const Operands& at) {
  const Typed x = at.in(0), rows = at.out(0);
  Works all = cleared_rows(op.dims, rows);
  all.push_back(DispatchKernel{at.form({x, rows}), x, at.in_if(op.weighted, 2), rows, choice_rows(op.dims, at, 1)});
  return all;
}

Works works(const MoeDispatchBackward& op, const Operands& at) {
  const Typed drows = at.in(0), dx = at.out(0);
  Works all{CombineKernel{at.form({drows, dx}), drows, at.in_if(op.weighted, 3), dx, choice_rows(op.dims, at, 1)}};
  if (!op.weighted) return all;
  const Typed x = at.in(2);
  all.push_back(CombineGradKernel{at.form({x, drows}), x, drows, {}, {}, at.out(1), choice_rows(op.dims, at, 1)});
  return all;
}

Works works(const MoeCombine& op, const Operands& at) {
  const Typed rows = at.in(0), y = at.out(0);
  return {CombineKernel{at.form({rows, y}), rows, at.in_if(op.weighted, 2), y, choice_rows(op.dims, at, 1)}};
}

Works works(const MoeCombineBackward& op, const Operands& at) {
  const Typed dy = at.in(0), drows = at.out(0);
  Works all = cleared_rows(op.dims, drows);
  if (!op.weighted) {
    all.push_back(DispatchKernel{at.form({dy, drows}), dy, {}, drows, choice_rows(op.dims, at, 1)});
    return all;
  }
  const Typed rows = at.in(1);
  all.push_back(CombineGradKernel{at.form({dy, rows, drows}), dy, rows, at.in(3), drows, at.out(1), choice_rows(op.dims, at, 2)});
  return all;
}

// Row-major C = A op(B) is column-major C^T = op(B)^T A^T: B comes first. A batch runs over the experts, once for each rank that rows
// came from.
Works works(const GroupedMatMul& op, const Operands& at) {
  const Typed a = at.in(0), b = at.in(1), c = at.out(0);
  const Stored weights = op.trans_b ? stored(op.n, op.k, true) : stored(op.k, op.n, false);
  const GemmShape shape{weights, stored(op.m, op.k, false), stored(op.m, op.n, false), op.experts, at.compute(), c.type};
  Works all;
  for (std::int64_t row = 0; row < op.rows(); row += op.experts * op.m)
    all.push_back(Product{shape, b.address, moved(a, row * op.k), moved(c, row * op.n)});
  return all;
}

Works works(const GroupedWeightGrad& op, const Operands& at) {
  const Typed dy = at.in(0), x = at.in(1), dw = at.out(0);
  GemmShape shape{stored(op.m, op.k, false), stored(op.m, op.n, true), stored(op.n, op.k, false), op.experts, at.compute(),
                  dw.type};
  shape.accumulate = op.accumulate;
  return {Product{shape, x.address, dy.address, dw.address}};
}

Works works(const GroupedBias& op, const Operands& at) {
  if (op.once && at.context().expert_tensor_rank != 0) return {};
  const Typed x = at.out(0);
  const ExpertRows rows = rows_of(op, at, 2);
  const std::int64_t parts = op.ragged ? op.groups * op.experts : op.groups;
  return {ExpertBiasKernel{at.form({x}), x, at.in(1), rows, op.n, std::max<std::int64_t>(1, op.rows() / parts)}};
}

Works works(const GroupedBiasGrad& op, const Operands& at) {
  const Typed dy = at.in(0);
  return {ExpertBiasGradKernel{at.form({dy}), dy, at.out(0), rows_of(op, at, 1), op.n}};
}

}  // namespace tandem::exec::device
