// Rotary position embedding (Su et al., arXiv 2104.09864, equation 34, with halves paired).
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/lanes.hpp"
#include "exec/data/sequence_map.hpp"

namespace tandem::exec::cpu {
namespace {

// Llama 3.1's change of frequencies, as published with its weights: waves longer than its first context are stretched by
// `factor`, those shorter than a quarter of it stay, and between them it goes smoothly.
double llama3_frequency(double frequency, double factor, double context) {
  constexpr double kLow = 1, kHigh = 4;
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < context / kHigh) return frequency;
  if (wavelength > context / kLow) return frequency / factor;
  const double smooth = (context / wavelength - kLow) / (kHigh - kLow);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

// YaRN's (Peng et al., arXiv 2309.00071, section 3.2): pairs that turn more than 32 times in the first context stay, those that
// turn less than once are stretched, and between them it goes linearly from pair to pair, whose numbers are rounded outwards
// (there: jquesnelle/yarn, scaled_rope/LlamaYaRNScaledRotaryEmbedding.py; Megatron-Core: yarn_rotary_pos_embedding.py).
double yarn_frequency(double frequency, std::int64_t i, const Rotary& op) {
  constexpr double kFast = 32, kSlow = 1;
  const double dims = static_cast<double>(op.dims.head_dim), context = static_cast<double>(op.original);
  const auto pair = [&](double turns) {
    return dims * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(op.theta));
  };
  const double low = std::max(std::floor(pair(kFast)), 0.0), high = std::min(std::ceil(pair(kSlow)), dims - 1);
  const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(high - low, 1e-3), 0.0, 1.0);
  return ramp * frequency / op.factor + (1 - ramp) * frequency;
}

// Angle between neighbouring positions of pair `i` of `half`.
double frequency(const Rotary& op, std::int64_t i, std::int64_t half) {
  const double plain = std::pow(op.theta, -static_cast<double>(i) / static_cast<double>(half));
  if (op.scaling == RopeScalingKind::llama3) return llama3_frequency(plain, op.factor, static_cast<double>(op.original));
  return op.scaling == RopeScalingKind::yarn ? yarn_frequency(plain, i, op) : plain;
}

// What queries and keys are multiplied by: YaRN's scores grow with its factor (section 3.4).
double length(const Rotary& op) {
  return op.scaling == RopeScalingKind::yarn && op.factor > 1 ? 1 + 0.1 * std::log(op.factor) : 1;
}

// What the angles of an operation depend on.
struct AngleKey {
  std::int64_t seq = 0, half = 0, context_rank = 0, context_size = 1;
  double theta = 0, factor = 1;
  RopeScalingKind scaling = RopeScalingKind::none;
  std::int64_t original = 0;

  AngleKey() = default;
  AngleKey(const Rotary& op, const KernelContext& context)
      : seq(op.dims.seq), half(op.dims.head_dim / 2), context_rank(context.context_rank), context_size(context.context_size),
        theta(op.theta), factor(op.factor), scaling(op.scaling), original(op.original) {}
  bool operator==(const AngleKey&) const = default;
};

// cos and sin of every position of this context rank and pair, [seq, head_dim / 2] each, times what lengths are multiplied by.
template <class T>
struct Angles {
  AngleKey key;
  std::vector<T> cos, sin;

  Angles() = default;
  Angles(const Rotary& op, const AngleKey& of) : key(of) {
    const SequenceMap map(of.context_size, of.seq);
    const double unit = op.scaling == RopeScalingKind::linear ? op.factor : 1, longer = length(op);
    std::vector<double> frequencies;
    for (std::int64_t i = 0; i < of.half; ++i) frequencies.push_back(frequency(op, i, of.half));
    for (std::int64_t p = 0; p < of.seq; ++p)
      for (const double f : frequencies) {
        const double angle = static_cast<double>(map.position(of.context_rank, p)) / unit * f;
        cos.push_back(static_cast<T>(longer * std::cos(angle)));
        sin.push_back(static_cast<T>(longer * std::sin(angle)));
      }
  }
};

