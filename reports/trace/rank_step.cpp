#include "reports/trace/rank_step.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "models/base/error.hpp"

namespace tandem {

namespace {

using Combine = std::function<double(std::vector<double>)>;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

double mean(std::vector<double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

WorkSum combined(const std::vector<WorkSum>& sums, const Combine& combine) {
  std::vector<double> counts, seconds;
  for (const WorkSum& s : sums) counts.push_back(s.count), seconds.push_back(s.seconds);
  return {combine(counts), combine(seconds)};
}

template <class Key>
using Table = std::map<Key, WorkSum>;

template <class Key>
Table<Key> combined(const std::vector<RankStep>& steps, Table<Key> RankStep::*table, const Combine& combine) {
  std::set<Key> keys;
  for (const RankStep& s : steps)
    for (const auto& [key, sum] : s.*table) keys.insert(key);
  Table<Key> out;
  for (const Key& key : keys) {
    std::vector<WorkSum> sums;
    for (const RankStep& s : steps) {
      const auto found = (s.*table).find(key);
      sums.push_back(found == (s.*table).end() ? WorkSum{} : found->second);
    }
    out[key] = combined(sums, combine);
  }
  return out;
}

RankStep combined(const std::vector<RankStep>& steps, const Combine& combine) {
  require(!steps.empty(), "no step to combine");
  RankStep out;
  constexpr std::array kFigures = {&RankStep::step_s, &RankStep::computing_s, &RankStep::communicating_s, &RankStep::exposed_s,
                                   &RankStep::idle_s};
  for (double RankStep::*figure : kFigures) {
    std::vector<double> values;
    for (const RankStep& s : steps) values.push_back(s.*figure);
    out.*figure = combine(values);
  }
  std::vector<WorkSum> work;
  for (const RankStep& s : steps) work.push_back(s.work);
  out.work = combined(work, combine);
  out.classes = combined(steps, &RankStep::classes, combine);
  out.phases = combined(steps, &RankStep::phases, combine);
  out.collectives = combined(steps, &RankStep::collectives, combine);
  out.kernels = combined(steps, &RankStep::kernels, combine);
  return out;
}

}  // namespace

void set_times(RankStep& step, const BusyTime& busy) {
  step.step_s = busy.window.seconds();
  step.computing_s = busy.computing.seconds();
  step.communicating_s = busy.communicating.seconds();
  step.exposed_s = busy.exposed.seconds();
  step.idle_s = busy.idle.seconds();
}

std::string communication_class(const std::string& group) {
  static const std::map<std::string, std::string> axes = {
      {"kv", "tensor"},         {"window_kv", "tensor"},    {"expert_tensor", "tensor"},  {"shard", "data"},        {"replica", "data"},
      {"expert_data", "data"},  {"expert_shard", "data"},   {"expert_replica", "data"},   {"position", "embedding"},
      {"context_heads", "context"}, {"context_keys", "context"}};
  if (group.empty()) return "communication of an unknown group";
  if (group.find("ranks") != group.npos) return "communication of " + group;
  const auto axis = axes.find(group);
  return (axis == axes.end() ? group : axis->second) + " communication";
}

RankStep median_step(const std::vector<RankStep>& steps) { return combined(steps, median); }
RankStep mean_step(const std::vector<RankStep>& steps) { return combined(steps, mean); }

}  // namespace tandem
