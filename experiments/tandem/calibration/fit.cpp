#include "experiments/tandem/calibration/fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "experiments/tandem/calibration/pattern_search.hpp"
#include "experiments/tandem/validation/statistics.hpp"
#include "models/base/error.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

constexpr int kSteps = 64;   // per constant's range
constexpr int kRounds = 12;  // largest number of linear models
constexpr int kEighth = kSteps / 8;
constexpr int kReach = 32;   // initial distance up to which a linear model is trusted
constexpr int kNear = 16;    // the same for fits without a source, which begin at the best fit to all
constexpr double kInsensitive = 5e-4;  // least mean change of a source's times by an eighth of a range: less prints as 0.0 %

/// Rounds to four digits: a fit knows no more, and a file should say no more.
double rounded(double v) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", v);
  return std::strtod(text.data(), nullptr);
}

double value_at(const Constant& c, int step) {
  const double share = static_cast<double>(step) / kSteps;
  if (c.low > 0) return rounded(c.low * std::pow(c.high / c.low, share));
  return rounded(c.low + (c.high - c.low) * share);
}

int step_at(const Constant& c) {
  int best = 0;
  for (int step = 1; step <= kSteps; ++step)
    if (std::abs(value_at(c, step) - c.value) < std::abs(value_at(c, best) - c.value)) best = step;
  return best;
}

using Which = std::vector<std::size_t>;

struct Source {
  std::string set;
  Which all, sample;  ///< indices of cases
};

Which spread(const Which& all, int most) {
  if (most <= 0 || all.size() <= static_cast<std::size_t>(most)) return all;
  Which out;
  const auto n = static_cast<std::size_t>(most);
  for (std::size_t i = 0; i < n; ++i) out.push_back(all[(2 * i + 1) * all.size() / (2 * n)]);
  return out;
}

std::vector<Source> sources_of(const std::vector<FitCase>& cases, int per_source) {
  std::vector<Source> out;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    auto at = std::find_if(out.begin(), out.end(), [&](const Source& s) { return s.set == cases[i].set; });
    if (at == out.end()) at = out.insert(out.end(), Source{cases[i].set, {}, {}});
    at->all.push_back(i);
  }
  for (Source& s : out) s.sample = spread(s.all, per_source);
  return out;
}

double mean_absolute(const LogErrors& errors) {
  double sum = 0;
  for (double e : errors) sum += std::abs(e);
  return sum / static_cast<double>(errors.size());
}

using BySource = std::vector<LogErrors>;

/// Indices of the sources that a fit omits.
using OmittedSources = std::vector<std::size_t>;

/// Mean over sources of their mean absolute errors.
double cost_of(const BySource& errors, const OmittedSources& without) {
  double sum = 0;
  int n = 0;
  for (std::size_t s = 0; s < errors.size(); ++s)
    if (std::find(without.begin(), without.end(), s) == without.end()) sum += mean_absolute(errors[s]), ++n;
  return sum / n;
}

/// The largest change of any coordinate.
int distance(const Point& a, const Point& b) {
  int most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// A source, and how far its step times change (mean) when a constant moves by an eighth of its range.
struct Sensitivity {
  std::size_t source = 0;
  double change = 0;
};

/// Predicts errors near a point without simulation: errors at the point, and their change per step of each constant.
struct LinearModel {
  Point at;
  BySource errors;
  std::vector<BySource> slopes;  ///< by constant

  /// The source whose step times depend most on constant `i`.
  Sensitivity largest_sensitivity(std::size_t i) const {
    Sensitivity out;
    for (std::size_t s = 0; s < slopes[i].size(); ++s)
      if (const double change = kEighth * mean_absolute(slopes[i][s]); change > out.change) out = {s, change};
    return out;
  }
  /// The constants on which no source's step times depend. The records say nothing about them.
  std::vector<std::size_t> unidentified() const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < slopes.size(); ++i)
      if (largest_sensitivity(i).change < kInsensitive) out.push_back(i);
    return out;
  }
  double cost(const Point& p, const OmittedSources& without) const {
    BySource moved = errors;
    for (std::size_t i = 0; i < p.size(); ++i)
      for (std::size_t s = 0; s < moved.size() && p[i] != at[i]; ++s)
        for (std::size_t r = 0; r < moved[s].size(); ++r) moved[s][r] += slopes[i][s][r] * (p[i] - at[i]);
    return cost_of(moved, without);
  }
  /// The best point within `reach` steps of every constant. Constants that no source feels keep their place, as do those `held`.
  Point best(int reach, const OmittedSources& without, std::vector<std::size_t> held = {}) const {
    std::ranges::copy(unidentified(), std::back_inserter(held));
    const auto holds = [&](const Point& p) {
      return std::all_of(held.begin(), held.end(), [&](std::size_t i) { return p[i] == at[i]; });
    };
    return pattern_search(at, {kSteps, kSteps / 4}, [&](const Point& p) {
      return distance(p, at) <= reach && holds(p) ? cost(p, without) : std::numeric_limits<double>::infinity();
    });
  }
};

