// Optimizers whose weights, gradients, moments and masters differ in type: with an fp32 master they are the fp32 optimizer, whose
// weights are rounded; without one, what is kept is rounded at random.

#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

using Kind = Operand::Kind;

constexpr std::int64_t kCount = 10'000;  // more than one range

Param parameter() {
  Param p;
  p.global_index = 0;
  p.init_id = 3;
  p.rows = kCount / 100;
  p.cols = p.full_cols = 100;
  p.full_rows = p.rows;
  p.offset = 0;
  p.decay = true;
  return p;
}

double rounded(double v) { return static_cast<double>(from_bf16(to_bf16(static_cast<float>(v)))); }

/// An optimizer with its operands: gradients, then what it changes.
struct Optimizer {
  Op op;
  Operand gradients;
  std::vector<Operand> states;
};

/// All in fp32, or weights in bf16 beside a master.
Optimizer adamw(bool master) {
  Operand weights = in_type(Kind::fp32, random_values(kCount, 2));
  const Operand held = weights;
  if (master) weights.kind = Kind::bf16;
  Values squares = random_values(kCount, 4);
  for (double& v : squares) v = 1 + 0.5 * v;
  Optimizer o{AdamW{kCount, 0.9, 0.99, 1e-8, 0.1, master}, in_type(Kind::fp32, random_values(kCount, 1)),
              {weights, in_type(Kind::fp32, random_values(kCount, 3)), in_type(Kind::fp32, squares)}};
  if (master) o.states.push_back(held);
  return o;
}

Optimizer sgd(bool master) {
  Optimizer o = adamw(master);
  o.op = Sgd{kCount, 0.9, 0.1, master};
  o.states.erase(o.states.begin() + 2);
  return o;
}

std::vector<Values> run(const Optimizer& o, std::uint64_t step = 0, DType compute = DType::bf16) {
  const Param p = parameter();
  const ParamPiece piece{&p, 0, kCount, 0, 0, 0, true};
  Kernels kernels(compute);
  kernels.pieces = {&piece, 1};
  kernels.table = {.learning_rate = 0.01, .bias_correction1 = 0.1, .bias_correction2 = 0.01};
  kernels.table.clip_coefficient = 0.5;
  kernels.table.step = step;
  std::vector<Operand> in{o.gradients};
  in.insert(in.end(), o.states.begin(), o.states.end());
  return kernels.run(o.op, in, o.states);
}

}  // namespace

TEST_CASE("with a master an update is fp32's, and weights are the master rounded to the nearest") {
  for (const auto& make : {adamw, sgd}) {
    const auto plain = run(make(false), 0, DType::fp32), mixed = run(make(true));
    CHECK(mixed.back() == plain.front());
    for (std::size_t i = 1; i < plain.size(); ++i) CHECK(mixed[i] == plain[i]);
    Values expected = plain.front();
    std::transform(expected.begin(), expected.end(), expected.begin(), rounded);
    CHECK(mixed.front() == expected);
  }
}

TEST_CASE("a master keeps updates that are too small for weights of 16 bits") {
  Optimizer o = adamw(true);
  o.states[0].values.assign(kCount, 1);
  o.states[3].values.assign(kCount, 1);
  o.gradients.values.assign(kCount, 1e-3);
  o.states[1].values.assign(kCount, 0);
  const auto once = run(o);
  CHECK(once[0] == o.states[0].values);  // rounded back
  CHECK(once[3] != o.states[3].values);
}

