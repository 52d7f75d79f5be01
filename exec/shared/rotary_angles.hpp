#pragma once
// Frequencies of rotary position embedding (Su et al., arXiv 2104.09864), on the host.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/ops/attention.hpp"

namespace tandem::exec {

// Llama 3.1's frequency scaling, as published with its weights. Wavelengths above the original context are stretched by `factor`.
// Those below a quarter of it stay. Between them it is interpolated.
inline double llama3_frequency(double frequency, double factor, double context) {
  constexpr double kLow = 1, kHigh = 4;
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < context / kHigh) return frequency;
  if (wavelength > context / kLow) return frequency / factor;
  const double smooth = (context / wavelength - kLow) / (kHigh - kLow);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

// YaRN (Peng et al., arXiv 2309.00071, section 3.2). Pairs that turn over 32 times in the original context stay; those that turn
// less than once are stretched (`fast`, `slow` change these numbers). Between, it is linear in the pair's index, rounded outwards
// (jquesnelle/yarn: scaled_rope/LlamaYaRNScaledRotaryEmbedding.py; Megatron-Core: yarn_rotary_pos_embedding.py). gpt-oss does not
// round (openai/gpt-oss: gpt_oss/torch/model.py).
inline double yarn_frequency(double frequency, std::int64_t i, const Rotary& op) {
  const double fast = op.fast > 0 ? op.fast : 32, slow = op.slow > 0 ? op.slow : 1;
  const double dims = static_cast<double>(op.width()), context = static_cast<double>(op.original);
  const auto pair = [&](double turns) {
    return dims * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(op.theta));
  };
  const auto end = [&](double at, auto outwards) { return op.fractional ? at : outwards(at); };
  const double low = std::max(end(pair(fast), [](double x) { return std::floor(x); }), 0.0);
  const double high = std::min(end(pair(slow), [](double x) { return std::ceil(x); }), dims - 1);
  const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(high - low, 1e-3), 0.0, 1.0);
  return ramp * frequency / op.factor + (1 - ramp) * frequency;
}

/// Angle in radians between neighbouring positions for pair `i` of a head's dimensions.
inline double rotary_frequency(const Rotary& op, std::int64_t i) {
  const std::int64_t half = op.width() / 2;
  const double plain = std::pow(op.theta, -static_cast<double>(i) / static_cast<double>(half));
  if (op.scaling == RopeScalingKind::llama3) return llama3_frequency(plain, op.factor, static_cast<double>(op.original));
  return op.scaling == RopeScalingKind::yarn ? yarn_frequency(plain, i, op) : plain;
}

/// Factor on queries and keys. YaRN raises attention scores with its scaling factor (section 3.4).
inline double rotary_length(const Rotary& op) {
  return op.scaling == RopeScalingKind::yarn && op.factor > 1 && !op.keeps_length ? 1 + 0.1 * std::log(op.factor) : 1;
}

}  // namespace tandem::exec