/// The search for one device. It simulates the sampled records where needed and remembers the results.
class Search {
 public:
  Search(const ConstantsFile& file, const FitCases& cases, const FitOptions& options)
      : constants_(file.constants()), sources_(sources_of(cases.cases, options.per_source)),
        evaluator_(cases.cases, file, options.jobs), options_(options) {
    for (const Source& s : sources_) sample_.insert(sample_.end(), s.sample.begin(), s.sample.end());
    for (const Constant& c : constants_) start_.push_back(step_at(c));
    best_ = start_;
  }

  const Point& best() {
    descend(best_, {});
    put_back_unidentified();
    return best_;
  }
  /// The best point near the model's, without some sources, if the simulator confirms that it is better; else the model's own.
  Point best_near(const LinearModel& model, const OmittedSources& without) {
    const double before = cost_of(model.errors, without);
    for (int reach = kNear; reach > 0; reach /= 2)
      if (Point next = model.best(reach, without); cost_of(sampled(next), without) < before) return next;
    return model.at;
  }
  /// The best point found so far.
  const Point& so_far() const { return best_; }
  const Point& start() const { return start_; }
  LinearModel linear(const Point& at, int step) {
    LinearModel out{at, sampled(at), {}};
    for (std::size_t i = 0; i < at.size(); ++i) out.slopes.push_back(slope(at, i, step));
    return out;
  }
  std::vector<double> values(const Point& p) const {
    std::vector<double> out;
    for (std::size_t i = 0; i < p.size(); ++i) out.push_back(value(i, p[i]));
    return out;
  }
  /// Constant `i` at a step of its range. At the start it is the file's own value, which may lie between two steps.
  double value(std::size_t i, int step) const { return step == start_[i] ? constants_[i].value : value_at(constants_[i], step); }
  /// Mean absolute log error over all records of a source.
  double error(const std::vector<double>& values, const Source& s) { return mean_absolute(evaluator_.errors(values, s.all)); }
  const std::vector<Source>& sources() const { return sources_; }
  const std::vector<Constant>& constants() const { return constants_; }
  int tried() const { return static_cast<int>(memory_.size()); }
  /// Log errors of the sampled records of each source, which must have been simulated.
  const BySource& known(const Point& p) const { return memory_.at(p); }

 private:
  BySource slope(const Point& at, std::size_t i, int step) {
    Point moved = at;
    moved[i] += at[i] + step <= kSteps ? step : -step;
    BySource out = sampled(moved);
    const BySource& here = sampled(at);
    for (std::size_t s = 0; s < out.size(); ++s)
      for (std::size_t r = 0; r < out[s].size(); ++r) out[s][r] = (out[s][r] - here[s][r]) / (moved[i] - at[i]);
    return out;
  }
  double cost(const Point& p) { return cost_of(sampled(p), {}); }
  /// Moves `at` from linear model to linear model. If the simulator does not confirm a step, the step is rejected and the next model
  /// is trusted half as far; likewise after a short step. Constants `held` stay.
  void descend(Point& at, const std::vector<std::size_t>& held) {
    for (int reach = kReach, round = 0; reach > 1 && round < kRounds; ++round) {
      const Point next = linear(at, std::max(1, reach / 4)).best(reach, {}, held);
      const bool better = cost(next) < cost(at);
      if (!better || distance(at, next) <= reach / 2) reach /= 2;
      if (better) at = next;
    }
  }
  /// A constant may have moved to a point where no step time depends on it. It returns to the start if the others explain
  /// the records as well without it.
  void put_back_unidentified() {
    const std::vector<std::size_t> unidentified = linear(best_, kNear / 4).unidentified();
    Point back = best_;
    for (const std::size_t i : unidentified) back[i] = start_[i];
    if (back == best_) return;
    descend(back, unidentified);
    if (cost(back) < cost(best_) + kInsensitive) best_ = back;
  }
  /// Log errors of the sampled records of each source. Simulates them if needed.
  const BySource& sampled(const Point& p) {
    const auto known = memory_.find(p);
    if (known != memory_.end()) return known->second;
    const LogErrors errors = evaluator_.errors(values(p), sample_);
    BySource by_source;
    auto next = errors.begin();
    for (const Source& s : sources_) {
      const auto end = next + static_cast<std::ptrdiff_t>(s.sample.size());
      by_source.emplace_back(next, end);
      next = end;
    }
    options_.tell(tried() + 1);
    return memory_.emplace(p, std::move(by_source)).first->second;
  }

