// LAMB and LANS against transcriptions of the papers' algorithms.
#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

struct Block {
  std::int64_t offset, count;
  bool decay;
};
// Three tensors, one of them without decay; the flat buffers hold gaps.
const std::vector<Block> kBlocks{{0, 37, true}, {64, 21, false}, {128, 150, true}};
constexpr std::int64_t kElements = 300;

struct State {
  Values weight = random_values(kElements, 1), m = random_values(kElements, 2), v = random_values(kElements, 3);
  State() {
    for (double& x : v) x = x * x + 0.01;
    for (double& x : m) x *= 0.1;
  }
};

double norm(const Values& v) { return std::sqrt(dot(v, v)); }

// You et al., arXiv 1904.00962, algorithm 2, line by line for one tensor; phi is the identity.
void plain_lamb(const LayerwiseMoments& op, const StepTable& s, const Block& b, const Values& gradient, State& x) {
  Values w = slice(x.weight, b.offset, b.count), update;
  const double lambda = b.decay ? op.weight_decay : 0;
  for (std::int64_t i = 0; i < b.count; ++i) {
    const auto at = static_cast<std::size_t>(b.offset + i);
    const double g = gradient[at] * s.clip_coefficient;
    x.m[at] = op.beta1 * x.m[at] + (1 - op.beta1) * g;
    x.v[at] = op.beta2 * x.v[at] + (1 - op.beta2) * g * g;
    const double m = x.m[at] / s.bias_correction1, v = x.v[at] / s.bias_correction2;
    update.push_back(m / (std::sqrt(v) + op.epsilon) + lambda * x.weight[at]);
  }
  const double ratio = norm(w) > 0 && norm(update) > 0 ? norm(w) / norm(update) : 1;
  for (std::int64_t i = 0; i < b.count; ++i)
    x.weight[static_cast<std::size_t>(b.offset + i)] -= s.learning_rate * ratio * update[static_cast<std::size_t>(i)];
}

// Zheng et al., arXiv 2006.13484, algorithm 2, line by line for one block.
void plain_lans(const LayerwiseMoments& op, const StepTable& s, const Block& b, const Values& gradient, State& x) {
  const Values w = slice(x.weight, b.offset, b.count), g = slice(gradient, b.offset, b.count);
  const double lambda = b.decay ? op.weight_decay : 0, length = norm(g);
  Values r, c;
  for (std::int64_t i = 0; i < b.count; ++i) {
    const auto at = static_cast<std::size_t>(b.offset + i);
    const double unit = length > 0 ? gradient[at] / length : 0;
    x.m[at] = op.beta1 * x.m[at] + (1 - op.beta1) * unit;
    x.v[at] = op.beta2 * x.v[at] + (1 - op.beta2) * unit * unit;
    const double root = std::sqrt(x.v[at] / s.bias_correction2) + op.epsilon;
    r.push_back(x.m[at] / s.bias_correction1 / root + lambda * x.weight[at]);
    c.push_back(unit / root + lambda * x.weight[at]);
  }
  const auto ratio = [&](const Values& u) { return norm(w) > 0 && norm(u) > 0 ? norm(w) / norm(u) : 1; };
  for (std::size_t i = 0; i < r.size(); ++i) {
    const double d = op.beta1 * ratio(r) * r[i] + (1 - op.beta1) * ratio(c) * c[i];
    x.weight[static_cast<std::size_t>(b.offset) + i] -= s.learning_rate * d;
  }
}

LayerwiseMoments moments(LayerwiseKind kind) { return {kind, kElements, 3, 0.9, 0.99, 1e-6, 0.1, false}; }
LayerwiseApply apply(LayerwiseKind kind) { return {kind, kElements, 3, 0.9, 0.99, 1e-6, 0.1, false}; }

std::vector<Param> parameters() {
  std::vector<Param> all;
  for (const Block& b : kBlocks) {
    Param p;
    p.global_index = static_cast<std::int32_t>(all.size());
    p.offset = b.offset;
    p.rows = b.count;
    p.cols = 1;
    p.decay = b.decay;
    all.push_back(p);
  }
  return all;
}

