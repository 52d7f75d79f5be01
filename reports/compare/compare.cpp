#include "reports/compare/compare.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace tandem {

namespace {

/// What a span is called in every file: TaskKey without coordinates, names as numbers of one common table.
struct Key {
  std::int32_t name, layer, micro_batch, chunk, phase;
  auto operator<=>(const Key&) const = default;
};

struct Entry {
  Key key;
  const SavedSpan* span;
};

/// One number per (block, task) or phase name, the same in both files.
class Names {
 public:
  std::int32_t of(const std::string& a, const std::string& b = {}) {
    return numbers_.try_emplace({a, b}, static_cast<std::int32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<std::pair<std::string, std::string>, std::int32_t> numbers_;
};

/// A lane's spans in key order; spans of equal key keep their issue order.
std::vector<Entry> entries(const SavedTimeline& timeline, const SavedLane& lane, Names& names) {
  std::vector<std::int32_t> tasks, phases;
  for (const SavedTask& t : timeline.tasks) tasks.push_back(names.of(t.block, t.task));
  for (const std::string& p : timeline.phases) phases.push_back(names.of(p));
  std::vector<Entry> out;
  out.reserve(lane.spans.size());
  for (const SavedSpan& s : lane.spans)
    out.push_back({{tasks[s.task], s.layer, s.micro_batch, s.chunk, phases[static_cast<std::size_t>(s.phase)]}, &s});
  std::stable_sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
  return out;
}

Duration busy(const SavedSpan& s) { return s.ended - s.started; }

/// How long at least one task of the lane runs.
Duration covered(const SavedLane& lane) {
  std::vector<std::pair<Duration, Duration>> runs;
  for (const SavedSpan& s : lane.spans) runs.emplace_back(s.started, s.ended);
  std::sort(runs.begin(), runs.end());
  Duration sum, end;
  for (const auto& [from, to] : runs) {
    const Duration begin = std::max(from, end);
    if (to > begin) sum += to - begin;
    end = std::max(end, to);
  }
  return sum;
}

double relative_error(double simulated, double executed) {
  if (executed == 0) return simulated == 0 ? 0 : std::numeric_limits<double>::infinity();
  return (simulated - executed) / executed;
}

class Joiner {
 public:
  Joiner(const SavedTimeline& simulated, const SavedTimeline& executed) : simulated_(simulated), executed_(executed) {
    for (const SavedLane& role : simulated.lanes)
      for (std::int32_t rank : role.ranks) role_of_[rank] = &role;
  }

  Comparison run() {
    for (const SavedLane& lane : executed_.lanes) join_ranks(lane);
    memory();
    step();
    comparison_.first = simulated_.performer;
    comparison_.second = executed_.performer;
    comparison_.kinds = finished(kinds_);
    comparison_.stages = finished(stages_);
    comparison_.collectives = finished(collectives_);
    comparison_.operations = finished(operations_);
    return comparison_;
  }

 private:
  using Lines = std::map<std::pair<std::int32_t, std::string>, CompareLine>;

  void join_ranks(const SavedLane& lane) {
    const std::vector<Entry> ran = entries(executed_, lane, names_);
    for (std::int32_t rank : lane.ranks) {
      ++ranks_;
      const auto role = role_of_.find(rank);
      if (role == role_of_.end())
        comparison_.only_executed += static_cast<std::int64_t>(ran.size());
      else
        join(entries(simulated_, *role->second, names_), ran, lane.coords[Axis::pp]);
    }
  }

  void join(const std::vector<Entry>& predicted, const std::vector<Entry>& ran, std::int32_t stage) {
    std::size_t s = 0, e = 0;
    while (s < predicted.size() || e < ran.size()) {
      if (e == ran.size() || (s < predicted.size() && predicted[s].key < ran[e].key)) {
        ++comparison_.only_simulated, ++s;
      } else if (s == predicted.size() || ran[e].key < predicted[s].key) {
        ++comparison_.only_executed, ++e;
      } else {
        add(*predicted[s++].span, *ran[e++].span, stage);
      }
    }
  }

  void add(const SavedSpan& predicted, const SavedSpan& ran, std::int32_t stage) {
    ++comparison_.joined;
    const SavedTask& task = executed_.tasks[ran.task];
    count(kinds_, {0, task.kind}, predicted, ran);
    count(operations_, {0, task.block + ": " + task.task}, predicted, ran);
    count(stages_, {stage, "stage " + std::to_string(stage)}, predicted, ran);
    if (!task.group.empty()) count(collectives_, {0, task.kind + " " + task.group}, predicted, ran);
  }

  static void count(Lines& lines, const std::pair<std::int32_t, std::string>& key, const SavedSpan& predicted,
                    const SavedSpan& ran) {
    CompareLine& line = lines[key];
    ++line.tasks;
    line.simulated += busy(predicted);
    line.executed += busy(ran);
  }

  std::vector<CompareLine> finished(const Lines& lines) const {
    std::vector<CompareLine> out;
    for (auto [key, line] : lines) {
      line.what = key.second;
      line.error = relative_error(line.simulated.seconds(), line.executed.seconds());
      line.simulated = Duration::picoseconds(line.simulated.ps() / ranks_);
      line.executed = Duration::picoseconds(line.executed.ps() / ranks_);
      out.push_back(line);
    }
    return out;
  }

  void memory() {
    for (const SavedLane& l : simulated_.lanes)
      comparison_.simulated_peak_bytes = std::max(comparison_.simulated_peak_bytes, l.arena_bytes.count());
    for (const SavedLane& l : executed_.lanes)
      comparison_.executed_peak_bytes = std::max(comparison_.executed_peak_bytes, l.arena_bytes.count());
    comparison_.memory_error = relative_error(static_cast<double>(comparison_.simulated_peak_bytes),
                                              static_cast<double>(comparison_.executed_peak_bytes));
  }

  void step() {
    comparison_.step = {"step", 0, simulated_.step_time, executed_.step_time,
                        relative_error(simulated_.step_time.seconds(), executed_.step_time.seconds())};
    const Duration predicted = waiting(simulated_), ran = waiting(executed_);
    comparison_.waiting = {"waiting", 0, predicted, ran, relative_error(predicted.seconds(), ran.seconds())};
  }

  /// Mean over ranks of what is left of the step where no task of the rank runs.
  static Duration waiting(const SavedTimeline& t) {
    std::int64_t sum = 0, ranks = 0;
    for (const SavedLane& lane : t.lanes) {
      const auto n = static_cast<std::int64_t>(lane.ranks.size());
      sum += n * (t.step_time - std::min(t.step_time, covered(lane))).ps();
      ranks += n;
    }
    return Duration::picoseconds(ranks > 0 ? sum / ranks : 0);
  }

  const SavedTimeline& simulated_;
  const SavedTimeline& executed_;
  std::map<std::int32_t, const SavedLane*> role_of_;
  Names names_;
  Lines kinds_, stages_, collectives_, operations_;
  std::int64_t ranks_ = 0;
  Comparison comparison_;
};

}  // namespace

Comparison compare(const SavedTimeline& simulated, const SavedTimeline& executed) {
  return Joiner(simulated, executed).run();
}

}  // namespace tandem
