// Works of a layer outside of its attention.
#include "exec/device/operands.hpp"

namespace tandem::exec::device {
namespace {

struct Matrix {
  std::int64_t rows, cols;
};

/// A row-major matrix [rows, cols] as cuBLAS sees it.
Stored stored(std::int64_t rows, std::int64_t cols, bool transposed) { return {cols, rows, cols, 0, transposed}; }

/// What an operation's blocks leave for each other.
Typed partials(const Operands& at) { return {at.around().room, at.compute() == DType::fp64 ? DType::fp64 : DType::fp32}; }

ColumnFoldKernel fold(const Operands& at, std::int64_t slabs, std::int64_t cols) {
  return {at.compute() == DType::fp64 ? Form::doubles : Form::floats, partials(at), {}, {}, slabs, 1, cols};
}

void append_column_sums(Works& all, const Operands& at, Typed dy, Typed sums, const Matrix& of) {
  all.push_back(ColumnSumsKernel{at.form({dy}), dy, {}, {}, partials(at), of.rows, of.cols});
  ColumnFoldKernel last = fold(at, column_slabs(of.rows, of.cols).count, of.cols);
  last.first = sums;
  all.push_back(last);
}

DropoutAdd dropout_add(const BiasDropoutAdd& op, const Operands& at) {
  DropoutAdd add{at.in(0), at.in_if(op.bias, 1), at.in_if(op.residual, op.bias ? 2 : 1), op.cols, {}, {}};
  if (op.dropout == 0) return add;
  const KernelContext& context = at.context();
  require(context.seq_length > 0, "dropout of hidden states needs the sequence length");
  add.dropout = at.dropout(op.site, op.dropout);
  add.places = at.rows(context.seq_length / context.context_size, op.rows, op.shard);
  return add;
}

}  // namespace

// Row-major C = op(A) op(B) is column-major C^T = op(B)^T op(A)^T: B comes first.
Works works(const MatMul& op, const Operands& at) {
  require(!op.accumulate || !op.bias, "a product that accumulates has no bias");
  require(!op.sums || op.trans_a, "a product that gives sums has them of a matrix that is stored transposed");
  const Typed a = at.in(0), b = at.in(1), bias = at.in_if(op.bias, 2), c = at.out(0);
  GemmShape shape;
  shape.first = op.trans_b ? stored(op.n, op.k, true) : stored(op.k, op.n, false);
  shape.second = op.trans_a ? stored(op.k, op.m, true) : stored(op.m, op.k, false);
  shape.out = stored(op.m, op.n, false);
  shape.type = at.compute();
  shape.result = c.type;
  shape.accumulate = op.accumulate;
  shape.bias = op.bias && bias.type == c.type;  // cuBLASLt adds a bias of the result's type
  Works all{Product{shape, b.address, a.address, c.address, shape.bias ? bias.address : nullptr}};
  if (op.bias && !shape.bias) all.push_back(BiasKernel{at.form({c}), bias, c, op.m, op.n});
  if (op.sums) append_column_sums(all, at, a, at.out(1), {op.k, op.m});
  return all;
}

Works works(const BiasGrad& op, const Operands& at) {
  Works all;
  append_column_sums(all, at, at.in(0), at.out(0), {op.rows, op.cols});
  return all;
}

Works works(const LayerNorm& op, const Operands& at) {
  const Typed x = at.in(0), y = at.out(0);
  return {NormKernel{at.form({x, y}), x, at.in(1), at.in_if(!op.rms, 2), y, at.out(1), op.rows, op.cols, op.epsilon, op.rms}};
}

// The parameters' gradients come first, or in the same pass: dx may take the place of dy.
Works works(const LayerNormBackward& op, const Operands& at) {
  const bool input = op.part != NormPart::parameters, parameters = op.part != NormPart::input;
  const std::size_t first = input ? 1 : 0;
  const Typed dy = at.in(0), x = at.in(1), stats = at.in(2), dx = at.out_if(input, 0), residual = at.in_if(input && op.add_residual, 4);
  const Form form = at.form({dy, x, residual, dx});
  const NormGradRows rows{dy, x, stats, at.in_if(input, 3), residual, dx, op.rows, op.cols, op.rms};
  const RowPlan plan = rows.plan(form);
  const bool together = input && parameters && NormGradKernel::can(plan);
  Works all;
  if (together) all.push_back(NormGradKernel{form, rows, partials(at)});
  else if (parameters) all.push_back(ColumnSumsKernel{at.form({dy, x}), dy, x, stats, partials(at), op.rows, op.cols});
  if (parameters) {
    ColumnFoldKernel last = fold(at, together ? NormGradKernel::slabs(op.rows, plan) : column_slabs(op.rows, op.cols).count, op.cols);
    last.sets = 2, last.first = at.out(first), last.second = at.out_if(!op.rms, first + 1);
    all.push_back(last);
  }
  if (input && !together) all.push_back(NormInputGradKernel{form, rows});
  return all;
}

Works works(const Pointwise& op, const Operands& at) {
  const Typed x = at.in(0), y = at.out(0);
  return {PointwiseKernel{at.form({x, y}), x, at.in_if(op.bias_cols > 0, 1), {}, y, op.elements, op.bias_cols, op.kind}};
}

Works works(const PointwiseBackward& op, const Operands& at) {
  const Typed dy = at.in(0), x = at.in(1), dx = at.out(0);
  return {PointwiseKernel{at.form({dy, x, dx}), x, at.in_if(op.bias_cols > 0, 2), dy, dx, op.elements, op.bias_cols, op.kind}};
}

Works works(const GatedPointwise& op, const Operands& at) {
  const bool product = op.part == GatePart::product;
  const Typed a = at.in_if(product, 0), x = at.in(product ? 1 : 0), y = at.out(0);
  return {GatedKernel{at.form({x, a, y}), x, a, y, op.rows * op.cols, op.kind, op.part}};
}

Works works(const GatedPointwiseBackward& op, const Operands& at) {
  const bool product = op.part == GatePart::product;
  const Typed dy = at.in(0), a = at.in_if(product, 1), x = at.in(product ? 2 : 1), da = at.out_if(product, 0);
  const Typed dx = at.out(product ? 1 : 0);
  return {GatedBackwardKernel{at.form({dy, a, x, da, dx}), dy, x, a, da, dx, op.rows * op.cols, op.kind, op.part}};
}

Works works(const Elementwise& op, const Operands& at) {
  require(op.other != Spread::none || op.kind == ElementwiseKind::multiply || op.kind == ElementwiseKind::square,
          "a sum of one operand");
  const Typed a = at.in(0), b = at.in_if(op.other != Spread::none, 1), y = at.out(0);
  const Typed large = op.other == Spread::full ? b : Typed{};
  return {ElementwiseKernel{at.form({a, large, y}), a, b, y, op.rows, op.cols, op.kind, op.other, op.factor}};
}

Works works(const RowReduce& op, const Operands& at) {
  const Typed x = at.in(0);
  return {RowReduceKernel{at.form({x}), x, at.out(0), op.rows, op.cols, op.kind, op.epsilon}};
}

Works works(const BiasDropoutAdd& op, const Operands& at) {
  const Typed y = at.out(0);
  const DropoutAdd add = dropout_add(op, at);
  return {DropoutKernel{at.form({add.x, add.residual, y}), add, y, op.rows}};
}

Works works(const BiasDropoutAddBackward& op, const Operands& at) {
  const BiasDropoutAdd plain{op.rows, op.cols, op.dropout, false, op.site, op.shard, false};
  Works all = works(plain, at);
  if (op.bias) append_column_sums(all, at, at.out(0), at.out(1), {op.rows, op.cols});
  return all;
}

// The norm reads the sum as it is stored.
Works works(const BiasDropoutAddNorm& op, const Operands& at) {
  const std::size_t gamma = op.bias ? 3 : 2;
  const DropoutAdd add = dropout_add(op.add(), at);
  const Typed sum = at.out(0), y = at.out(1);
  return {NormKernel{at.form({add.x, add.residual, sum, y}), sum, at.in(gamma), at.in_if(!op.rms, gamma + 1), y, at.out(2), op.rows,
                     op.cols, op.epsilon, op.rms, add}};
}

}  // namespace tandem::exec::device
