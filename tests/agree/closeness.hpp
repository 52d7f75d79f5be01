#pragma once
// How far two trainings are apart: the measure of the parity cases, and equality bit for bit.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "exec/run/run.hpp"
#include "tests/catch.hpp"

namespace tandem::tests {

inline double norm(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

inline double norm_of_all(const std::vector<exec::GatheredTensor>& tensors) {
  double sum = 0;
  for (const exec::GatheredTensor& t : tensors) sum += norm(t.values) * norm(t.values);
  return std::sqrt(sum);
}

/// Keeps what is not a number, which std::max would lose.
inline double larger(double worst, double x) { return x <= worst ? worst : x; }

/// Largest ||g - g1|| / max(||g1||, 1e-3 ||all gradients||) over tensors and steps.
inline double gradient_error(const exec::RunResult& a, const exec::RunResult& one) {
  double worst = 0;
  REQUIRE(a.gradients.size() == one.gradients.size());
  for (std::size_t s = 0; s < a.gradients.size(); ++s) {
    const double all = norm_of_all(one.gradients[s]);
    REQUIRE(a.gradients[s].size() == one.gradients[s].size());
    for (std::size_t t = 0; t < a.gradients[s].size(); ++t) {
      const exec::GatheredTensor &g = a.gradients[s][t], &g1 = one.gradients[s][t];
      REQUIRE(g.name == g1.name);
      worst = larger(worst, distance(g.values, g1.values) / std::max(norm(g1.values), 1e-3 * all));
    }
  }
  return worst;
}

/// Largest relative difference of a step's loss.
inline double loss_error(const exec::RunResult& a, const exec::RunResult& one) {
  double worst = 0;
  REQUIRE(a.steps.size() == one.steps.size());
  for (std::size_t s = 0; s < one.steps.size(); ++s) {
    const double modules = one.steps[s].mtp_loss.value_or(1);
    worst = larger(worst, std::abs(a.steps[s].loss - one.steps[s].loss) / std::abs(one.steps[s].loss));
    worst = larger(worst, std::abs(a.steps[s].mtp_loss.value_or(1) - modules) / modules);
  }
  return worst;
}

inline constexpr double kBf16 = 0x1p-7, kFp16 = 0x1p-10;  ///< distance of 1 from the next number

/// Layer of a tensor: the embedding is 0, the head behind the last one.
inline int layer_of(const std::string& name, int layers) {
  if (name.starts_with("layer")) return std::stoi(name.substr(5)) + 1;
  return name.starts_with("word") || name.starts_with("position") ? 0 : layers + 1;
}

/// How far gradients of two layouts may be apart, relative to the tensor (NVIDIA/Megatron-LM, test_optimizer_grads_match, after arXiv
/// 2506.09280 theorem 5.3): rounding grows backwards through the layers.
inline double rounding_bound(const std::string& name, int layers, double epsilon) {
  return 4 * std::pow(1.03, layers + 1 - layer_of(name, layers)) * epsilon;
}

/// The largest share that a tensor's difference has of that bound, in the first step: behind it an update divides rounding by the
/// gradient's own size. A tensor without a gradient but rounding, such as a key's bias, is measured by all of them.
inline double share_of_bound(const exec::RunResult& a, const exec::RunResult& one, int layers, double epsilon) {
  double worst = 0;
  const double all = norm_of_all(one.gradients.front());
  REQUIRE(a.gradients.front().size() == one.gradients.front().size());
  for (std::size_t t = 0; t < one.gradients.front().size(); ++t) {
    const exec::GatheredTensor &g = a.gradients.front()[t], &g1 = one.gradients.front()[t];
    // Probabilities of two labels nearly cancel over a batch; what is rounded is as large as they are.
    const double least = g1.name.starts_with("nsp.") ? 2e-2 : 1e-2;
    const double scale = std::max(norm(g1.values), least * all);
    worst = larger(worst, distance(g.values, g1.values) / scale / rounding_bound(g1.name, layers, epsilon));
  }
  return worst;
}

/// Losses, norms, gradients of every step and final weights, bit for bit.
inline void check_equal(const exec::RunResult& a, const exec::RunResult& b) {
  REQUIRE(a.steps.size() == b.steps.size());
  for (std::size_t s = 0; s < a.steps.size(); ++s) {
    CHECK(a.steps[s].loss == b.steps[s].loss);
    CHECK(a.steps[s].mtp_loss == b.steps[s].mtp_loss);
    CHECK(a.steps[s].grad_norm == b.steps[s].grad_norm);
    REQUIRE(a.gradients[s].size() == b.gradients[s].size());
    for (std::size_t t = 0; t < a.gradients[s].size(); ++t) {
      INFO("step " << s << " " << a.gradients[s][t].name);
      CHECK((a.gradients[s][t].values == b.gradients[s][t].values));
    }
  }
  REQUIRE(a.weights.size() == b.weights.size());
  for (std::size_t t = 0; t < a.weights.size(); ++t) {
    INFO(a.weights[t].name);
    CHECK((a.weights[t].values == b.weights[t].values));
  }
}

}  // namespace tandem::tests
