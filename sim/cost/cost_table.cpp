#include "sim/cost/cost_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <type_traits>

#include "models/base/error.hpp"
#include "models/ops/collective.hpp"
#include "reports/prediction/op_fields.hpp"

namespace tandem::sim {
namespace {

using Sizes = std::vector<double>;

Sizes sizes_of(const Op& op) {
  Sizes out = dimensions(op);
  for (double& d : out) d = std::log2(d);
  return out;
}

/// Whether a field of 0 switches a part of the operation off.
bool is_switch(std::string_view field) {
  return field == "relative_buckets" || field == "capacity" || field == "bias_cols" || field == "window" ||
         field == "room";
}

/// All fields of an operation that are no sizes. Rates, factors and switches count only as zero or not.
std::vector<std::int64_t> form_of(const Op& op) {
  std::vector<std::int64_t> form;
  Op copy = op;
  visit_fields(copy, [&](std::string_view field, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, double>)
      form.push_back(value > 0);
    else if constexpr (!std::is_same_v<T, std::int64_t>)
      form.push_back(static_cast<std::int64_t>(value));
    else if (is_switch(field))
      form.push_back(value > 0);
  });
  return form;
}

double squared_distance(const Sizes& a, const Sizes& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

/// The fastest sample of every size: disturbances only add to a measurement.
std::map<Sizes, CostSample> least(const std::vector<CostSample>& samples) {
  std::map<Sizes, CostSample> out;
  for (const CostSample& s : samples) {
    const auto [at, added] = out.try_emplace(sizes_of(s.op), s);
    if (!added) at->second.seconds = std::min(at->second.seconds, s.seconds);
  }
  return out;
}

bool is_within(const Sizes& small, const Sizes& large) {
  return std::equal(small.begin(), small.end(), large.begin(), [](double a, double b) { return a <= b; });
}

/// Lowers each sample to the cost of any larger operation: a sample that costs more was disturbed.
std::vector<CostSample> undisturbed(const std::vector<CostSample>& samples) {
  const std::map<Sizes, CostSample> unique = least(samples);
  std::vector<CostSample> out;
  for (const auto& [size, sample] : unique) {
    out.push_back(sample);
    for (const auto& [larger, other] : unique)
      if (other.seconds < out.back().seconds && is_within(size, larger)) out.back().seconds = other.seconds;
  }
  return out;
}

/// Normal equations of a weighted linear fit, by Gaussian elimination with pivots; small, symmetric, made definite.
class LinearFit {
 public:
  explicit LinearFit(std::size_t unknowns) : n_(unknowns), a_(n_ * (n_ + 1), 0.0) {}

  void add(const Sizes& row, double y, double weight) {
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j) at(i, j) += weight * row[i] * row[j];
      at(i, n_) += weight * row[i] * y;
    }
  }
  void damp(std::size_t unknown, double amount) { at(unknown, unknown) += amount; }

  Sizes solve() {
    for (std::size_t c = 0; c < n_; ++c) eliminate(c);
    Sizes x(n_);
    for (std::size_t i = n_; i-- > 0;) {
      double sum = at(i, n_);
      for (std::size_t j = i + 1; j < n_; ++j) sum -= at(i, j) * x[j];
      x[i] = sum / at(i, i);
    }
    return x;
  }

 private:
  double& at(std::size_t i, std::size_t j) { return a_[i * (n_ + 1) + j]; }
  void eliminate(std::size_t c) {
    std::size_t pivot = c;
    for (std::size_t i = c + 1; i < n_; ++i)
      if (std::abs(at(i, c)) > std::abs(at(pivot, c))) pivot = i;
    for (std::size_t j = 0; j <= n_; ++j) std::swap(at(c, j), at(pivot, j));
    for (std::size_t i = c + 1; i < n_; ++i) {
      const double factor = at(i, c) / at(c, c);
      for (std::size_t j = c; j <= n_; ++j) at(i, j) -= factor * at(c, j);
    }
  }

