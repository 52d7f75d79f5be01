#pragma once
// How far two trainings are apart: the measure of the parity cases, and equality bit for bit.

#include <algorithm>
#include <cmath>
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
  for (std::size_t s = 0; s < one.steps.size(); ++s)
    worst = larger(worst, std::abs(a.steps[s].loss - one.steps[s].loss) / std::abs(one.steps[s].loss));
  return worst;
}

/// Losses, norms, gradients of every step and final weights, bit for bit.
inline void check_equal(const exec::RunResult& a, const exec::RunResult& b) {
  REQUIRE(a.steps.size() == b.steps.size());
  for (std::size_t s = 0; s < a.steps.size(); ++s) {
    CHECK(a.steps[s].loss == b.steps[s].loss);
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