Values added(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// Ranks that have the pieces of `by_rank` and sum their exact sums, as the runtime's all-reduce would.
class Ranks {
 public:
  Ranks(LayerwiseKind kind, DType dtype, std::vector<std::vector<ParamPiece>> by_rank)
      : kernels(dtype), kind_(kind), by_rank_(std::move(by_rank)) {}

  void step(const Values& gradient, State& x) {
    Values gradient_sums(static_cast<std::size_t>(3 * kExactWords), 0.0);
    for (const auto& pieces : by_rank_) gradient_sums = added(gradient_sums, norms(pieces, gradient));
    const Values sums = all_moments(gradient, gradient_sums, x);
    for (const auto& pieces : by_rank_) {
      kernels.pieces = pieces;
      std::vector<Operand> in{real(gradient), real(x.m), real(x.v), words(sums)};
      if (kind_ == LayerwiseKind::lans) in.push_back(words(gradient_sums));
      in.push_back(real(x.weight));
      x.weight = kernels.run(apply(kind_), in, {real(x.weight)}).front();
    }
  }

  Kernels kernels;

 private:
  Values norms(const std::vector<ParamPiece>& pieces, const Values& gradient) {
    kernels.pieces = pieces;
    return kernels.run(TensorNorms{kElements, 3}, {real(gradient)}, {word_result(3)}).front();
  }
  Values all_moments(const Values& gradient, const Values& gradient_sums, State& x) {
    const LayerwiseMoments op = moments(kind_);
    Values sums(static_cast<std::size_t>(3 * op.norms() * kExactWords), 0.0);
    for (const auto& pieces : by_rank_) {
      kernels.pieces = pieces;
      std::vector<Operand> in{real(gradient), real(x.weight), real(x.m), real(x.v)};
      if (kind_ == LayerwiseKind::lans) in.push_back(words(gradient_sums));
      const auto out = kernels.run(op, in, {real(x.m), real(x.v), word_result(3 * op.norms())});
      x.m = out[0];
      x.v = out[1];
      sums = added(sums, out[2]);
    }
    return sums;
  }

  LayerwiseKind kind_;
  std::vector<std::vector<ParamPiece>> by_rank_;
};

std::vector<ParamPiece> whole_pieces(const std::vector<Param>& params) {
  std::vector<ParamPiece> all;
  for (const Param& p : params) all.push_back({&p, 0, p.rows, p.offset, p.offset, p.offset, true});
  return all;
}

StepTable scalars(int t) {
  return {.learning_rate = 0.01 * t, .bias_correction1 = 1 - std::pow(0.9, t), .bias_correction2 = 1 - std::pow(0.99, t),
          .clip_coefficient = 0.5};
}

}  // namespace

TEST_CASE("LAMB and LANS follow their papers over several steps") {
  const auto kind = GENERATE(LayerwiseKind::lamb, LayerwiseKind::lans);
  const auto dtype = GENERATE(DType::fp64, DType::fp32);
  const auto params = parameters();
  Ranks ranks(kind, dtype, {whole_pieces(params)});
  State x, expected;
  for (int t = 1; t <= 4; ++t) {
    const Values gradient = random_values(kElements, 10u + static_cast<unsigned>(t));
    ranks.kernels.table = scalars(t);
    ranks.step(gradient, x);
    for (const Block& b : kBlocks)
      (kind == LayerwiseKind::lamb ? plain_lamb : plain_lans)(moments(kind), scalars(t), b, gradient, expected);
  }
  const double tolerance = dtype == DType::fp64 ? 1e-14 : 5e-6;
  check_close(x.weight, expected.weight, tolerance);
  check_close(x.m, expected.m, tolerance);
  check_close(x.v, expected.v, tolerance);
}