  std::size_t n_;
  std::vector<double> a_;
};

/// Interpolates linearly between two neighbours of a curve that bracket `x`.
double between(std::pair<double, double> a, std::pair<double, double> b, double x) {
  return a.second + (b.second - a.second) * (x - a.first) / (b.first - a.first);
}

double curve_at(const std::map<double, double>& curve, double log_bytes) {
  const auto above = curve.lower_bound(log_bytes);
  if (above == curve.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == curve.end()) return below->second + (log_bytes - below->first);
  return between(*below, *above, log_bytes);
}

template <class T>
constexpr bool kIsFlash = std::is_same_v<T, FlashAttention> || std::is_same_v<T, FlashAttentionBackward>;

/// Returns the operation with another attention window; 0: none.
Op with_window(Op op, std::int64_t window) {
  std::visit(
      [&](auto& o) {
        if constexpr (requires { o.dims.window; }) o.dims.window = window, o.dims.chunked = o.dims.chunked && window > 0;
      },
      op);
  return op;
}

/// Drops the window except from flash attention: no other operation's work depends on it.
Op without_idle_window(const Op& op) {
  const bool flash = std::visit([](const auto& o) { return kIsFlash<std::decay_t<decltype(o)>>; }, op);
  return flash ? op : with_window(op, 0);
}

/// Returns the operation with another number of rows gathered for the experts that are here; 0: a row for every choice.
Op with_room(Op op, std::int64_t room) {
  std::visit(
      [&](auto& o) {
        if constexpr (requires { o.dims.room; }) o.dims.room = room;
      },
      op);
  return op;
}

/// Index of the form's entry in which two operations differ; the form's size if there is none.
std::size_t place_between(const Op& a, const Op& b) {
  const std::vector<std::int64_t> first = form_of(a), second = form_of(b);
  return static_cast<std::size_t>(std::mismatch(first.begin(), first.end(), second.begin()).first - first.begin());
}

std::int64_t differing(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
  return count;
}

std::string measured_as(const Op& op) {
  return std::string(std::holds_alternative<Recv>(op) ? "send" : communication_name(op));
}

}  // namespace

CostSurface::CostSurface(const std::vector<CostSample>& samples) : fit_(samples) {
  low_ = high_ = sizes_of(samples.front().op);
  for (const CostSample& s : samples) {
    residuals_.push_back({sizes_of(s.op), std::log(s.seconds / fit_.seconds(s.op, s.dtype))});
    for (std::size_t i = 0; i < low_.size(); ++i) {
      low_[i] = std::min(low_[i], residuals_.back().size[i]);
      high_[i] = std::max(high_[i], residuals_.back().size[i]);
    }
  }
}

double CostSurface::correction(const std::vector<double>& size) const {
  constexpr double kSame = 1e-12, kDamping = 1e-2;
  LinearFit fit(size.size() + 1);
  double weights = 0, least = residuals_.front().log_ratio, most = least;
  for (const Residual& m : residuals_) {
    const double d2 = squared_distance(m.size, size);
    if (d2 < kSame) return m.log_ratio;
    const double weight = 1 / (d2 * d2);
    Sizes row{1.0};
    for (std::size_t i = 0; i < size.size(); ++i) row.push_back(m.size[i] - size[i]);
    fit.add(row, m.log_ratio, weight);
    weights += weight;
    least = std::min(least, m.log_ratio), most = std::max(most, m.log_ratio);
  }
  for (std::size_t i = 1; i <= size.size(); ++i) fit.damp(i, kDamping * weights);
  return std::clamp(fit.solve().front(), least, most);
}

double CostSurface::seconds(const Op& op, DType dtype) const {
  Sizes size = sizes_of(op);
  require(size.size() == low_.size(), "an operation has the dimensions of the samples of its kind");
  for (std::size_t i = 0; i < size.size(); ++i) size[i] = std::clamp(size[i], low_[i], high_[i]);
  return fit_.seconds(op, dtype) * std::exp(correction(size));
}

