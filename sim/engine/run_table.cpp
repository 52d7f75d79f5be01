#include "sim/engine/run_table.hpp"

#include <algorithm>

namespace tandem::sim {
namespace {

class Steps {
 public:
  Steps(const std::vector<Slot>& slots, std::int64_t launch, RunTable& out) : slots_(slots), launch_(launch), out_(out) {}

  void lay(const LaneTemplate& tmpl) {
    head_.clear();
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::vector<LaneTask>& tasks = tmpl.lanes[lane];
      for (std::size_t i = 0; i < tasks.size();) i = tasks[i].launch_only ? i + 1 : lay_run(tasks, i);
      for (const LaneTask& task : tasks)
        if (!task.launch_only) out_.steps[task.slot].lane = static_cast<std::uint8_t>(lane);
    }
    place_times(tmpl.first_slot);
  }

 private:
  bool meets(const LaneTask& task) const { return slots_[task.slot].exchange >= 0; }
  bool follows(const LaneTask& task) const { return !task.launch_only && task.deps.empty() && !meets(task); }

  /// Writes the run that begins with task `first` of a lane. Returns the index behind its last task.
  std::size_t lay_run(const std::vector<LaneTask>& lane, std::size_t first) {
    std::size_t end = first + 1;
    while (!meets(lane[first]) && end < lane.size() && follows(lane[end])) ++end;
    RunTask& head = out_.steps[lane[first].slot];
    const std::uint16_t head_task = lane[first].task;
    head.tasks = static_cast<std::uint16_t>(end - first);
    head.last = lane[end - 1].task;
    head.slack = INT64_MAX;
    std::int64_t started = slots_[lane[first].slot].duration;  // start of the next task, after the run's start
    for (std::size_t i = first; i < end; ++i) {
      RunTask& step = out_.steps[lane[i].slot];
      if (head_.size() <= lane[i].task) head_.resize(lane[i].task + 1U);
      head_[lane[i].task] = head_task;
      step.duration = slots_[lane[i].slot].duration;
      step.exchange = slots_[lane[i].slot].exchange;
      step.issued = lane[i].issued;
      if (i == first) continue;
      head.slack = std::min(head.slack, started - static_cast<std::int64_t>(lane[i].issued - lane[first].issued) * launch_);
      step.after = head.total += slots_[lane[i].slot].duration;
      started += slots_[lane[i].slot].duration;
    }
    return end;
  }

  /// Times lie in the order of tasks, whatever their lanes. They become known in about this order, so neighbours share cache lines.
  void place_times(std::uint32_t first_slot) {
    std::uint32_t in_runs = 0, singly = 0;
    for (std::uint32_t task = 0; task < head_.size(); ++task) {
      RunTask& step = out_.steps[first_slot + task];
      const std::uint32_t times = step.exchange >= 0 ? kExchangeTimes : 1;
      step.singly = singly;
      step.in_runs = head_[task] == task ? in_runs : out_.steps[first_slot + head_[task]].in_runs;
      singly += times;
      if (head_[task] == task) in_runs += times;
    }
    out_.in_runs.push_back(in_runs);
    out_.singly.push_back(singly);
  }

  const std::vector<Slot>& slots_;
  std::int64_t launch_;
  RunTable& out_;
  std::vector<std::uint16_t> head_;  ///< by task of a template: the first of its run
};

}  // namespace

RunTable make_run_table(const std::vector<LaneTemplate>& templates, const std::vector<Slot>& slots,
                        std::vector<TimedTemplateId> timed_templates, std::int64_t launch) {
  RunTable run_table;
  run_table.timed_templates = std::move(timed_templates);
  run_table.steps.resize(slots.size());
  Steps steps(slots, launch, run_table);
  for (const LaneTemplate& tmpl : templates) steps.lay(tmpl);
  return run_table;
}

std::size_t RunTable::times(const LaneProgram& lane_program, std::size_t parted) const {
  std::size_t sum = 0, begun = 0, most = 0;
  for (std::size_t i = 0; i < lane_program.instances(); ++i)
    if (const std::uint32_t t = lane_program.starts[i].tmpl; timed_templates[t] < 0) {
      ++begun;
      sum += (runs ? in_runs : singly)[t];
      most = std::max<std::size_t>(most, singly[t]);
    }
  return sum + (runs ? std::min(begun, parted) * most : 0);
}

std::size_t RunTable::times_singly(const LaneProgram& lane_program) const {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < lane_program.instances(); ++i) sum += singly[lane_program.starts[i].tmpl];
  return sum;
}

}  // namespace tandem::sim
