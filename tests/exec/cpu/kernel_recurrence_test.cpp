// Layers with a recurrence against loops over positions, and their gradients against slopes.
#include <array>
#include <cmath>

#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

double softplus(double x) { return std::log(1 + std::exp(x)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A recurrence and what it reads.
struct Scan {
  RecurrenceDims d;
  std::array<Values, 5> in;  ///< x, scalars, decay, step, skip
  Values dy;

  Scan(RecurrenceRule rule, std::int64_t batch, std::int64_t seq) : d{rule, batch, 4, seq, 2, 3, 5} {
    in = {random_values(d.rows() * d.mixed(), 1), random_values(d.rows() * d.scalars(), 2), random_values(d.heads, 3),
          random_values(d.heads, 4), rule == RecurrenceRule::mamba2 ? random_values(d.heads, 5) : Values{}};
    for (double& e : in[0]) e *= 4;  // short vectors bend too much for slopes when they are normalised
    dy = random_values(d.rows() * d.values(), 6);
  }
  bool delta() const { return d.rule == RecurrenceRule::gated_delta; }
  std::vector<Operand> operands() const {
    std::vector<Operand> all;
    for (const Values& v : in)
      if (!v.empty()) all.push_back(real(v));
    return all;
  }
  Values forward(Kernels& kernels) const { return kernels.one(Recurrence{d}, operands(), d.rows() * d.values()); }
  std::vector<Values> backward(Kernels& kernels) const {
    std::vector<Operand> all = operands(), out;
    for (const Operand& o : all) out.push_back(result(static_cast<std::int64_t>(o.values.size())));
    all.insert(all.begin(), real(dy));
    return kernels.run(RecurrenceBackward{d}, all, out);
  }
};

/// One head of one sequence, position by position: the rule as the papers write it.
class HeadState {
 public:
  HeadState(const Scan& s, std::int64_t sequence, std::int64_t head)
      : s_(s), sequence_(sequence), head_(head), state_(at(s.d.key_dim * s.d.value_dim), 0.0) {}

  Values next(std::int64_t t) {
    const RecurrenceDims& d = s_.d;
    const std::int64_t row = sequence_ * d.seq + t, per = d.heads / d.key_heads, group = 2 * d.key_dim + per * d.value_dim;
    const std::int64_t column = row * d.mixed() + head_ / per * group;
    Values q = slice(s_.in[0], column, d.key_dim), k = slice(s_.in[0], column + d.key_dim, d.key_dim);
    const Values v = slice(s_.in[0], column + 2 * d.key_dim + head_ % per * d.value_dim, d.value_dim);
    const double* scalars = s_.in[1].data() + row * d.scalars() + head_ * (s_.delta() ? 2 : 1);
    if (s_.delta()) normalise(q, 1 / std::sqrt(static_cast<double>(d.key_dim))), normalise(k, 1);
    const double u = softplus(scalars[0] + s_.in[3][at(head_)]);
    for (double& x : state_) x *= std::exp(-std::exp(s_.in[2][at(head_)]) * u);
    const Values held = read(k);
    for (std::int64_t i = 0; i < d.key_dim; ++i)
      for (std::int64_t j = 0; j < d.value_dim; ++j)
        state_[at(i * d.value_dim + j)] += k[at(i)] * (s_.delta() ? sigmoid(scalars[1]) * (v[at(j)] - held[at(j)]) : u * v[at(j)]);
    Values y = read(q);
    for (std::int64_t j = 0; j < d.value_dim && !s_.delta(); ++j) y[at(j)] += s_.in[4][at(head_)] * v[at(j)];
    return y;
  }

 private:
  static void normalise(Values& x, double factor) {
    const double length = std::sqrt(dot(x, x) + 1e-6);
    for (double& e : x) e *= factor / length;
  }
  Values read(const Values& by) const {
    Values y(at(s_.d.value_dim), 0.0);
    for (std::size_t i = 0; i < by.size(); ++i)
      for (std::size_t j = 0; j < y.size(); ++j) y[j] += by[i] * state_[i * y.size() + j];
    return y;
  }

  const Scan& s_;
  std::int64_t sequence_, head_;
  Values state_;
};

Values by_positions(const Scan& s) {
  Values y(at(s.d.rows() * s.d.values()));
  for (std::int64_t b = 0; b < s.d.batch; ++b)
    for (std::int64_t h = 0; h < s.d.heads; ++h) {
      HeadState state(s, b, h);
      for (std::int64_t t = 0; t < s.d.seq; ++t) {
        const Values now = state.next(t);
        std::copy(now.begin(), now.end(), y.begin() + (b * s.d.seq + t) * s.d.values() + h * s.d.value_dim);
      }
    }
  return y;
}

Function with(Kernels& kernels, const Scan& s, std::size_t operand) {
  return [&kernels, s, operand](const Values& v) {
    Scan moved = s;
    moved.in[operand] = v;
    return dot(s.dy, moved.forward(kernels));
  };
}

}  // namespace

namespace {

/// Relative to the largest element: 50 roundings of a float, a few hundred of a double.
constexpr double kInFloats = 3e-6, kInDoubles = 1e-13;

}  // namespace

TEST_CASE("a recurrence in chunks is the recurrence position by position, in one chunk and over several") {
  const RecurrenceRule rule = GENERATE(RecurrenceRule::gated_delta, RecurrenceRule::mamba2);
  const std::int64_t seq = GENERATE(1, 7, 64, 65, 128, 300);
  Kernels kernels;
  const Scan s(rule, 2, seq);
  const Values expected = by_positions(s);
  check_close(s.forward(kernels), expected, kInDoubles);
  Kernels floats(DType::fp32);
  check_close(s.forward(floats), expected, kInFloats);
}

TEST_CASE("gradients of a recurrence equal slopes along every axis") {
  const RecurrenceRule rule = GENERATE(RecurrenceRule::gated_delta, RecurrenceRule::mamba2);
  Kernels kernels;
  const Scan s(rule, 2, 5);
  const std::vector<Values> got = s.backward(kernels);
  REQUIRE(got.size() == (s.delta() ? 4 : 5));
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("operand " << i);
    check_gradient(with(kernels, s, i), s.in[i], got[i]);
  }
}

