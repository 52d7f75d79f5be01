#include <map>
#include <utility>

#include "reports/compare/joined_times.hpp"

namespace tandem {

namespace {

/// Sums of one timeline over all its ranks.
struct Sums {
  struct Sum {
    std::int64_t tasks = 0;
    Duration time;
  };
  std::map<std::string, Sum> kinds, collectives, operations;
  std::map<std::int32_t, Sum> stages;
  std::int64_t ranks = 0;
};

Sums sums_of(const SavedTimeline& timeline) {
  Sums out;
  const std::vector<TaskNames> names = task_names(timeline);
  for (const SavedLane& lane : timeline.lanes) {
    const auto ranks = static_cast<std::int64_t>(lane.ranks.size());
    out.ranks += ranks;
    std::vector<Sums::Sum> of_task(names.size());
    for (const SavedSpan& s : lane.spans) {
      ++of_task[s.task].tasks;
      of_task[s.task].time += s.ended - s.started;
    }
    for (std::size_t t = 0; t < names.size(); ++t) {
      const auto add = [&](Sums::Sum& sum) {
        sum.tasks += ranks * of_task[t].tasks;
        sum.time += of_task[t].time * ranks;
      };
      if (of_task[t].tasks == 0) continue;
      add(out.kinds[names[t].kind]);
      add(out.operations[names[t].operation]);
      add(out.stages[lane.coords[Axis::pp]]);
      if (!names[t].collective.empty()) add(out.collectives[names[t].collective]);
    }
  }
  return out;
}

Duration mean(Duration sum, std::int64_t ranks) { return Duration::picoseconds(ranks > 0 ? sum.ps() / ranks : 0); }

template <class Name, class Say>
std::vector<JoinedTime> joined(const std::map<Name, Sums::Sum>& first, std::int64_t first_ranks,
                               const std::map<Name, Sums::Sum>& second, std::int64_t second_ranks, Say say) {
  std::map<Name, JoinedTime> all;
  for (const auto& [name, sum] : first) all[name].first = mean(sum.time, first_ranks);
  for (const auto& [name, sum] : second) all[name].second = mean(sum.time, second_ranks), all[name].tasks = sum.tasks;
  std::vector<JoinedTime> out;
  for (auto& [name, time] : all) {
    time.what = say(name);
    out.push_back(std::move(time));
  }
  return out;
}

}  // namespace

JoinedTimes joined_by_name(const SavedTimeline& first, const SavedTimeline& second, bool stages) {
  const Sums a = sums_of(first), b = sums_of(second);
  const auto lines = [&](const auto& of_first, const auto& of_second) {
    return joined(of_first, a.ranks, of_second, b.ranks, [](const std::string& name) { return name; });
  };
  JoinedTimes out;
  out.kinds = lines(a.kinds, b.kinds), out.collectives = lines(a.collectives, b.collectives);
  out.operations = lines(a.operations, b.operations);
  if (stages) out.stages = joined(a.stages, a.ranks, b.stages, b.ranks, [](std::int32_t s) { return "stage " + std::to_string(s); });
  Duration only_first, only_second;
  for (const auto& [name, sum] : a.operations)
    if (!b.operations.contains(name)) out.only_first += sum.tasks, only_first += sum.time;
  for (const auto& [name, sum] : b.operations) {
    const bool both = a.operations.contains(name);
    (both ? out.joined : out.only_second) += sum.tasks;
    if (!both) only_second += sum.time;
  }
  out.only_first_time = mean(only_first, a.ranks), out.only_second_time = mean(only_second, b.ranks);
  return out;
}

}  // namespace tandem
