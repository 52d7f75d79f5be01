// Parameters that every optimizer moves by a step of their own, against the sign of what stands in the gradient's place.
#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr double kStep = 0.25;  // exact in every type
constexpr std::int64_t kOthers = 70, kOwn = 9, kAll = kOthers + kOwn;

/// An ordinary parameter, and behind it one with a step of its own.
struct Parameters {
  std::vector<Param> params;
  std::vector<ParamPiece> pieces;

  Parameters() : params(2) {
    for (std::size_t i = 0; i < 2; ++i) {
      Param& p = params[i];
      p.global_index = static_cast<std::int32_t>(i);
      p.offset = i == 0 ? 0 : kOthers;
      p.rows = i == 0 ? kOthers : kOwn;
      p.cols = 1;
      p.decay = true;
    }
    params[1].sign_step = kStep;
    for (const Param& p : params) pieces.push_back({&p, 0, p.rows, p.offset, p.offset, p.offset, true});
  }
};

const Values kSigns{1, 0, -1, 1e-30, -1e-30, 1, -1, 0, 5};

Values gradients() { return concatenated(random_values(kOthers, 1), {3, 0, -2, 1e-30, -1e-30, 1, -1, 0, 5}); }

struct State {
  Values weight = random_values(kAll, 2), m = random_values(kAll, 3), v = random_values(kAll, 4);
  State() {
    for (double& x : weight) x = std::round(x * 64) / 64;
    for (double& x : v) x *= x;
  }
  bool operator==(const State&) const = default;
};

/// One step of an optimizer, with its weights or with a master of which these are a copy.
class Step {
 public:
  Step(std::string optimizer, DType dtype, bool master, bool nonfinite = false)
      : optimizer_(std::move(optimizer)), master_(master), kernels_(dtype) {
    kernels_.pieces = parameters_.pieces;
    kernels_.table = {.learning_rate = 0.1, .bias_correction1 = 0.1, .bias_correction2 = 0.05, .clip_coefficient = 0.5};
    kernels_.table.found_nonfinite = nonfinite;
  }
  State operator()(const Values& gradient, State s) {
    if (optimizer_ == "adamw") {
      const AdamW op{kAll, 0.9, 0.95, 1e-8, 0.1, master_};
      const auto out = kernels_.run(op, {real(gradient)}, with({real(s.weight), real(s.m), real(s.v)}, s));
      return after(s, out[0], out[1], out[2], out.back());
    }
    if (optimizer_ == "sgd") {
      const auto out = kernels_.run(Sgd{kAll, 0.9, 0.1, master_}, {real(gradient)}, with({real(s.weight), real(s.m)}, s));
      return after(s, out[0], out[1], s.v, out.back());
    }
    return layerwise(optimizer_ == "lamb" ? LayerwiseKind::lamb : LayerwiseKind::lans, gradient, s);
  }
  /// Sums of squares of LAMB's and LANS' last step.
  Values sums;

 private:
  std::vector<Operand> with(std::vector<Operand> list, const State& s) const {
    if (master_) list.push_back(real(s.weight));
    return list;
  }
  State after(State s, const Values& weight, const Values& m, const Values& v, const Values& last) const {
    s.weight = weight, s.m = m, s.v = v;
    if (master_) CHECK(last == weight);
    return s;
  }
  State layerwise(LayerwiseKind kind, const Values& gradient, State s) {
    const bool lans = kind == LayerwiseKind::lans;
    const LayerwiseMoments moments{kind, kAll, 2, 0.9, 0.95, 1e-6, 0.1, master_};
    const Values of_gradients = kernels_.run(TensorNorms{kAll, 2}, {real(gradient)}, {word_result(2)}).front();
    std::vector<Operand> in{real(gradient), real(s.weight), real(s.m), real(s.v)};
    if (lans) in.push_back(words(of_gradients));
    const auto moved = kernels_.run(moments, in, {real(s.m), real(s.v), word_result(2 * moments.norms())});
    sums = moved[2];
    std::vector<Operand> apply{real(gradient), real(moved[0]), real(moved[1]), words(sums)};
    if (lans) apply.push_back(words(of_gradients));
    apply.push_back(real(s.weight));
    const LayerwiseApply op{kind, kAll, 2, 0.9, 0.95, 1e-6, 0.1, master_};
    const auto out = kernels_.run(op, with(apply, s), with({real(s.weight)}, s));
    return after(s, out[0], moved[0], moved[1], out.back());
  }

  std::string optimizer_;
  bool master_;
  Parameters parameters_;
  Kernels kernels_;
};

}  // namespace

TEST_CASE("every optimizer moves a parameter with a step of its own by the sign alone, and leaves its moments and all norms") {
  const std::string optimizer = GENERATE("adamw", "sgd", "lamb", "lans");
  const DType dtype = GENERATE(DType::fp64, DType::fp32);
  const bool master = GENERATE(false, true);
  CAPTURE(optimizer, name(dtype), master);
  Step step(optimizer, dtype, master);
  const State before;
  const State after = step(gradients(), before);
  for (std::size_t i = 0; i < kOwn; ++i) {
    const double sign = kSigns[i] > 0 ? 1 : kSigns[i] < 0 ? -1 : 0;
    CHECK(after.weight[kOthers + i] == before.weight[kOthers + i] - kStep * sign);
  }
  Step again(optimizer, dtype, master);
  const State kept = again(Values(kAll, 0.0), before);  // moments of the type that is stored
  for (std::size_t i = kOthers; i < kAll; ++i) {
    CHECK(after.m[i] == kept.m[i]);
    CHECK(after.v[i] == kept.v[i]);
    CHECK(after.m[i] == Approx(before.m[i]).epsilon(1e-6));
  }
  for (std::size_t i = 0; i < kOthers; ++i) CHECK(after.weight[i] != before.weight[i]);
  const std::size_t own = step.sums.size() / 2;
  for (std::size_t w = own; w < step.sums.size(); ++w) CHECK(step.sums[w] == 0);
}

TEST_CASE("after gradients that were not finite such a parameter does not move either") {
  const std::string optimizer = GENERATE("adamw", "sgd", "lamb", "lans");
  Step step(optimizer, DType::fp64, false, true);
  const State before;
  CHECK(step(gradients(), before) == before);
}

TEST_CASE("the gradients' norm leaves out parameters with a step of their own") {
  const Parameters parameters;
  Kernels kernels;
  kernels.pieces = parameters.pieces;
  Values gradient = gradients();
  const Values sum = kernels.run(GradNorm{kAll}, {real(gradient)}, {word_result(1)}).front();
  for (std::size_t i = kOthers; i < kAll; ++i) gradient[i] = 1000;
  CHECK(kernels.run(GradNorm{kAll}, {real(gradient)}, {word_result(1)}).front() == sum);
}

}  // namespace tandem::exec::test
