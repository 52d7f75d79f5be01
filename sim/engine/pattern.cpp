#include "sim/engine/pattern.hpp"

#include <algorithm>
#include <optional>

namespace tandem::sim {
namespace {

/// Most patterns that are kept. Beyond this the step does not repeat itself, and simulating tasks one by one is cheaper.
constexpr std::size_t kMostPatterns = 1 << 18;

std::optional<TimedTemplate> timed_template(const LaneTemplate& tmpl, const std::vector<Slot>& slots) {
  std::size_t tasks = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (lane >= kPatternLanes && !tmpl.lanes[lane].empty()) return {};
    tasks += tmpl.lanes[lane].size();
  }
  const auto& tensor = tmpl.lanes[1];
  if (tmpl.lanes[0].empty() || (!tensor.empty() && tensor.front().deps.empty())) return {};
  TimedTemplate s;
  s.tasks.resize(tasks);
  for (const LaneDep& dep : tmpl.deps) s.deps.push_back(dep.task);
  s.on_tensor = !tensor.empty();
  for (std::size_t lane = 0; lane < kPatternLanes; ++lane) {
    if (!tmpl.lanes[lane].empty()) s.first[lane] = tmpl.lanes[lane].front().task;
    for (const LaneTask& task : tmpl.lanes[lane]) {
      const Slot& slot = slots[task.slot];
      if (slot.exchange >= 0) return {};
      s.tasks[task.task] = {static_cast<std::uint8_t>(lane),
                            static_cast<std::uint16_t>(task.deps.data() - tmpl.deps.data()),
                            static_cast<std::uint16_t>(task.deps.size()),
                            slot.duration,
                            task.host,
                            task.issued};
    }
  }
  return s;
}

}  // namespace

std::size_t Patterns::KeyHash::operator()(const Key& key) const {
  std::uint64_t h = key.size();
  for (const std::int64_t k : key) {
    h = (h ^ static_cast<std::uint64_t>(k)) * 0x9e3779b97f4a7c15;
    h ^= h >> 32;
  }
  return h;
}

TimedTemplateId Patterns::timed(const LaneTemplate& tmpl, const std::vector<Slot>& slots) {
  std::optional<TimedTemplate> s = timed_template(tmpl, slots);
  if (!s) return -1;
  Key key{tmpl.lanes[0].front().slot};
  for (const TimedTemplate::Task& task : s->tasks) {
    key.insert(key.end(), {task.lane, task.duration, task.deps});
    for (std::uint16_t d = task.first_dep; d < task.first_dep + task.deps; ++d) key.push_back(s->deps[d]);
  }
  const auto [at, fresh] = known_timed_.try_emplace(std::move(key), static_cast<TimedTemplateId>(timed_templates_.size()));
  if (!fresh) return at->second;
  s->plain = work_out(at->second, *s, {});
  const std::vector<std::int64_t>& ended = patterns_[s->plain].ended;
  s->slack.fill(INT64_MAX);
  for (std::size_t t = 0; t < ended.size(); ++t) {
    const TimedTemplate::Task& task = s->tasks[t];
    std::int64_t& slack = s->slack[task.lane];
    slack = std::min(slack, ended[t] - task.duration - static_cast<std::int64_t>(task.issued) * launch_);
  }
  timed_templates_.push_back(std::move(*s));
  return at->second;
}

PatternId Patterns::look_up(TimedTemplateId id, const InstanceWaits& c) {
  key_.assign({id, c.issue[0], c.issue[1], c.tensor_free});
  for (const auto& [task, end] : c.after) key_.insert(key_.end(), {task, end});
  if (const auto known = known_.find(key_); known != known_.end()) return known->second;
  if (patterns_.size() >= kMostPatterns) return kNone;
  return known_.emplace(key_, work_out(id, of(id), c)).first->second;
}

/// Follows the engine's rule: a task starts when its lane is free, it has been issued, and all that it waits for has ended.
PatternId Patterns::work_out(TimedTemplateId id, const TimedTemplate& s, const InstanceWaits& c) {
  Pattern p;
  p.timed = id;
  p.closed = c.tensor_free == 0 && c.after.empty();
  p.free = {0, c.tensor_free};
  p.ended.resize(s.tasks.size());
  for (std::size_t t = 0; t < s.tasks.size(); ++t) {
    const TimedTemplate::Task& task = s.tasks[t];
    std::int64_t ready = p.free[task.lane];
    for (std::uint16_t d = task.first_dep; d < task.first_dep + task.deps; ++d) ready = std::max(ready, p.ended[s.deps[d]]);
    for (const auto& [task, end] : c.after)
      if (task == t) ready = std::max(ready, end);
    if (c.issue[task.lane] != InstanceWaits::kIdle)
      ready = std::max(ready, c.issue[task.lane] + static_cast<std::int64_t>(task.issued) * launch_);
    p.ended[t] = p.free[task.lane] = ready + task.duration;
  }
  patterns_.push_back(std::move(p));
  return static_cast<PatternId>(patterns_.size() - 1);
}

}  // namespace tandem::sim