MeasuredCosts::MeasuredCosts(const CostTable& table) {
  std::map<std::pair<std::size_t, DType>, std::map<Form, std::vector<CostSample>>> samples;
  for (const CostSample& s : table.samples) samples[{s.op.index(), s.dtype}][form_of(without_idle_window(s.op))].push_back(s);
  for (auto& [key, forms] : samples)
    for (auto& [form, list] : forms) computation_[key].try_emplace(form, undisturbed(list));
  fill_communication(table);
}

void MeasuredCosts::fill_communication(const CostTable& table) {
  for (const CommSample& s : table.comm) {
    const double log_bytes = std::log(static_cast<double>(s.bytes.count())), log_seconds = std::log(s.seconds);
    const auto [at, added] = communication_[s.kind][s.ranks].try_emplace(log_bytes, log_seconds);
    if (!added) at->second = std::min(at->second, log_seconds);
  }
}

std::optional<double> MeasuredCosts::seconds(const Op& op, DType dtype) const {
  const auto kind = computation_.find({op.index(), dtype});
  if (kind == computation_.end()) return std::nullopt;
  const Op asked = without_idle_window(op);
  const Form form = form_of(asked);
  const std::size_t window = place_between(with_window(asked, 0), with_window(asked, 1));
  const std::size_t room = place_between(with_room(asked, 0), with_room(asked, 1));
  const auto other = [&](const Form& f, std::size_t at) { return at < form.size() && f[at] != form[at]; };
  const auto other_window = [&](const Form& f) { return other(f, window); };
  const auto distance = [&](const Form& f) { return std::pair(other_window(f), differing(f, form)); };
  const auto nearest = std::min_element(kind->second.begin(), kind->second.end(),
                                        [&](const auto& a, const auto& b) { return distance(a.first) < distance(b.first); });
  if (other(nearest->first, room) && form[room] != 0) {  // takes the time of all choices' rows times the share that is moved
    const Op all = with_room(asked, 0);
    const double share = static_cast<double>(traffic(asked, dtype).count()) / static_cast<double>(traffic(all, dtype).count());
    return share * nearest->second.seconds(all, dtype);
  }
  if (!other_window(nearest->first) || form[window] == 0) return nearest->second.seconds(asked, dtype);
  // No window was measured: takes the time of all keys times the share of pairs that are seen.
  const Op all = with_window(asked, 0);
  const double share = static_cast<double>(matrix_flops(asked).count()) / static_cast<double>(matrix_flops(all).count());
  return share * nearest->second.seconds(all, dtype);
}

std::optional<double> MeasuredCosts::communication(const Op& op, std::int64_t ranks) const {
  const auto kind = communication_.find(measured_as(op));
  if (kind == communication_.end()) return std::nullopt;
  const double log_bytes = std::log(std::max(1.0, static_cast<double>(payload(op).count())));
  const auto& groups = kind->second;
  const auto above = groups.lower_bound(ranks);
  if (above == groups.end()) return std::exp(curve_at(groups.rbegin()->second, log_bytes));
  const double high = curve_at(above->second, log_bytes);
  if (above->first == ranks || above == groups.begin()) return std::exp(high);
  const auto below = std::prev(above);
  const auto log = [](std::int64_t n) { return std::log(static_cast<double>(n)); };
  const double low = curve_at(below->second, log_bytes);
  return std::exp(between({log(below->first), low}, {log(above->first), high}, log(ranks)));
}

std::vector<std::string> MeasuredCosts::missing() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < kOpKinds; ++i) {
    const Op op = empty_op(i);
    const auto measured = [&](const auto& entry) { return entry.first.first == i; };
    if (!is_communication(op) && std::none_of(computation_.begin(), computation_.end(), measured))
      out.emplace_back(kind_name(op));
  }
  return out;
}

}  // namespace tandem::sim