  const std::vector<Constant>& constants_;
  std::vector<Source> sources_;
  Which sample_;
  Evaluator evaluator_;
  const FitOptions& options_;
  std::map<Point, BySource> memory_;
  Point start_, best_;
};

ConstantFit constant_fit(const Search& search, const LinearModel& model, const std::vector<Point>& fits, std::size_t i) {
  const Constant& c = search.constants()[i];
  ConstantFit out;
  out.before = c;
  out.fitted = out.least = out.most = search.value(i, model.at[i]);
  for (const Point& p : fits) {
    out.least = std::min(out.least, search.value(i, p[i]));
    out.most = std::max(out.most, search.value(i, p[i]));
  }
  const Sensitivity found = model.largest_sensitivity(i);
  out.sensitivity = found.change;
  if (found.change > 0) out.most_sensitive = search.sources()[found.source].set;
  out.at_border = found.change >= kInsensitive && (model.at[i] == 0 || model.at[i] == kSteps);
  return out;
}

std::vector<double> values_before(const std::vector<Constant>& constants) {
  std::vector<double> out;
  for (const Constant& c : constants) out.push_back(c.value);
  return out;
}

void add_means(Fit& fit) {
  std::vector<double> before, after, left_out;
  for (const SourceFit& s : fit.sources) {
    before.push_back(s.before), after.push_back(s.after);
    if (s.left_out) left_out.push_back(*s.left_out);
  }
  fit.before = mean(before), fit.after = mean(after);
  if (!left_out.empty()) fit.left_out = mean(left_out);
}

/// Fills in the counts that every fit reports.
void add_counts(Fit& fit, const Search& search, const FitCases& cases, const FitOptions& options) {
  for (const SourceFit& s : fit.sources) fit.records += s.records;
  fit.refused = cases.refused;
  fit.evaluations = search.tried();
  fit.per_source = options.per_source;
  add_means(fit);
}

/// The best result of a stopped search, by the records that it used. Throws FitStopped if there is none.
Fit fit_so_far(const Search& search) {
  if (search.tried() == 0) throw FitStopped{};
  Fit out;
  const BySource &before = search.known(search.start()), &after = search.known(search.so_far());
  for (std::size_t s = 0; s < before.size(); ++s) {
    const int looked_at = static_cast<int>(before[s].size());
    out.sources.push_back({search.sources()[s].set, looked_at, mean_absolute(before[s]), mean_absolute(after[s]), std::nullopt});
  }
  for (std::size_t i = 0; i < search.constants().size(); ++i) {
    const double fitted = search.values(search.so_far())[i];
    out.constants.push_back({search.constants()[i], fitted, fitted, fitted, false, "", 0});
  }
  out.stopped = true;
  return out;
}

Fit fit_of(Search& search) {
  const std::vector<double> before = values_before(search.constants());
  const LinearModel model = search.linear(search.best(), kNear / 4);
  std::vector<Point> fits;
  const std::vector<Source>& sources = search.sources();
  Fit out;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    SourceFit source{sources[s].set, static_cast<int>(sources[s].all.size()), 0, 0, std::nullopt};
    source.before = search.error(before, sources[s]);
    source.after = search.error(search.values(model.at), sources[s]);
    if (sources.size() > 1) {
      fits.push_back(model.best(kNear, {s}));
      source.left_out = search.error(search.values(fits.back()), sources[s]);
    }
    out.sources.push_back(std::move(source));
  }
  for (std::size_t i = 0; i < search.constants().size(); ++i) out.constants.push_back(constant_fit(search, model, fits, i));
  return out;
}

