#include "sim/course.hpp"

#include <algorithm>

namespace tandem::sim {
namespace {

class Steps {
 public:
  Steps(const std::vector<Slot>& slots, std::int64_t launch, Course& out) : slots_(slots), launch_(launch), out_(out) {}

  void lay(const LaneTemplate& tmpl) {
    in_runs_ = singly_ = 0;
    for (const std::vector<LaneTask>& lane : tmpl.lanes)
      for (std::size_t i = 0; i < lane.size();) i = lane[i].launch_only ? i + 1 : lay_run(lane, i);
    out_.in_runs.push_back(in_runs_);
    out_.singly.push_back(singly_);
  }

 private:
  bool meets(const LaneTask& task) const { return slots_[task.slot].exchange >= 0; }
  bool follows(const LaneTask& task) const { return !task.launch_only && task.deps == 0 && !meets(task); }

  /// The run that begins with task `first` of a lane; what comes after it.
  std::size_t lay_run(const std::vector<LaneTask>& lane, std::size_t first) {
    std::size_t end = first + 1;
    while (!meets(lane[first]) && end < lane.size() && follows(lane[end])) ++end;
    Step& head = out_.steps[lane[first].slot];
    head.tasks = static_cast<std::uint16_t>(end - first);
    head.last = lane[end - 1].task;
    head.slack = INT64_MAX;
    std::int64_t started = slots_[lane[first].slot].duration;  // of each task, after the run's start
    for (std::size_t i = first; i < end; ++i) {
      Step& step = out_.steps[lane[i].slot];
      const std::uint32_t times = meets(lane[i]) ? kExchangeTimes : 1;
      step.duration = slots_[lane[i].slot].duration;
      step.exchange = slots_[lane[i].slot].exchange;
      step.issued = lane[i].issued;
      step.in_runs = in_runs_;
      step.singly = singly_;
      singly_ += times;
      if (i == first) continue;
      head.slack = std::min(head.slack, started - static_cast<std::int64_t>(lane[i].issued - lane[first].issued) * launch_);
      step.after = head.total += slots_[lane[i].slot].duration;
      started += slots_[lane[i].slot].duration;
    }
    in_runs_ += meets(lane[first]) ? kExchangeTimes : 1;
    return end;
  }

  const std::vector<Slot>& slots_;
  std::int64_t launch_;
  Course& out_;
  std::uint32_t in_runs_ = 0, singly_ = 0;
};

}  // namespace

Course make_course(const std::vector<LaneTemplate>& templates, const std::vector<Slot>& slots, std::vector<StretchId> stretches,
                   std::int64_t launch) {
  Course course;
  course.stretches = std::move(stretches);
  course.steps.resize(slots.size());
  Steps steps(slots, launch, course);
  for (const LaneTemplate& tmpl : templates) steps.lay(tmpl);
  return course;
}

std::size_t Course::times(const Itinerary& itinerary) const {
  std::size_t sum = 0;
  for (const std::uint32_t t : itinerary.tmpl)
    if (stretches[t] < 0) sum += (runs ? in_runs : singly)[t];
  return sum;
}

}  // namespace tandem::sim