TEST_CASE("a tensor cut over ranks is updated as the whole one, bit for bit, and one that does not count is not summed twice") {
  const auto kind = GENERATE(LayerwiseKind::lamb, LayerwiseKind::lans);
  const auto params = parameters();
  Ranks alone(kind, DType::fp64, {whole_pieces(params)});
  const ParamPiece front{&params[2], 0, 64, 128, 128, 128, true}, back{&params[2], 64, 86, 192, 192, 192, true};
  const auto whole = whole_pieces(params);
  Ranks cut(kind, DType::fp64, {{whole[0], front}, {whole[1], back}});
  alone.kernels.table = cut.kernels.table = scalars(3);
  const Values gradient = random_values(kElements, 5);
  State x, y;
  alone.step(gradient, x);
  cut.step(gradient, y);
  CHECK(x.weight == y.weight);
  CHECK(x.m == y.m);

  // A second rank that holds the first tensor too: counted there it would double the sums.
  ParamPiece copy = whole[0];
  copy.counted = false;
  State z = State();
  const LayerwiseMoments op = moments(kind);
  Kernels kernels;
  kernels.table = scalars(3);
  kernels.pieces = {&copy, 1};
  const Values unit = kernels.run(TensorNorms{kElements, 3}, {real(gradient)}, {word_result(3)}).front();
  CHECK(unit == Values(static_cast<std::size_t>(3 * kExactWords), 0.0));
  std::vector<Operand> in{real(gradient), real(z.weight), real(z.m), real(z.v)};
  if (kind == LayerwiseKind::lans) in.push_back(words(unit));
  const auto out = kernels.run(op, in, {real(z.m), real(z.v), word_result(3 * op.norms())});
  CHECK(out[2] == Values(static_cast<std::size_t>(3 * op.norms() * kExactWords), 0.0));
  CHECK(out[0] != z.m);
}

TEST_CASE("a tensor of zeros or without an update is moved by the plain learning rate") {
  const auto params = parameters();
  const auto kind = GENERATE(LayerwiseKind::lamb, LayerwiseKind::lans);
  Ranks ranks(kind, DType::fp64, {whole_pieces(params)});
  ranks.kernels.table = scalars(1);
  State x;
  for (Values* v : {&x.weight, &x.m, &x.v}) std::fill(v->begin(), v->end(), 0.0);
  State expected = x;
  const Values gradient = random_values(kElements, 5), none(kElements, 0.0);
  ranks.step(gradient, x);
  for (const Block& b : kBlocks)
    (kind == LayerwiseKind::lamb ? plain_lamb : plain_lans)(moments(kind), scalars(1), b, gradient, expected);
  check_close(x.weight, expected.weight, 1e-14);
  CHECK(largest(x.weight) > 0);
  State still;
  std::fill(still.m.begin(), still.m.end(), 0.0);
  const Values before = still.weight;
  ranks.step(none, still);
  for (std::int64_t i = 64; i < 85; ++i) CHECK(still.weight[static_cast<std::size_t>(i)] == before[static_cast<std::size_t>(i)]);
}

TEST_CASE("after gradients that were not finite nothing changes and the sums are zero") {
  const auto kind = GENERATE(LayerwiseKind::lamb, LayerwiseKind::lans);
  const auto params = parameters();
  const auto pieces = whole_pieces(params);
  Kernels kernels;
  kernels.table = scalars(1);
  kernels.table.found_nonfinite = true;
  kernels.pieces = pieces;
  const State x;
  const LayerwiseMoments op = moments(kind);
  const Values gradient(kElements, std::nan("")), sums(static_cast<std::size_t>(9 * kExactWords), 0.0);
  const auto out = kernels.run(op, {real(gradient), real(x.weight), real(x.m), real(x.v), words(sums)},
                               {real(x.m), real(x.v), word_result(3 * op.norms())});
  CHECK(out[0] == x.m);
  CHECK(out[1] == x.v);
  CHECK(out[2] == Values(static_cast<std::size_t>(3 * op.norms() * kExactWords), 0.0));
  std::vector<Operand> in{real(gradient), real(x.m), real(x.v), words(sums)};
  if (kind == LayerwiseKind::lans) in.push_back(words(sums));
  in.push_back(real(x.weight));
  CHECK(kernels.run(apply(kind), in, {real(x.weight)}).front() == x.weight);
}

}  // namespace tandem::exec::test
