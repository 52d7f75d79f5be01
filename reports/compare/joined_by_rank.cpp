#include <algorithm>
#include <map>
#include <utility>

#include "reports/compare/joined_times.hpp"

namespace tandem {

namespace {

/// The key by which spans of both files are joined: TaskKey without coordinates, with names as numbers of a common table.
struct Key {
  std::int32_t name, layer, micro_batch, chunk, phase;
  auto operator<=>(const Key&) const = default;
};

struct Entry {
  Key key;
  const SavedSpan* span;
};

/// Numbers names, the same in both files.
class Numbers {
 public:
  std::int32_t of(const std::string& name) {
    return numbers_.try_emplace(name, static_cast<std::int32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<std::string, std::int32_t> numbers_;
};

/// Spans of a timeline by key.
class Keyed {
 public:
  Keyed(const SavedTimeline& timeline, Numbers& tasks, Numbers& phases) {
    for (const SavedTask& t : timeline.tasks) tasks_.push_back(tasks.of(t.block + '\n' + t.task));
    for (const std::string& p : timeline.phases) phases_.push_back(phases.of(p));
  }

  /// In key order; spans of equal key keep their issue order.
  std::vector<Entry> entries(const SavedLane& lane) const {
    std::vector<Entry> out;
    out.reserve(lane.spans.size());
    for (const SavedSpan& s : lane.spans)
      out.push_back({{tasks_[s.task], s.layer, s.micro_batch, s.chunk, phases_[static_cast<std::size_t>(s.phase)]}, &s});
    std::stable_sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
    return out;
  }

 private:
  std::vector<std::int32_t> tasks_, phases_;
};

JoinedTime mean(const JoinedTime& sum, std::int64_t ranks) {
  return {sum.what, sum.tasks, Duration::picoseconds(sum.first.ps() / ranks), Duration::picoseconds(sum.second.ps() / ranks)};
}

/// Lines of the result by name, in order of first appearance.
class Lines {
 public:
  std::size_t of(const std::string& what) {
    const auto [at, added] = indices_.try_emplace(what, lines_.size());
    if (added) lines_.push_back({what, 0, {}, {}});
    return at->second;
  }
  JoinedTime& operator[](std::size_t i) { return lines_[i]; }
  /// The lines with tasks or times, as means over `ranks` ranks.
  std::vector<JoinedTime> over(std::int64_t ranks) && {
    const Duration none;
    std::erase_if(lines_, [&](const JoinedTime& line) { return line.tasks == 0 && line.first == none && line.second == none; });
    for (JoinedTime& line : lines_) line = mean(line, ranks);
    return std::move(lines_);
  }

 private:
  std::map<std::string, std::size_t> indices_;
  std::vector<JoinedTime> lines_;
};

Duration busy(const SavedSpan& s) { return s.ended - s.started; }

class Joiner {
 public:
  Joiner(const SavedTimeline& first, const SavedTimeline& second)
      : first_(first), second_(second), first_keys_(first, tasks_, phases_), second_keys_(second, tasks_, phases_) {
    for (const SavedLane& role : first.lanes)
      for (const std::int32_t rank : role.ranks) role_of_[rank] = &role;
    second_places_ = places_of(second);
    first_places_ = places_of(first);
  }

  JoinedTimes run() && {
    for (const SavedLane& lane : second_.lanes) join(lane);
    JoinedTimes out{std::move(kinds_).over(ranks_), {}, std::move(collectives_).over(ranks_), std::move(operations_).over(ranks_),
                    joined_, only_first_, only_second_, per_rank(only_first_time_), per_rank(only_second_time_)};
    std::erase_if(out.collectives, [](const JoinedTime& line) { return line.what.empty(); });
    for (const auto& [stage, line] : stages_) out.stages.push_back(mean(line, ranks_));
    return out;
  }

 private:
  struct Places {
    std::size_t kind, operation, collective;
  };

  std::vector<Places> places_of(const SavedTimeline& timeline) {
    std::vector<Places> out;
    for (const TaskNames& names : task_names(timeline))
      out.push_back({kinds_.of(names.kind), operations_.of(names.operation), collectives_.of(names.collective)});
    return out;
  }

  Duration per_rank(Duration sum) const { return Duration::picoseconds(ranks_ > 0 ? sum.ps() / ranks_ : 0); }

  /// Joins a lane's ranks. Those that belong to one role are alike, so they are joined once and counted as often.
  void join(const SavedLane& lane) {
    std::map<const SavedLane*, std::int64_t> ranks;
    for (const std::int32_t rank : lane.ranks) {
      const auto role = role_of_.find(rank);
      ++ranks[role == role_of_.end() ? nullptr : role->second];
    }
    ranks_ += static_cast<std::int64_t>(lane.ranks.size());
    const std::vector<Entry> own = second_keys_.entries(lane);
    for (const auto& [role, count] : ranks)
      join(role == nullptr ? std::vector<Entry>() : of_role(*role), own, lane.coords[Axis::pp], count);
  }

  const std::vector<Entry>& of_role(const SavedLane& role) {
    const auto [at, added] = entries_.try_emplace(&role);
    if (added) at->second = first_keys_.entries(role);
    return at->second;
  }

  void join(const std::vector<Entry>& first, const std::vector<Entry>& second, std::int32_t stage, std::int64_t ranks) {
    std::size_t a = 0, b = 0;
    while (a < first.size() || b < second.size()) {
      if (b == second.size() || (a < first.size() && first[a].key < second[b].key)) {
        add_first(*first[a++].span, stage, ranks);
      } else if (a == first.size() || second[b].key < first[a].key) {
        add_second(*second[b++].span, stage, ranks);
      } else {
        add(*first[a++].span, *second[b++].span, stage, ranks);
      }
    }
  }

  void add(const SavedSpan& first, const SavedSpan& second, std::int32_t stage, std::int64_t ranks) {
    joined_ += ranks;
    add(second_places_[second.task], stage, ranks, busy(first) * ranks, busy(second) * ranks);
  }

  /// A task that only the first timeline has.
  void add_first(const SavedSpan& first, std::int32_t stage, std::int64_t ranks) {
    only_first_ += ranks;
    only_first_time_ += busy(first) * ranks;
    add(first_places_[first.task], stage, 0, busy(first) * ranks, {});
  }

  void add_second(const SavedSpan& second, std::int32_t stage, std::int64_t ranks) {
    only_second_ += ranks;
    only_second_time_ += busy(second) * ranks;
    add(second_places_[second.task], stage, 0, {}, busy(second) * ranks);
  }

  void add(const Places& p, std::int32_t stage, std::int64_t joined, Duration first, Duration second) {
    JoinedTime& of_stage = stages_[stage];
    if (of_stage.what.empty()) of_stage.what = "stage " + std::to_string(stage);
    for (JoinedTime* line : {&kinds_[p.kind], &operations_[p.operation], &collectives_[p.collective], &of_stage}) {
      line->tasks += joined;
      line->first += first;
      line->second += second;
    }
  }

  const SavedTimeline& first_;
  const SavedTimeline& second_;
  Numbers tasks_, phases_;
  Keyed first_keys_, second_keys_;
  std::map<std::int32_t, const SavedLane*> role_of_;
  std::map<const SavedLane*, std::vector<Entry>> entries_;
  Lines kinds_, operations_, collectives_;
  std::vector<Places> first_places_, second_places_;  ///< by task of a timeline
  std::map<std::int32_t, JoinedTime> stages_;
  std::int64_t ranks_ = 0, joined_ = 0, only_first_ = 0, only_second_ = 0;
  Duration only_first_time_, only_second_time_;
};

}  // namespace

JoinedTimes joined_by_rank(const SavedTimeline& first, const SavedTimeline& second) { return Joiner(first, second).run(); }

std::vector<TaskNames> task_names(const SavedTimeline& timeline) {
  std::vector<TaskNames> out;
  for (const SavedTask& t : timeline.tasks)
    out.push_back({t.kind, t.block + ": " + t.task, t.group.empty() ? "" : t.kind + " " + t.group});
  return out;
}

}  // namespace tandem