TEST_CASE("without a master weights and moments in bf16 are rounded at random, in the mean to their values, by seed and step") {
  Optimizer o = adamw(false);
  for (Operand& s : o.states) {
    s.kind = Kind::bf16;
    std::transform(s.values.begin(), s.values.end(), s.values.begin(), rounded);
  }
  Optimizer wide = o;
  for (Operand& s : wide.states) s.kind = Kind::fp32;
  std::get<AdamW>(o.op).stochastic = true;
  const auto exact = run(wide, 0, DType::fp32), random = run(o, 0), again = run(o, 0), later = run(o, 1);
  CHECK(random == again);
  for (std::size_t t = 0; t < 3; ++t) {
    CHECK(random[t] != later[t]);
    double sum = 0, spread = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(kCount); ++i) {
      const double error = random[t][i] - exact[t][i], step = 0x1p-7 * std::max(std::abs(exact[t][i]), 0x1p-100);
      CHECK_FALSE(std::abs(error) > step);
      sum += error;
      spread += step * step / 4;
    }
    CHECK(std::abs(sum) <= 5 * std::sqrt(spread));
  }
  std::get<AdamW>(o.op).stochastic = false;
  const auto nearest = run(o);
  for (std::size_t t = 0; t < 3; ++t) {
    Values expected = exact[t];
    std::transform(expected.begin(), expected.end(), expected.begin(), rounded);
    CHECK(nearest[t] == expected);
  }
}

TEST_CASE("an element is rounded alike whichever rank holds it, in whatever piece") {
  Optimizer o = adamw(false);
  o.states[0].kind = Kind::bf16;
  std::get<AdamW>(o.op).stochastic = true;
  const auto whole = run(o);
  // The second half of the columns of rows 7 to 11, as a tensor rank would hold them, in two pieces.
  Param p = parameter();
  p.cols = 50;
  p.shard_dim = 1;
  p.inner = 0, p.outer = 50, p.first = 0;
  const ParamPiece pieces[] = {{&p, 350, 120, 0, 0, 0, true}, {&p, 470, 130, 120, 120, 120, true}};
  const auto part = [](const Operand& all) {
    Values own;
    for (std::size_t i = 350; i < 600; ++i) own.push_back(all.values[i / 50 * 100 + 50 + i % 50]);
    return in_type(all.kind, own);
  };
  Kernels kernels(DType::bf16);
  kernels.pieces = pieces;
  kernels.share = 1;
  kernels.table = {.learning_rate = 0.01, .bias_correction1 = 0.1, .bias_correction2 = 0.01};
  kernels.table.clip_coefficient = 0.5;
  std::vector<Operand> states;
  for (const Operand& s : o.states) states.push_back(part(s));
  std::vector<Operand> in{part(o.gradients)};
  in.insert(in.end(), states.begin(), states.end());
  const Values weights = kernels.run(o.op, in, states).front();
  for (std::size_t i = 0; i < weights.size(); ++i) CHECK(weights[i] == whole.front()[(i + 350) / 50 * 100 + 50 + (i + 350) % 50]);
}

TEST_CASE("LAMB and LANS with a master are the fp32 ones, and weights are the master rounded") {
  for (const LayerwiseKind kind : {LayerwiseKind::lamb, LayerwiseKind::lans}) {
    const Optimizer plain = adamw(false), mixed = adamw(true);
    const auto sums = [](std::int64_t n) {
      Values v(static_cast<std::size_t>(n * kExactWords), 0.0);
      for (std::size_t i = 33; i < v.size(); i += static_cast<std::size_t>(kExactWords)) v[i] = 1;
      return words(v);
    };
    const auto apply = [&](const Optimizer& o, bool master, DType compute) {
      const LayerwiseApply op{kind, kCount, 1, 0.9, 0.99, 1e-6, 0.1, master};
      std::vector<Operand> in{o.gradients, o.states[1], o.states[2], sums(op.norms())}, out{o.states[0]};
      if (kind == LayerwiseKind::lans) in.push_back(sums(1));
      if (master) out.push_back(o.states[3]);
      in.insert(in.end(), out.begin(), out.end());
      const Param p = parameter();
      const ParamPiece piece{&p, 0, kCount, 0, 0, 0, true};
      Kernels kernels(compute);
      kernels.pieces = {&piece, 1};
      kernels.table = {.learning_rate = 0.01, .bias_correction1 = 0.1, .bias_correction2 = 0.01};
      return kernels.run(op, in, out);
    };
    const auto wide = apply(plain, false, DType::fp32), narrow = apply(mixed, true, DType::bf16);
    CHECK(narrow[1] == wide[0]);
    Values expected = wide[0];
    std::transform(expected.begin(), expected.end(), expected.begin(), rounded);
    CHECK(narrow[0] == expected);
  }
}

}  // namespace tandem::exec::test