TEST_CASE("gradients of a recurrence over several chunks equal slopes along random directions") {
  const RecurrenceRule rule = GENERATE(RecurrenceRule::gated_delta, RecurrenceRule::mamba2);
  Kernels kernels;
  const Scan s(rule, 1, 300);
  const std::vector<Values> got = s.backward(kernels);
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("operand " << i);
    check_directions(with(kernels, s, i), s.in[i], got[i]);
  }
}

TEST_CASE("heads that forget at once or never stay finite") {
  const RecurrenceRule rule = GENERATE(RecurrenceRule::gated_delta, RecurrenceRule::mamba2);
  const double decay = GENERATE(-30.0, 12.0);
  const DType type = GENERATE(DType::fp32, DType::fp64);
  Kernels kernels(type);
  Scan s(rule, 1, 200);
  std::fill(s.in[2].begin(), s.in[2].end(), decay);
  check_close(s.forward(kernels), by_positions(s), type == DType::fp32 ? kInFloats : kInDoubles);
  for (const Values& gradient : s.backward(kernels)) CHECK(std::isfinite(largest(gradient)));
}

namespace {

constexpr std::int64_t kTaps = 3;
struct Convolution {
  RecurrenceDims d{RecurrenceRule::mamba2, 2, 2, 4, 1, 2, 3};
  bool bias;
  Values x = random_values(d.rows() * d.mixed(), 1), weight = random_values(d.mixed() * kTaps, 2);
  Values shift = random_values(d.mixed(), 3), dy = random_values(d.rows() * d.mixed(), 4);

