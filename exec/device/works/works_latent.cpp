// Works of latent attention: the norm of a part of each row, and heads from compressed rows.
#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {
namespace {

LatentRows rows_of(const auto& op) {
  const AttentionDims& d = op.dims;
  return {op.rows(), d.heads, d.head_dim, op.turned, d.value_width(), op.query_scale};
}

/// Copies some columns of every row.
CopyKernel columns(Typed from, Steps from_steps, Typed to, Steps to_steps, std::int64_t rows, std::int64_t cols) {
  return {Form::floats, from, to, 1, rows, cols, from_steps, to_steps};
}

}  // namespace

/// Copies the first columns out and normalises the copy.
Works works(const LatentNorm& op, const Operands& at) {
  const Typed x = at.in(0), y = at.out(0), others = at.out(1);
  const std::int64_t width = op.cols + op.rest;
  return {columns(x, {0, 0, width}, y, {0, 0, op.cols}, op.rows, op.cols),
          columns(x, {op.cols, 0, width}, others, {0, 0, op.rest}, op.rows, op.rest),
          NormKernel{at.form({y}), y, at.in(1), {}, y, at.out(2), op.rows, op.cols, op.epsilon, true}};
}

/// Copies the norm's input to scratch memory, computes its gradient there, and copies that back between the other columns.
Works works(const LatentNormBackward& op, const Operands& at) {
  const Typed dy = at.in(0), dothers = at.in(1), x = at.in(2), stats = at.in(3), gamma = at.in(4), dx = at.out(0);
  const std::int64_t width = op.cols + op.rest;
  const Typed apart{at.around().scratch + latent_sums_scratch(op), x.type};
  const Typed gradient{apart.address + padded_bytes(x.type, op.rows * op.cols), dx.type};
  Works all{columns(x, {0, 0, width}, apart, {0, 0, op.cols}, op.rows, op.cols)};
  const NormGradRows rows{dy, apart, stats, gamma, {}, gradient, op.rows, op.cols, true};
  for (const Work& w : norm_gradients(at, rows, at.out(1), {})) all.push_back(w);
  all.push_back(columns(gradient, {0, 0, op.cols}, dx, {0, 0, width}, op.rows, op.cols));
  all.push_back(columns(dothers, {0, 0, op.rest}, dx, {op.cols, 0, width}, op.rows, op.rest));
  return all;
}

Works works(const LatentHeads& op, const Operands& at) {
  const Typed q = at.in(0), kv = at.in(1), common = at.in(2), qkv = at.out(0);
  return {LatentHeadsKernel{at.form({q, kv, common, qkv}), q, kv, common, qkv, rows_of(op)}};
}

Works works(const LatentHeadsBackward& op, const Operands& at) {
  const Typed dqkv = at.in(0), dq = at.out(0), dkv = at.out(1), dcommon = at.out(2);
  return {LatentHeadsGradKernel{at.form({dqkv, dq, dkv, dcommon}), dqkv, dq, dkv, dcommon, rows_of(op)}};
}

}  // namespace tandem::exec::device
