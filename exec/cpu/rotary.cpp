// Rotary position embedding (Su et al., arXiv 2104.09864, equation 34), which pairs a head's two halves.
#include <cmath>
#include <vector>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/split.hpp"
#include "exec/data/sequence_map.hpp"
#include "exec/shared/rotary_angles.hpp"

namespace tandem::exec::cpu {
namespace {

// All values that determine an operation's angles.
struct AngleKey {
  std::int64_t seq = 0, half = 0, context_rank = 0, context_size = 1;
  double theta = 0, factor = 1;
  RopeScalingKind scaling = RopeScalingKind::none;
  std::int64_t original = 0;
  bool keeps_length = false;
  double fast = 0, slow = 0;
  bool fractional = false;

  AngleKey() = default;
  AngleKey(const Rotary& op, const KernelContext& context)
      : seq(op.dims.seq), half(op.width() / 2), context_rank(context.context_rank), context_size(context.context_size),
        theta(op.theta), factor(op.factor), scaling(op.scaling), original(op.original), keeps_length(op.keeps_length),
        fast(op.fast), slow(op.slow), fractional(op.fractional) {
    if (op.dims.documents) seq *= context_size, context_rank = 0, context_size = 1;  // any position may occur on any rank
  }
  bool operator==(const AngleKey&) const = default;
};

// cos and sin of each position of this context rank and each pair, [seq, half], times rotary_length().
template <class T>
struct Angles {
  AngleKey key;
  std::vector<T> cos, sin;

  Angles() = default;
  Angles(const Rotary& op, const AngleKey& of) : key(of) {
    const SequenceMap map(of.context_size, of.seq);
    const double unit = op.scaling == RopeScalingKind::linear ? op.factor : 1, longer = rotary_length(op);
    std::vector<double> frequencies;
    for (std::int64_t i = 0; i < of.half; ++i) frequencies.push_back(rotary_frequency(op, i));
    for (std::int64_t p = 0; p < of.seq; ++p)
      for (const double f : frequencies) {
        const double angle = static_cast<double>(map.position(of.context_rank, p)) / unit * f;
        cos.push_back(static_cast<T>(longer * std::cos(angle)));
        sin.push_back(static_cast<T>(longer * std::sin(angle)));
      }
  }
};

// A step uses the same angles in every layer, so each thread caches the last ones.
template <class T>
const Angles<T>& angles(const Rotary& op, const KernelContext& context) {
  thread_local Angles<T> kept;
  if (const AngleKey key(op, context); kept.key != key) kept = Angles<T>(op, key);
  return kept;
}

// The row of a token's angles.
class AngleRows {
 public:
  AngleRows(const Rotary& op, const KernelContext& context)
      : seq_(op.dims.seq), map_(context.context_size, op.dims.seq), context_(context), documents_(op.dims.documents) {
    require(!documents_ || context.documents != nullptr, "documents that nobody named");
  }
  std::int64_t of(std::int64_t token) const {
    const std::int64_t index = token % seq_;
    if (!documents_) return index;
    const std::int64_t position = map_.position(context_.context_rank, index);
    return position - context_.documents[token / seq_ * context_.seq_length + position];
  }

 private:
  std::int64_t seq_;
  SequenceMap map_;
  const KernelContext& context_;
  bool documents_;
};

// Rotates one head of one token.
template <class T>
void turn(T* x, const T* cos, const T* sin, std::int64_t half, T sign) {
  each(half, [=](std::int64_t i) {
    const T a = x[i], b = x[i + half], s = sign * sin[i];
    x[i] = a * cos[i] - b * s;
    x[i + half] = b * cos[i] + a * s;
  });
}

// each_head() for queries that are separate from keys.
template <class F>
void each_query_head(const Rotary& op, const Call& call, F body) {
  const AttentionDims& d = op.dims;
  require(op.heads == RotaryHeads::queries, "keys are turned where they lie beside queries");
  const AngleRows rows(op, call.context());
  each_row(call, d.batch * d.seq, d.heads * op.width(), [&](std::int64_t token) {
    const std::int64_t at = rows.of(token) * (op.width() / 2);
    for (std::int64_t h = 0; h < d.heads; ++h) body(token * d.q_width() + h * d.head_dim, (token * d.heads + h) * op.width(), at);
  });
}

// Calls body(offset of a head in qkv, offset among rotated heads, offset of its angles).
template <class F>
void each_head(const Rotary& op, const Call& call, F body) {
  const AttentionDims& d = op.dims;
  require(op.width() % 2 == 0, "rotary embedding pairs the dimensions of a head");
  if (!d.q_packed) return each_query_head(op, call, body);
  const std::int64_t queries = d.heads / d.groups(), half = op.width() / 2;
  const std::int64_t first = op.heads == RotaryHeads::keys ? queries : 0;
  const std::int64_t end = op.heads == RotaryHeads::queries ? queries : queries + 1;  // a group's query heads, then its key
  const AngleRows rows(op, call.context());
  each_row(call, d.batch * d.seq, d.groups() * (end - first) * op.width(), [&](std::int64_t token) {
    const std::int64_t at = rows.of(token) * half;
    std::int64_t packed = token * d.groups() * (end - first) * op.width();
    for (std::int64_t g = 0; g < d.groups(); ++g)
      for (std::int64_t h = first; h < end; ++h, packed += op.width())
        body(token * d.qkv_width() + g * d.group_width() + h * d.head_dim, packed, at);
  });
}

// The passes of frameworks without a fused kernel: q cos + swapped(q) sin, one after the other.
template <class T>
void compute_part(const Rotary& op, Call& call) {
  const Angles<T>& table = angles<T>(op, call.context());
  const std::int64_t half = op.width() / 2;
  const T sign = op.inverse ? T{-1} : T{1};
  const T* from = call.in<T>(0);
  T* to = call.out<T>(0);
  each_head(op, call, [&](std::int64_t head, std::int64_t packed, std::int64_t at) {
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
  each_head(op, call, [&](std::int64_t head, std::int64_t, std::int64_t at) {
    turn(qkv + head, table.cos.data() + at, table.sin.data() + at, op.width() / 2, sign);
  });
}

TANDEM_KERNEL(Rotary);

}  // namespace tandem::exec::cpu
