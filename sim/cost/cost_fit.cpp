#include "sim/cost/cost_fit.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "models/base/error.hpp"
#include "reports/prediction/op_fields.hpp"

namespace tandem::sim {
namespace {

/// Fields that are no loop sizes: they change the result, or change the time only through FLOPs and bytes.
constexpr std::string_view kNoDimensions[] = {"global_tokens", "global_queries", "vocab_size", "micro_batches", "global_parameters", "kv_heads",
                                              "keys",          "relative_buckets", "row_shards",    "capacity",          "bias_cols",
                                              "window",        "value_dim",        "expert_groups", "kept_groups",       "repeat",        "common",
                                              "room",          "experts_here",     "head_ranks"};
bool is_dimension(std::string_view field) { return std::ranges::find(kNoDimensions, field) == std::end(kNoDimensions); }

/// Calls `f` on every dimension of an operation.
template <class F>
void visit_dimensions(Op& op, F&& f) {
  visit_fields(op, [&](std::string_view field, auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::int64_t>)
      if (is_dimension(field)) f(value);
  });
}

/// Replaces a dimension of 0 by the value that it stands for.
Op spelled_out(Op op) {
  const auto rows = [](auto& o) { o.rows = o.rows > 0 ? o.rows : o.batch * o.seq; };
  if (auto* o = std::get_if<PositionDropout>(&op)) rows(*o);
  if (auto* o = std::get_if<PositionDropoutBackward>(&op)) rows(*o);
  return op;
}

/// Products of every subset of the dimensions (1 first), then FLOPs and bytes.
std::vector<double> terms(const Op& op, DType dtype) {
  std::vector<double> out{1.0};
  for (double d : dimensions(op)) {
    const std::size_t before = out.size();
    for (std::size_t i = 0; i < before; ++i) out.push_back(out[i] * d);
  }
  out.push_back(static_cast<double>(matrix_flops(op).count()));
  out.push_back(static_cast<double>(vector_flops(op).count()));
  out.push_back(static_cast<double>(traffic(op, dtype).count()));
  return out;
}

/// Minimises |A x - 1|^2 over x >= 0 by coordinate descent on the normal equations.
class NonNegativeFit {
 public:
  explicit NonNegativeFit(std::size_t unknowns) : n_(unknowns), gram_(n_ * n_, 0.0), right_(n_, 0.0), x_(n_, 0.0) {}

  void add(const std::vector<double>& row) {
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) gram_[i * n_ + j] += row[i] * row[j];
      right_[i] += row[i];
    }
  }

  const std::vector<double>& solve() {
    constexpr int kSweeps = 3000;       // columns are nearly parallel, so it converges slowly; the rest is small
    constexpr double kSettled = 1e-10;  // relative change of a sweep
    for (int sweep = 0; sweep < kSweeps; ++sweep)
      if (largest_change() < kSettled) break;
    return x_;
  }

 private:
  double largest_change() {
    double largest = 0;
    for (std::size_t i = 0; i < n_; ++i) largest = std::max(largest, improve(i));
    return largest;
  }
  double improve(std::size_t i) {
    const double own = gram_[i * n_ + i];
    if (own <= 0) return 0;
    double gradient = -right_[i];
    for (std::size_t j = 0; j < n_; ++j) gradient += gram_[i * n_ + j] * x_[j];
    const double next = std::max(0.0, x_[i] - gradient / own);
    const double change = std::abs(next - x_[i]);
    x_[i] = next;
    return change;
  }

  std::size_t n_;
  std::vector<double> gram_, right_, x_;
};

}  // namespace

std::vector<double> dimensions(const Op& op) {
  std::vector<double> out;
  Op copy = spelled_out(op);
  visit_dimensions(copy, [&](std::int64_t d) { out.push_back(static_cast<double>(std::max<std::int64_t>(d, 1))); });
  return out;
}

CostFit::CostFit(const std::vector<CostSample>& samples) {
  require(!samples.empty(), "a cost formula needs a sample");
  std::vector<std::vector<double>> rows;
  for (const CostSample& s : samples) {
    rows.push_back(terms(s.op, s.dtype));
    for (double& t : rows.back()) t /= s.seconds;
  }
  std::vector<double> scale(rows.front().size(), 0.0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < scale.size(); ++i) scale[i] = std::max(scale[i], row[i]);
  NonNegativeFit fit(scale.size());
  for (auto& row : rows) {
    for (std::size_t i = 0; i < scale.size(); ++i) row[i] = scale[i] > 0 ? row[i] / scale[i] : 0;
    fit.add(row);
  }
  coefficients_ = fit.solve();
  for (std::size_t i = 0; i < scale.size(); ++i) coefficients_[i] = scale[i] > 0 ? coefficients_[i] / scale[i] : 0;
}

double CostFit::seconds(const Op& op, DType dtype) const {
  const std::vector<double> t = terms(op, dtype);
  require(t.size() == coefficients_.size(), "an operation has the dimensions of the samples of its kind");
  double sum = 0;
  for (std::size_t i = 0; i < t.size(); ++i) sum += coefficients_[i] * t[i];
  return sum;
}

}  // namespace tandem::sim
