#pragma once
// Operations of a layer other than attention: products, norms, activations, dropout, residual sums. Conventions: models/ops/op.hpp.

#include <cstdint>

#include "models/base/dtype.hpp"
#include "models/ops/dropout_site.hpp"

namespace tandem {

/// How a matrix is cut by columns into up to three matrices that lie in memory one after another, each row by row: columns of the
/// first and of the second; the third has the rest. A part of 0 columns does not exist. Both 0: the matrix is whole.
struct ColumnBlocks {
  std::int64_t first = 0, second = 0;
  bool any() const { return first > 0; }
};

/// C[m,n] = op(A) op(B) (+ bias over columns). op(A) is [m,k], op(B) is [k,n]; trans_x means x is stored transposed.
/// `accumulate`: C, of type `total`, += op(A) op(B), so a weight gradient is accumulated over micro-batches in the product's
/// kernel. The product is complete before it is added. `sums`: also writes the row sums of op(A), which are the bias gradient
/// if A is a linear layer's output gradient, stored transposed. `activation`: tanh-approximated GELU fused into the kernel.
/// in: A, B, [bias n], [x m,n when gelu_gradient], [C when accumulate]; out: C, [sums m], [gelu(C) m,n when gelu]
enum class ProductActivation : std::uint8_t {
  none,
  gelu,           ///< writes gelu(C) as well as C
  gelu_gradient,  ///< C = op(A) op(B) gelu'(x), element by element
};
struct MatMul {
  std::int64_t m, n, k;
  bool trans_a = false, trans_b = false, bias = false, accumulate = false;
  DType total = DType::fp32;   ///< type of C with `accumulate`, else unused
  bool sums = false;
  ProductActivation activation = ProductActivation::none;
  ColumnBlocks blocks{};       ///< cuts C if `trans_b`, else A as stored
};

/// Frozen weights in 4 bits, of type `source`, to the type in which a product reads them. in: w; out: y
struct Dequantize { std::int64_t elements; DType source, destination; };

/// Column sums. `blocks` cuts dy. in: dy[rows,cols]; out: dbias[cols]
struct BiasGrad { std::int64_t rows, cols; ColumnBlocks blocks{}; };

/// `rms`: RMSNorm (arXiv 1910.07467), without mean (0 in stats) and beta. `plain`: layer norm without beta.
/// in: x[rows,cols], gamma, [beta where it has_beta]; out: y, stats[rows,2] (mean, 1/std)
struct LayerNorm {
  std::int64_t rows, cols;
  double epsilon;
  bool rms = false, plain = false;
  bool has_beta() const { return !rms && !plain; }
};
/// Gradients of the input and of the parameters: both in one kernel, or each in its own.
/// in: dy, x, stats, [gamma unless parameters], [residual dres]; out: [dx (+= dres when add_residual) unless parameters],
/// [dgamma, [dbeta where it has_beta] unless input]
enum class NormPart : std::uint8_t { whole, input, parameters };
struct LayerNormBackward {
  std::int64_t rows, cols;
  bool add_residual;
  bool rms = false;
  NormPart part = NormPart::whole;
  bool plain = false;
  bool has_beta() const { return !rms && !plain; }
};

/// RMS norm of the first `cols` columns of x. The other `rest` columns of a row are copied unchanged.
/// in: x[rows, cols + rest], gamma[cols]; out: y[rows,cols], others[rows,rest], stats[rows,2] (0, 1/std)
struct LatentNorm {
  std::int64_t rows, cols, rest;
  double epsilon;
};
/// in: dy, dothers, x, stats, gamma; out: dx[rows, cols + rest], dgamma
struct LatentNormBackward { std::int64_t rows, cols, rest; };

/// Tanh-approximated GELU, ReLU, squared ReLU or tanh. bias_cols > 0: x has rows
/// of bias_cols columns, and a bias is added to them first. in: x, [bias]; out: y
enum class PointwiseKind : std::uint8_t { gelu_tanh, relu, squared_relu, tanh };
struct Pointwise { std::int64_t elements; PointwiseKind kind; std::int64_t bias_cols = 0; };
/// in: dy, x, [bias]; out: dx
struct PointwiseBackward { std::int64_t elements; PointwiseKind kind; std::int64_t bias_cols = 0; };

/// y = act(gate) * up: SwiGLU and GeGLU (arXiv 2002.05202). Columns of x are ordered (unit, {gate, up}), so a tensor-parallel shard
/// is a contiguous block of rows of the weight. in: x[rows, 2*cols]; out: y[rows, cols]. As two kernels: a = act(gate) (in: x;
/// out: a[rows, cols]) and y = a * up (in: a, x; out: y). clamped_silu has g = min(gate, 7) and u = up within -7 and 7:
/// y = g sigmoid(1.702 g) * (u + 1) (openai/gpt-oss: gpt_oss/torch/model.py, swiglu).
enum class GateKind : std::uint8_t { silu, gelu_tanh, clamped_silu };
enum class GatePart : std::uint8_t { whole, activation, product };
struct GatedPointwise { std::int64_t rows, cols; GateKind kind; GatePart part = GatePart::whole; };
/// in: dy[rows, cols], x[rows, 2*cols]; out: dx[rows, 2*cols]
/// As two kernels: gradient of the product (in: dy, a, x; out: da[rows, cols], dx(writes its up
/// columns)) and of the activation (in: da, x, dx(inout: writes its gate columns); out: dx).
struct GatedPointwiseBackward { std::int64_t rows, cols; GateKind kind; GatePart part = GatePart::whole; };

/// y = cap * tanh(x / cap), element by element (Gemma 2, arXiv 2408.00118 section 2). in: x(inout); out: y
struct SoftCap { std::int64_t elements; double cap; };
/// Computes the gradient from the forward output y. in: dy(inout), y; out: dx
struct SoftCapBackward { std::int64_t elements; double cap; };

/// y = sigmoid(gate) * x, row by row. in: x[rows,cols], gate[rows]; out: y[rows,cols]
struct RowGate { std::int64_t rows, cols; };
/// in: dy, x, gate; out: dx[rows,cols], dgate[rows]
struct RowGateBackward { std::int64_t rows, cols; };

/// y = factor * (a + b), factor * (a - b), factor * a * b or factor * a * a. b is a matrix as large as a, a number
/// per row or per column, or absent (then y = factor * a). y may be a. in: a[rows,cols], [b]; out: y[rows,cols]
enum class ElementwiseKind : std::uint8_t { add, subtract, multiply, square };
enum class Spread : std::uint8_t { full, row, column, none };
struct Elementwise { std::int64_t rows, cols; ElementwiseKind kind; Spread other = Spread::full; double factor = 1; };
/// Each row's sum, or 1 / sqrt(sum / cols + epsilon). in: x[rows,cols]; out: y[rows]
enum class RowReduceKind : std::uint8_t { sum, inverse_root_of_mean };
struct RowReduce { std::int64_t rows, cols; RowReduceKind kind; double epsilon = 0; };

/// y = dropout(x + bias) + residual, nothing added unless `residual`. `shard`: rows are a sequence shard.
/// in: x[rows,cols], [bias when bias], [residual]; out: y
struct BiasDropoutAdd {
  std::int64_t rows, cols;
  double dropout;
  bool bias;
  DropoutSite site;
  bool shard = false, residual = true;
};
/// dx = mask * dy / (1-p). in: dy; out: dx, [dbias when bias]
struct BiasDropoutAddBackward { std::int64_t rows, cols; double dropout; bool bias; DropoutSite site; bool shard = false; };
/// BiasDropoutAdd and the norm of its result in one kernel.
/// in: x[rows,cols], [bias when bias], residual, gamma, [beta where the norm has_beta]; out: sum, y, stats[rows,2]
struct BiasDropoutAddNorm {
  std::int64_t rows, cols;
  double dropout;
  bool bias;
  DropoutSite site;
  bool shard = false;
  double epsilon = 0;
  bool rms = false, plain = false;
  BiasDropoutAdd add() const { return {rows, cols, dropout, bias, site, shard}; }
  LayerNorm norm() const { return {rows, cols, epsilon, rms, plain}; }
};

}  // namespace tandem
