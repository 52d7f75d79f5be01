#include "experiments/tandem/validation/ranking.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "experiments/tandem/validation/statistics.hpp"

namespace tandem::program {

namespace {

/// Records grouped by a key, in order of first appearance.
template <class Key>
std::vector<RecordList> grouped(const RecordList& records, Key key) {
  std::map<std::string, std::size_t> place;
  std::vector<RecordList> out;
  for (const JudgedRecord* r : records) {
    const auto [at, fresh] = place.try_emplace(key(*r), out.size());
    if (fresh) out.emplace_back();
    out[at->second].push_back(r);
  }
  return out;
}

RecordList timed(const RecordList& records) {
  RecordList out;
  for (const JudgedRecord* r : records)
    if (r->timed()) out.push_back(r);
  return out;
}

std::vector<RecordList> repeats(const RecordList& records) {
  return grouped(records, [](const JudgedRecord& r) { return r.plan.whole; });
}

std::vector<double> times(const RecordList& records) {
  std::vector<double> out;
  for (const JudgedRecord* r : records) out.push_back(*r->measured.step_time_s);
  return out;
}

}  // namespace

double LayoutGroup::kendall_tau() const { return kendall_tau_b(plans); }

double LayoutGroup::regret() const {
  double fastest = std::numeric_limits<double>::infinity(), predicted = fastest;
  for (const auto& [p, m] : plans) predicted = std::min(predicted, p), fastest = std::min(fastest, m);
  std::vector<double> chosen;
  for (const auto& [p, m] : plans)
    if (p == predicted) chosen.push_back(m);
  return mean(chosen) / fastest - 1;
}

std::vector<LayoutGroup> layout_groups(const RecordList& records) {
  std::vector<LayoutGroup> out;
  for (const RecordList& group : grouped(timed(records), [](const JudgedRecord& r) { return r.plan.task; })) {
    LayoutGroup layouts;
    for (const RecordList& plan : repeats(group))
      layouts.plans.push_back({*plan.front()->step_time_s, mean(times(plan))});
    if (layouts.plans.size() > 1) out.push_back(std::move(layouts));
  }
  return out;
}

Ranking ranking(const std::vector<LayoutGroup>& groups) {
  Ranking out;
  std::vector<double> taus, regrets;
  for (const LayoutGroup& g : groups) {
    out.plans += static_cast<int>(g.plans.size());
    taus.push_back(g.kendall_tau());
    regrets.push_back(g.regret());
  }
  out.groups = static_cast<int>(groups.size());
  if (!groups.empty()) out.kendall_tau = mean(taus), out.mean_regret = mean(regrets);
  return out;
}

Noise noise(const RecordList& records) {
  Noise out;
  std::vector<double> spreads;
  for (const RecordList& plan : repeats(timed(records))) {
    if (plan.size() < 2) continue;
    const std::vector<double> t = times(plan);
    spreads.push_back(*std::max_element(t.begin(), t.end()) / *std::min_element(t.begin(), t.end()) - 1);
    out.records += static_cast<int>(plan.size());
  }
  out.plans = static_cast<int>(spreads.size());
  if (!spreads.empty()) out.mean_spread = mean(spreads), out.most_spread = *std::max_element(spreads.begin(), spreads.end());
  return out;
}

}  // namespace tandem::program