  std::vector<Operand> operands() const {
    std::vector<Operand> all{real(x), real(weight)};
    if (bias) all.push_back(real(shift));
    return all;
  }
  Values forward(Kernels& kernels) const { return kernels.one(ShortConv{d, kTaps, bias}, operands(), d.rows() * d.mixed()); }
};

}  // namespace

TEST_CASE("a short convolution sees its last positions of the same sequence, and its gradients equal slopes") {
  const bool bias = GENERATE(false, true);
  Kernels kernels;
  const Convolution c{.bias = bias};
  const std::int64_t mixed = c.d.mixed();
  Values expected;
  for (std::int64_t row = 0; row < c.d.rows(); ++row)
    for (std::int64_t col = 0; col < mixed; ++col) {
      double z = bias ? c.shift[at(col)] : 0;
      for (std::int64_t back = 0; back < kTaps && back <= row % c.d.seq; ++back)
        z += c.weight[at(col * kTaps + kTaps - 1 - back)] * c.x[at((row - back) * mixed + col)];
      expected.push_back(silu(z));
    }
  check_close(c.forward(kernels), expected, 1e-15);
  std::vector<Operand> in = c.operands(), out{result(c.d.rows() * mixed), result(mixed * kTaps)};
  in.insert(in.begin(), real(c.dy));
  if (bias) out.push_back(result(mixed));
  const auto got = kernels.run(ShortConvBackward{c.d, kTaps, bias}, in, out);
  const auto loss = [&](auto member) {
    return [&, member](const Values& v) {
      Convolution moved = c;
      moved.*member = v;
      return dot(c.dy, moved.forward(kernels));
    };
  };
  check_gradient(loss(&Convolution::x), c.x, got[0]);
  check_gradient(loss(&Convolution::weight), c.weight, got[1]);
  if (bias) check_gradient(loss(&Convolution::shift), c.shift, got[2]);
}

namespace {

struct Gated {
  GatedNorm op;
  Values x = random_values(op.rows * op.parts * op.cols, 1), gate = random_values(op.rows * op.parts * op.cols, 2),
         weight = random_values(op.weights(), 3), dy = random_values(op.rows * op.parts * op.cols, 4);

  std::vector<Values> forward(Kernels& kernels) const {
    return kernels.run(op, {real(x), real(gate), real(weight)},
                       {result(op.rows * op.parts * op.cols), result(op.rows * op.parts)});
  }
};

}  // namespace

TEST_CASE("a norm has its gate behind or ahead of it, and its gradients equal slopes") {
  const bool first = GENERATE(false, true), same = GENERATE(false, true);
  Kernels kernels;
  Gated c{.op = {3, 2, 5, same, 1e-3, first}};
  for (double& e : c.x) e *= 4;  // short vectors bend too much for slopes when they are normalised
  for (double& e : c.gate) e += 2;
  const auto got = c.forward(kernels);
  for (std::int64_t part = 0; part < 6; ++part) {
    Values u = slice(c.x, part * 5, 5), expected;
    const Values g = slice(c.gate, part * 5, 5);
    for (std::size_t i = 0; i < 5 && first; ++i) u[i] *= silu(g[i]);
    const double r = 1 / std::sqrt(dot(u, u) / 5 + 1e-3);
    for (std::size_t i = 0; i < 5; ++i)
      expected.push_back(u[i] * r * c.weight[(same ? 0 : at(part % 2 * 5)) + i] * (first ? 1 : silu(g[i])));
    check_close(slice(got[0], part * 5, 5), expected, 1e-15);
    CHECK(got[1][at(part)] == Approx(r).epsilon(1e-14));
  }
  const std::int64_t n = 30;
  const auto back = kernels.run(GatedNormBackward{3, 2, 5, same, first},
                                {real(c.dy), real(c.x), real(c.gate), real(c.weight), real(got[1])},
                                {result(n), result(n), result(c.op.weights())});
  const auto loss = [&](auto member) {
    return [&, member](const Values& v) {
      Gated moved = c;
      moved.*member = v;
      return dot(c.dy, moved.forward(kernels)[0]);
    };
  };
  check_gradient(loss(&Gated::x), c.x, back[0]);
  check_gradient(loss(&Gated::gate), c.gate, back[1]);
  check_gradient(loss(&Gated::weight), c.weight, back[2]);
}