// A step asks for the same angles in every layer: a thread keeps the last ones it made.
template <class T>
const Angles<T>& angles(const Rotary& op, const KernelContext& context) {
  thread_local Angles<T> kept;
  if (const AngleKey key(op, context); kept.key != key) kept = Angles<T>(op, key);
  return kept;
}

// Turns one head of one token.
template <class T>
void turn(T* x, const T* cos, const T* sin, std::int64_t half, T sign) {
  each(half, [=](std::int64_t i) {
    const T a = x[i], b = x[i + half], s = sign * sin[i];
    x[i] = a * cos[i] - b * s;
    x[i + half] = b * cos[i] + a * s;
  });
}

// body(where a head of a token begins in qkv, where among the heads that are turned, where its angles begin).
template <class F>
void each_head(const Rotary& op, F body) {
  const AttentionDims& d = op.dims;
  require(d.head_dim % 2 == 0, "rotary embedding pairs the dimensions of a head");
  const std::int64_t queries = d.heads / d.groups(), half = d.head_dim / 2;
  const std::int64_t first = op.heads == RotaryHeads::keys ? queries : 0;
  const std::int64_t end = op.heads == RotaryHeads::queries ? queries : queries + 1;  // a group's query heads, then its key
  std::int64_t packed = 0;
  for (std::int64_t token = 0; token < d.batch * d.seq; ++token)
    for (std::int64_t g = 0; g < d.groups(); ++g)
      for (std::int64_t h = first; h < end; ++h, packed += d.head_dim)
        body(token * d.qkv_width() + (g * (queries + 2) + h) * d.head_dim, packed, token % d.seq * half);
}

// What frameworks without a fused kernel do: q cos + swapped(q) sin, one pass after the other.
template <class T>
void compute_part(const Rotary& op, Call& call) {
  const Angles<T>& table = angles<T>(op, call.context());
  const std::int64_t half = op.dims.head_dim / 2;
  const T sign = op.inverse ? T{-1} : T{1};
  const T* from = call.in<T>(0);
  T* to = call.out<T>(0);
  each_head(op, [&](std::int64_t head, std::int64_t packed, std::int64_t at) {
    const T *cos = table.cos.data() + at, *sin = table.sin.data() + at;
    switch (op.part) {
      case RotaryPart::whole: throw ContractError("a whole rotation has no parts");
      case RotaryPart::swap:
        return each(half, [x = from + head, t = to + packed, half](std::int64_t i) {
          t[i] = -x[i + half];
          t[i + half] = x[i];
        });
      case RotaryPart::cosine:
        return each(half, [x = to + head, cos, half](std::int64_t i) {
          x[i] *= cos[i];
          x[i + half] *= cos[i];
        });
      case RotaryPart::sine:
        return each(half, [t = to + packed, sin, sign, half](std::int64_t i) {
          t[i] *= sign * sin[i];
          t[i + half] *= sign * sin[i];
        });
      case RotaryPart::add:
        return each(2 * half, [t = from + packed, x = to + head](std::int64_t i) { x[i] += t[i]; });
    }
  });
}

}  // namespace

template <class T>
void compute(const Rotary& op, Call& call) {
  if (op.part != RotaryPart::whole) return compute_part<T>(op, call);
  const Angles<T>& table = angles<T>(op, call.context());
  const T sign = op.inverse ? T{-1} : T{1};
  T* qkv = call.out<T>(0);
  each_head(op, [&](std::int64_t head, std::int64_t, std::int64_t at) {
    turn(qkv + head, table.cos.data() + at, table.sin.data() + at, op.dims.head_dim / 2, sign);
  });
}

TANDEM_KERNEL(Rotary);

}  // namespace tandem::exec::cpu
