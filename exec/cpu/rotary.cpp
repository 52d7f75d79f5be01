// Rotary position embedding (Su et al., arXiv 2104.09864, equation 34, with halves paired).
#include <cmath>
#include <vector>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/lanes.hpp"

namespace tandem::exec::cpu {
namespace {

// cos and sin of every position and pair, [seq, head_dim / 2] each.
template <class T>
struct Angles {
  std::int64_t seq = 0, half = 0;
  double theta = 0;
  std::vector<T> cos, sin;

  Angles(std::int64_t positions, std::int64_t pairs, double base) : seq(positions), half(pairs), theta(base) {
    for (std::int64_t p = 0; p < seq; ++p)
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(p) * std::pow(theta, -static_cast<double>(i) / static_cast<double>(half));
        cos.push_back(static_cast<T>(std::cos(angle)));
        sin.push_back(static_cast<T>(std::sin(angle)));
      }
  }
  bool are(const Rotary& op) const {
    return seq == op.dims.seq && 2 * half == op.dims.head_dim && theta == op.theta;
  }
};

// A step asks for the same angles in every layer: a thread keeps the last ones it made.
template <class T>
const Angles<T>& angles(const Rotary& op) {
  thread_local Angles<T> kept(0, 0, 0);
  if (!kept.are(op)) kept = Angles<T>(op.dims.seq, op.dims.head_dim / 2, op.theta);
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

}  // namespace

template <class T>
void compute(const Rotary& op, Call& call) {
  const AttentionDims& d = op.dims;
  require(d.head_dim % 2 == 0, "rotary embedding pairs the dimensions of a head");
  const Angles<T>& table = angles<T>(op);
  const std::int64_t queries = d.heads / d.groups(), half = d.head_dim / 2;
  const T sign = op.inverse ? T{-1} : T{1};
  T* row = call.out<T>(0);
  for (std::int64_t token = 0; token < d.batch * d.seq; ++token, row += d.qkv_width()) {
    const std::int64_t at = token % d.seq * half;
    for (std::int64_t g = 0; g < d.groups(); ++g)
      for (std::int64_t h = 0; h <= queries; ++h)  // the group's query heads, then its key
        turn(row + (g * (queries + 2) + h) * d.head_dim, table.cos.data() + at, table.sin.data() + at, half, sign);
  }
}

TANDEM_KERNEL(Rotary);

}  // namespace tandem::exec::cpu