TEST_CASE("a sigmoid gate scales element by element, and its gradients equal slopes") {
  Kernels kernels;
  const std::int64_t n = 40;
  const Values x = random_values(n, 1), gate = random_values(n, 2), dy = random_values(n, 3);
  const auto y = [&](const Values& a, const Values& b) { return kernels.one(SigmoidGate{n}, {real(a), real(b)}, n); };
  Values expected;
  for (std::size_t i = 0; i < at(n); ++i) expected.push_back(x[i] * sigmoid(gate[i]));
  check_close(y(x, gate), expected, 1e-15);
  const auto got = kernels.run(SigmoidGateBackward{n}, {real(dy), real(x), real(gate)}, {result(n), result(n)});
  check_gradient([&](const Values& v) { return dot(dy, y(v, gate)); }, x, got[0]);
  check_gradient([&](const Values& v) { return dot(dy, y(x, v)); }, gate, got[1]);
}

namespace {

/// A [rows, cols] matrix as its blocks of columns, one behind the other.
Values in_blocks(const Values& whole, std::int64_t rows, std::int64_t cols, const ColumnBlocks& blocks) {
  Values out;
  std::int64_t col = 0;
  for (const std::int64_t width : {blocks.first, blocks.second, cols - blocks.first - blocks.second}) {
    for (std::int64_t r = 0; r < rows; ++r) out = concatenated(std::move(out), slice(whole, r * cols + col, width));
    col += width;
  }
  return out;
}

/// Bit for bit, but where a device's library chooses an algorithm, and so an order of sums, by a product's width.
void check_same(const Values& actual, const Values& expected) {
  if (tests::test_backend() == tests::TestBackend::cuda) return check_close(actual, expected, 1e-14);
  CHECK(actual == expected);
}

}  // namespace

TEST_CASE("products of a matrix in blocks of columns are those of the matrix") {
  const ColumnBlocks blocks = GENERATE(ColumnBlocks{4, 2}, ColumnBlocks{5, 0});
  Kernels kernels;
  const std::int64_t tokens = 6, hidden = 3, width = 9;
  const Values x = random_values(tokens * hidden, 1), w = random_values(width * hidden, 2), b = random_values(width, 3),
               dy = random_values(tokens * width, 4);
  MatMul forward{tokens, width, hidden, false, true, true}, input{tokens, hidden, width}, weight{width, hidden, tokens, true};
  weight.sums = true;
  const Values y = kernels.one(forward, {real(x), real(w), real(b)}, tokens * width);
  const Values dx = kernels.one(input, {real(dy), real(w)}, tokens * hidden);
  const auto dw = kernels.run(weight, {real(dy), real(x)}, {result(width * hidden), result(width)});
  forward.blocks = input.blocks = weight.blocks = blocks;
  const Operand parted = real(in_blocks(dy, tokens, width, blocks));
  check_same(kernels.one(forward, {real(x), real(w), real(b)}, tokens * width), in_blocks(y, tokens, width, blocks));
  check_same(kernels.one(input, {parted, real(w)}, tokens * hidden), dx);
  const auto parted_dw = kernels.run(weight, {parted, real(x)}, {result(width * hidden), result(width)});
  for (const std::size_t i : {0, 1}) check_same(parted_dw[i], dw[i]);
  check_same(kernels.one(BiasGrad{tokens, width, blocks}, {parted}, width), dw[1]);
}

}  // namespace tandem::exec::test
