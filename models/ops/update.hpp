#pragma once
// The optimizer step: accumulation, norms, clipping and updates. Conventions: models/ops/op.hpp.

#include <cstdint>
#include <optional>

#include "models/base/dtype.hpp"
#include "models/plan/loss_scale.hpp"

namespace tandem {

/// destination += source (or = source: `overwrite`), converting to the destination's type.
/// in: source, [destination(inout) unless overwrite]; out: destination
struct Accumulate { std::int64_t elements; DType source, destination; bool overwrite = false; };

/// destination = 0 or, with `nan`, all bits 1 (NaN; -1 in integers). in: none; out: destination
struct Fill { std::int64_t elements; DType dtype; bool nan = false; };

// Optimizers work on the rank's pieces of parameters (ParamPiece). `stochastic`: 16-bit weights
// and states without a wider copy are rounded up or down at random, so that the mean is right.

/// 64-bit words of an exact sum of doubles, in fixed point over the range of fp64: 32 bits of the sum per word. The last
/// word counts infinities and NaNs. Sums of such vectors are exact, so a norm does not depend on how a model is split.
inline constexpr std::int64_t kExactWords = 68;

/// Sum of squares of the gradients that this rank counts. Each 64-element block of a region is
/// rounded to fp64, and the blocks are added exactly. in: gradients; out: sum[kExactWords] (int64)
struct GradNorm { std::int64_t elements; DType gradients = DType::fp32; };
/// Computes the scalars grad_norm, clip_coefficient and found_nonfinite from the sum, without the
/// loss scale. `scale`: also computes the next step's loss scale. in: sum[kExactWords]; out: none
struct ClipCoefficient { double clip_grad; std::optional<LossScale> scale = std::nullopt; };
/// One AdamW update of all parameters of the rank, a no-op under found_nonfinite. Decay applies to matrices only.
/// in: gradients, then as out; out: weights, exp_avg, exp_avg_sq, [master] (all inout)
struct AdamW {
  std::int64_t elements;            ///< elements of each optimizer state
  double beta1, beta2, epsilon, weight_decay;
  bool master;
  DType gradients = DType::fp32, weights = DType::fp32, state = DType::fp32;
  bool stochastic = false;
  DType masters = DType::fp32;  ///< type of the master weights, if there are any
};
/// SGD with momentum (PyTorch's: buffer = momentum*buffer + gradient). in: gradients, then as out; out: weights, [buffer when
/// momentum > 0], [master]
struct Sgd {
  std::int64_t elements;
  double momentum, weight_decay;
  bool master;
  DType gradients = DType::fp32, weights = DType::fp32, state = DType::fp32;
  bool stochastic = false;
  DType masters = DType::fp32;  ///< type of the master weights, if there are any
};
/// LAMB (arXiv 1904.00962) and LANS (arXiv 2006.13484) scale each tensor's update by its norm.
enum class LayerwiseKind : std::uint8_t { lamb, lans };
/// Sums of squares of every parameter's gradient, counted once in the norm group (LANS normalises by them).
/// in: gradients; out: sums[global_parameters, kExactWords] (int64)
struct TensorNorms { std::int64_t elements, global_parameters; DType gradients = DType::fp32; };
/// Updates the moments and sums the squares of weights and updates of every parameter: LAMB w, u; LANS w, r + decay*w, c + decay*w.
/// in: gradients, weights (or master), exp_avg, exp_avg_sq, [gradient sums of TensorNorms for LANS];
/// out: exp_avg, exp_avg_sq (inout), sums[global_parameters, norms(), kExactWords] (int64)
struct LayerwiseMoments {
  LayerwiseKind kind;
  std::int64_t elements, global_parameters;
  double beta1, beta2, epsilon, weight_decay;
  bool master;
  DType gradients = DType::fp32, weights = DType::fp32, state = DType::fp32;
  bool stochastic = false;
  DType masters = DType::fp32;  ///< type of the master weights, if there are any
  std::int64_t norms() const { return kind == LayerwiseKind::lamb ? 2 : 3; }
};
/// in: gradients, exp_avg, exp_avg_sq, sums (reduced), [gradient sums for LANS], weights, [master]; out: weights, [master]
struct LayerwiseApply {
  LayerwiseKind kind;
  std::int64_t elements, global_parameters;
  double beta1, beta2, epsilon, weight_decay;
  bool master;
  DType gradients = DType::fp32, weights = DType::fp32, state = DType::fp32;
  bool stochastic = false;
  DType masters = DType::fp32;  ///< type of the master weights, if there are any
  std::int64_t norms() const { return kind == LayerwiseKind::lamb ? 2 : 3; }
};
/// Muon (arXiv 2502.16982, algorithm 1) for all of a rank's matrices of one shape (MatrixParts), a no-op under found_nonfinite. For each
/// matrix: buffer = momentum buffer + gradient; X = buffer, or gradient + momentum buffer with `nesterov`; X is divided by its Frobenius
/// norm; `steps` times X = a X + (b A + c A A) X with A = X X^T, X lying with its shorter side first; w -= rate (scale X + decay w).
/// in: gradients, then weights, exp_avg, [master]; out: weights, exp_avg (both inout), room[room_elements()], [master] (inout)
struct Muon {
  std::int64_t matrices, rows, cols;        ///< number of matrices; rows and columns of the rank's share of one
  std::int64_t whole_rows, whole_cols;      ///< of one whole matrix; the shares of other whole shapes are other operations'
  std::int64_t steps;
  double momentum;
  bool nesterov;
  double scale, weight_decay;
  bool master;
  DType gradients = DType::fp32, weights = DType::fp32, state = DType::fp32;
  DType iteration = DType::fp32;            ///< type of X, of A and of their products' results
  bool stochastic = false;
  DType masters = DType::fp32;              ///< type of the master weights, if there are any

  std::int64_t elements() const { return matrices * rows * cols; }
  std::int64_t shorter() const { return rows < cols ? rows : cols; }
  std::int64_t longer() const { return rows < cols ? cols : rows; }
  /// X, the next X, A and b A + c A A of one matrix, of type `iteration`.
  std::int64_t room_elements() const { return 2 * shorter() * (longer() + shorter()); }
};

}  // namespace tandem
