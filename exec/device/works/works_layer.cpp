// Works of a layer, except attention.
#include "exec/device/works/column_works.hpp"
#include "exec/device/works/operands.hpp"
#include "exec/device/works/product_parts.hpp"
#include "exec/device/product_shape.hpp"
#include "models/ops/column_blocks.hpp"

namespace tandem::exec::device {
namespace {

/// The partial sums that an operation's blocks leave for the second stage.
Typed partials(const Operands& at) { return partial_sums(at.compute(), at.around().scratch); }

Works sums_of_columns(const Operands& at, Typed dy, Typed sums, std::int64_t rows, std::int64_t cols) {
  return column_sums(at.compute(), dy, sums, {rows, cols, at.around().scratch});
}

Typed behind(const Typed& t, std::int64_t elements) {
  return t.here() ? Typed{t.address + bytes_of(t.type, elements).count(), t.type} : t;
}

/// Operands of a product in its type, and the kernels that round wider ones.
struct Factors {
  Typed a, b;
  Works before;
};
Factors factors_of(const MatMul& op, const Operands& at) {
  Factors f{at.in(0), at.in(1), {}};
  std::byte* scratch = at.around().scratch + sums_scratch(op);
  for (const std::size_t i : {0, 1}) {
    if (!is_rounded(at.launch(), i)) continue;
    Typed& wide = i == 0 ? f.a : f.b;
    const Typed narrow{scratch, at.compute()};
    const std::int64_t n = operand_elements(op, i);
    f.before.push_back(AddKernel{form_of(DType::fp32, {wide, narrow}), wide, narrow, n, n, 0, true});
    wide = narrow;
    scratch += padded_bytes(at.compute(), n);
  }
  return f;
}

void append(Works& to, const Works& more) { to.insert(to.end(), more.begin(), more.end()); }

DropoutAdd dropout_add(const BiasDropoutAdd& op, const Operands& at) {
  DropoutAdd add{at.in(0), at.in_if(op.bias, 1), at.in_if(op.residual, op.bias ? 2 : 1), op.cols, {}, {}};
  if (op.dropout == 0) return add;
  const KernelContext& context = at.context();
  require(context.seq_length > 0, "dropout of hidden states needs the sequence length");
  add.dropout = at.dropout(op.site, op.dropout);
  add.places = at.rows(context.seq_length / context.context_size, op.rows, op.shard);
  if (cuts_columns(op.site)) add.shares = context.tensor_size, add.share = context.tensor_rank;
  return add;
}

/// Puts the activation into the product's kernel if that supports the types, else into a kernel after it.
void activate(const MatMul& op, const Operands& at, Works& all) {
  require(!op.blocks.any(), "a product in blocks of columns has no activation");
  require(!op.accumulate, "a product that accumulates has no activation");
  const bool gradient = op.activation == ProductActivation::gelu_gradient;
  const Typed c = at.out(0), x = gradient ? at.in(op.bias ? 3 : 2) : c, y = gradient ? c : at.out(op.sums ? 2 : 1);
  if (all.size() > 1 || x.type != y.type) {
    all.push_back(gelu_kernel(at.form({x, y}), x, gradient ? c : Typed{}, y, op.m * op.n));
    return;
  }
  Product& product = std::get<Product>(all.front());
  product.shape.activation = op.activation;
  product.out = y.address;
  product.beside = x.address;
}

/// Operands of a product, or of a part of one.
struct Multiplied {
  Typed a, b, bias, c, sums;
};
Works multiply(const MatMul& op, const Operands& at, const Multiplied& of) {
  GemmShape shape = shape_of(op, at.compute(), of.c.type);
  shape.activation = ProductActivation::none;
  shape.bias = op.bias && of.bias.type == of.c.type;  // cuBLASLt adds a bias of the result's type
  shape.sums = op.sums && of.sums.type == of.c.type;
  std::byte* const vector = shape.bias ? of.bias.address : shape.sums ? of.sums.address : nullptr;
  Product product{shape, of.b.address, of.a.address, of.c.address, vector};
  product.scratch = at.around().scratch;
  Works all{product};
  if (op.bias && !shape.bias) all.push_back(BiasKernel{at.form({of.c}), of.bias, of.c, op.m, op.n});
  if (op.sums && !shape.sums) append(all, sums_of_columns(at, of.a, of.sums, op.k, op.m));
  return all;
}

/// A's blocks as one matrix, in scratch memory behind the rest.
Works joined(const MatMul& op, const Operands& at, Multiplied& of) {
  const Typed whole{at.around().scratch + sums_scratch(op) + rounded_scratch(op, at.launch()), of.a.type};
  Works all;
  std::int64_t col = 0;
  for (const std::int64_t width : widths_of(op.blocks, op.k)) {
    if (width > 0)
      all.push_back(CopyKernel{Form::floats, of.a, whole, op.m, 1, width, {op.m * col, width, 0}, {col, op.k, 0}});
    col += width;
  }
  of.a = whole;
  return all;
}

/// A product per block of C's columns or, for a weight's gradient, of A's. Otherwise A's columns are summed over, as one matrix.
Works in_blocks(MatMul op, const Operands& at, Multiplied of) {
  const ColumnBlocks blocks = op.blocks;
  if (!op.trans_b && !op.trans_a) {
    Works all = joined(op, at, of);
    append(all, multiply(op, at, of));
    return all;
  }
  Works all;
  std::int64_t col = 0;
  for (const std::int64_t width : widths_of(blocks, op.trans_b ? op.n : op.m)) {
    MatMul part = op;
    Multiplied here = of;
    if (op.trans_b) {
      part.n = width;
      here.b = behind(of.b, col * op.k), here.bias = behind(of.bias, col), here.c = behind(of.c, op.m * col);
    } else {
      part.m = width;
      here.a = behind(of.a, op.k * col), here.c = behind(of.c, col * op.n), here.sums = behind(of.sums, col);
    }
    if (width > 0) append(all, multiply(part, at, here));
    col += width;
  }
  return all;
}

}  // namespace

std::int64_t block_sums_scratch(const ColumnBlocks& blocks, std::int64_t rows, std::int64_t cols) {
  if (!blocks.any()) return column_scratch(rows, cols, 1);
  std::int64_t most = 0;
  for (const std::int64_t width : widths_of(blocks, cols))
    if (width > 0) most = std::max(most, column_scratch(rows, width, 1));
  return most;
}

std::int64_t joined_scratch(const MatMul& op, DType compute) {
  return op.blocks.any() && !op.trans_a && !op.trans_b ? padded_bytes(compute, op.m * op.k) : 0;
}

std::int64_t rounded_scratch(const MatMul& op, const Launch& launch) {
  std::int64_t bytes = 0;
  for (const std::size_t i : {0, 1})
    if (is_rounded(launch, i)) bytes += padded_bytes(launch.compute, operand_elements(op, i));
  return bytes;
}

Works works(const MatMul& op, const Operands& at) {
  require(!op.accumulate || !op.bias, "a product that accumulates has no bias");
  require(!op.sums || (op.trans_a && !op.bias),
          "a product that gives sums has them of a matrix that is stored transposed, and no bias");
  const auto [a, b, before] = factors_of(op, at);
  const Multiplied of{a, b, at.in_if(op.bias, 2), at.out(0), at.out_if(op.sums, 1)};
  Works all = op.blocks.any() ? in_blocks(op, at, of) : multiply(op, at, of);
  if (op.activation != ProductActivation::none) activate(op, at, all);
  all.insert(all.begin(), before.begin(), before.end());
  return all;
}

Works works(const BiasGrad& op, const Operands& at) {
  Works all;
  std::int64_t col = 0;
  for (const std::int64_t width : widths_of(op.blocks, op.cols)) {
    if (width > 0)
      append(all, sums_of_columns(at, behind(at.in(0), op.rows * col), behind(at.out(0), col), op.rows, width));
    col += width;
  }
  return all;
}

Works works(const LayerNorm& op, const Operands& at) {
  const Typed x = at.in(0), y = at.out(0);
  return {NormKernel{at.form({x, y}), x, at.in(1), at.in_if(op.has_beta(), 2), y, at.out(1), op.rows, op.cols, op.epsilon, op.rms}};
}

// dx may overwrite dy, so the parameters' gradients come first or in the same pass.
Works norm_gradients(const Operands& at, const NormGradRows& rows, Typed dgamma, Typed dbeta) {
  const bool input = rows.dx.here(), parameters = dgamma.here();
  const Form form = at.form({rows.dy, rows.x, rows.residual, rows.dx});
  const RowPlan plan = rows.plan(form);
  const bool together = input && parameters && NormGradKernel::can(plan);
  Works all;
  if (together)
    all.push_back(NormGradKernel{form, rows, partials(at)});
  else if (parameters)
    all.push_back(ColumnSumsKernel{at.form({rows.dy, rows.x}), rows.dy, rows.x, rows.stats, partials(at), rows.rows, rows.cols});
  if (parameters) {
    const std::int64_t slabs = together ? NormGradKernel::slabs(rows.rows, plan) : column_slabs(rows.rows, rows.cols).count;
    ColumnFoldKernel last = column_fold(at.compute(), at.around().scratch, slabs, rows.cols);
    last.sets = 2, last.first = dgamma, last.second = dbeta;
    all.push_back(last);
  }
  if (input && !together) all.push_back(NormInputGradKernel{form, rows});
  return all;
}

Works works(const LayerNormBackward& op, const Operands& at) {
  const bool input = op.part != NormPart::parameters, parameters = op.part != NormPart::input;
  const std::size_t first = input ? 1 : 0;
  const Typed residual = at.in_if(input && op.add_residual, 4);
  const Typed dx = at.out_if(input, 0);
  const NormGradRows rows{at.in(0), at.in(1), at.in(2), at.in_if(input, 3), residual, dx, op.rows, op.cols, op.rms};
  return norm_gradients(at, rows, at.out_if(parameters, first), at.out_if(parameters && op.has_beta(), first + 1));
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
  if (op.bias) append(all, sums_of_columns(at, at.out(0), at.out(1), op.rows, op.cols));
  return all;
}

// The norm reads the sum as it is stored.
Works works(const BiasDropoutAddNorm& op, const Operands& at) {
  const std::size_t gamma = op.bias ? 3 : 2;
  const DropoutAdd add = dropout_add(op.add(), at);
  const Typed sum = at.out(0), y = at.out(1);
  const Typed beta = at.in_if(op.norm().has_beta(), gamma + 1);
  const Form form = at.form({add.x, add.residual, sum, y});
  return {NormKernel{form, sum, at.in(gamma), beta, y, at.out(2), op.rows, op.cols, op.epsilon, op.rms, add}};
}

}  // namespace tandem::exec::device