/// The best constants for the records selected by `options.per_source`. Errors cover all records.
Fit fit_to_sample(const ConstantsFile& file, const FitCases& cases, const FitOptions& options) {
  Search search(file, cases, options);
  Fit out;
  try {
    out = fit_of(search);
  } catch (const FitStopped&) {
    out = fit_so_far(search);
  }
  add_counts(out, search, cases, options);
  return out;
}

/// Sources grouped by a key, in order of first appearance.
using Groups = std::vector<std::pair<std::string, OmittedSources>>;

Groups groups_of(const std::vector<Source>& sources, const OneSource& together) {
  Groups out;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const auto named = together.find(sources[s].set);
    const std::string& key = named == together.end() ? sources[s].set : named->second;
    auto at = std::find_if(out.begin(), out.end(), [&](const auto& group) { return group.first == key; });
    if (at == out.end()) at = out.insert(out.end(), {key, {}});
    at->second.push_back(s);
  }
  return out;
}

/// Keeps the old constants, because nothing better was found.
void keep_before(Fit& fit) {
  for (ConstantFit& c : fit.constants) c.fitted = c.least = c.most = c.before.value, c.at_border = false;
  for (SourceFit& s : fit.sources) s.after = s.before, s.left_out.reset();
  fit.after = fit.before;
  fit.left_out.reset();
  fit.kept = true;
}

}  // namespace

Fit fit_device(const ConstantsFile& file, const FitCases& cases, const FitOptions& options) {
  if (cases.cases.empty())
    throw ConfigError(Problem{file.path(), "", "", "none of the measurements was made on a device with this calibration" +
                                  (cases.refused > 0 ? ", and " + std::to_string(cases.refused) + " cannot be simulated" : std::string()),
                              cases.refused > 0 ? "tandem validate says why they cannot be" : "give files with step times of it"});
  Fit out = fit_to_sample(file, cases, options);
  int largest = 0;
  for (const SourceFit& source : out.sources) largest = std::max(largest, source.records);
  FitOptions wider = options;
  while (!out.stopped && out.after > out.before && wider.per_source > 0 && wider.per_source < largest) {
    const int tried = out.evaluations;
    wider.per_source = 2 * wider.per_source < largest ? 2 * wider.per_source : 0;  // 0: all
    wider.tell = [&options, tried](int n) { options.tell(tried + n); };
    out = fit_to_sample(file, cases, wider);
    out.evaluations += tried;
  }
  if (out.after >= out.before) keep_before(out);
  return out;
}

std::vector<FitWithout> fit_without_each(const ConstantsFile& file, const FitCases& cases, const OneSource& together,
                                         const FitOptions& options) {
  Search search(file, cases, options);
  const Groups groups = groups_of(search.sources(), together);
  if (groups.size() < 2)
    throw ConfigError(Problem{file.path(), "", "", "needs records of two sources: without the only one nothing is left to fit to", "give files of others"});
  const LinearModel model = search.linear(search.start(), kNear / 4);
  std::vector<FitWithout> out;
  for (const auto& [key, without] : groups) {
    const Point best = search.best_near(model, without);
    std::vector<double> values = values_before(file.constants());
    for (std::size_t i = 0; i < values.size(); ++i)
      if (best[i] != model.at[i]) values[i] = value_at(file.constants()[i], best[i]);
    out.push_back({key, std::move(values)});
  }
  return out;
}

int moved(const Fit& fit) {
  return static_cast<int>(std::count_if(fit.constants.begin(), fit.constants.end(),
                                        [](const ConstantFit& c) { return c.fitted != c.before.value; }));
}

std::string fitted_on(const Fit& fit, const std::string& date) {
  std::string sets;
  for (const SourceFit& s : fit.sources) sets += (sets.empty() ? "" : ", ") + s.set + " " + std::to_string(s.records);
  std::string out = (fit.stopped ? "interrupted after " + std::to_string(fit.evaluations) + " sets of constants: " : std::string()) +
                    "step times of " + std::to_string(fit.records) + (fit.records == 1 ? " record (" : " records (") + sets + "), each source one vote, " + date +
                    ": mean error " + number_text(100 * fit.after, 1) + " %";
  if (fit.left_out) out += ", of a source left out " + number_text(100 * *fit.left_out, 1) + " %";
  return out;
}

}  // namespace tandem::program
