#pragma once
// From gradients to new weights. Conventions: models/ops/op.hpp.

#include <cstdint>
#include <optional>

#include "models/base/dtype.hpp"
#include "models/plan/loss_scale.hpp"

namespace tandem {

/// destination += source (or = source: `overwrite`), converting to the destination's type.
/// in: source, [destination(inout) unless overwrite]; out: destination
struct Accumulate { std::int64_t elements; DType source, destination; bool overwrite = false; };

/// destination = 0 or, `nan`, all bits 1: NaN, -1 in integers. in: none; out: destination
struct Fill { std::int64_t elements; DType dtype; bool nan = false; };

// Gradients, weights and states are read and written in the pieces of parameters that the rank holds (ParamPiece). `stochastic`:
// what stays in 16 bits without a wider copy is rounded up or down at random, in the mean to its value.

/// Words of an exact sum of doubles: fixed point over the whole range of fp64, 32 bits a word in 64, and a last word that
/// counts what is not finite. Sums of such vectors are exact, so a norm does not depend on how a model is split.
inline constexpr std::int64_t kExactWords = 68;

/// Sum of squares of the gradients that this rank counts, each 64-element block of a region rounded to fp64 and the blocks
/// added exactly. in: gradients; out: sum[kExactWords] (int64)
struct GradNorm { std::int64_t elements; DType gradients = DType::fp32; };
/// sum -> scalars grad_norm, clip_coefficient, found_nonfinite, all of gradients without the loss scale. `scale`: and the loss scale
/// of the next step. in: sum[kExactWords]; out: none
struct ClipCoefficient { double clip_grad; std::optional<LossScale> scale = std::nullopt; };
/// One AdamW update of all parameters of the rank, a no-op under found_nonfinite. Decay applies to matrices only.
/// in: gradients, then as out; out: weights, exp_avg, exp_avg_sq, [master] (all inout)
struct AdamW {
  std::int64_t elements;            ///< of the states
  double beta1, beta2, epsilon, weight_decay;
  bool master;
  DType gradients = DType::fp32, weights = DType::fp32, state = DType::fp32;
  bool stochastic = false;
};
/// SGD with momentum (PyTorch's: buffer = momentum*buffer + gradient). in: gradients, then as out; out: weights, [buffer when
/// momentum > 0], [master]
struct Sgd {
  std::int64_t elements;
  double momentum, weight_decay;
  bool master;
  DType gradients = DType::fp32, weights = DType::fp32, state = DType::fp32;
  bool stochastic = false;
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
  std::int64_t norms() const { return kind == LayerwiseKind::lamb ? 2 : 3; }
};

}  // namespace tandem
