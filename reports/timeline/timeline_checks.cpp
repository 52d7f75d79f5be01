#include "reports/timeline/timeline_checks.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/error.hpp"
#include "models/base/fnv.hpp"
#include "models/base/text.hpp"

namespace tandem {

const char* const kTimelineRemedy = "give a file that `tandem simulate --timeline` or `tandem train --timeline` wrote, as it was written";

void refuse_timeline(const std::string& file, const std::string& field, const std::string& value, const std::string& reason) {
  throw ConfigError(Problem{file, field, shortened(value), reason, kTimelineRemedy});
}

namespace {

/// FNV-1a over words: each step is one to one, so a change of any one word changes the digest.
class Digest {
 public:
  void add(std::int64_t word) { hash_ = (hash_ ^ static_cast<std::uint64_t>(word)) * 1099511628211U; }
  void add(std::string_view text) { add(static_cast<std::int64_t>(fnv1a(text))); }
  /// NaN and infinity are written as null.
  void add(double value) { add(std::isfinite(value) ? std::bit_cast<std::int64_t>(value) : std::int64_t{-1}); }
  void add(Duration time) { add(time.ps()); }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = fnv1a("");
};

void add(Digest& d, const SavedTask& t) {
  for (const std::string* text : {&t.block, &t.task, &t.kind, &t.stream, &t.group}) d.add(*text);
  d.add(t.payload.count());
  d.add(t.flops.count());
}

void add(Digest& d, const SavedLane& lane) {
  for (const std::int32_t c : lane.coords.at) d.add(std::int64_t{c});
  d.add(static_cast<std::int64_t>(lane.ranks.size()));
  for (const std::int32_t r : lane.ranks) d.add(std::int64_t{r});
  d.add(lane.arena_bytes.count());
  d.add(static_cast<std::int64_t>(lane.spans.size()));
  for (const SavedSpan& s : lane.spans) {
    d.add(std::int64_t{s.task});
    for (const std::int32_t n : {s.layer, s.micro_batch, s.chunk, s.phase}) d.add(std::int64_t{n});
    for (const Duration time : {s.issued, s.ready, s.started, s.ended}) d.add(time);
  }
  d.add(static_cast<std::int64_t>(lane.routing.size()));
  for (const RouterCounts& r : lane.routing) {
    d.add(std::int64_t{r.layer});
    d.add(std::int64_t{r.micro_batch});
    for (const std::int32_t n : r.counts) d.add(std::int64_t{n});
  }
}

void add(Digest& d, const RunHistory& h) {
  d.add(h.kept_step);
  d.add(h.peak_memory_bytes);
  for (const TrainedStep& s : h.steps) {
    d.add(s.step);
    for (const double v : {s.loss, s.grad_norm, s.learning_rate, s.step_time_s}) d.add(v);
    d.add(s.global_batch_size);
    if (s.mtp_loss) d.add(*s.mtp_loss);
  }
  for (const EvaluatedStep& e : h.evaluations) d.add(e.step), d.add(e.loss);
}

/// The longest time that may be summed over all streams of all ranks.
std::int64_t summable(const SavedTimeline& t) {
  std::int64_t ranks = 1;
  for (const SavedLane& l : t.lanes) ranks += static_cast<std::int64_t>(l.ranks.size());
  return std::numeric_limits<std::int64_t>::max() / (8 * ranks);
}

std::string lane_field(std::size_t lane, const std::string& rest) { return "lanes[" + std::to_string(lane) + "]." + rest; }

/// The first error of a span: its column, value and reason; nothing if it is valid.
struct SpanError {
  std::size_t column;
  std::int64_t value;
  const char* reason;
};

std::optional<SpanError> span_error(const SavedTimeline& t, const SavedSpan& s, std::int64_t most) {
  if (s.task >= t.tasks.size()) return SpanError{0, s.task, "the file has no such task"};
  if (s.phase < 0 || static_cast<std::size_t>(s.phase) >= t.phases.size()) return SpanError{4, s.phase, "the file has no such phase"};
  const Duration times[] = {s.issued, s.ready, s.started, s.ended};
  for (std::size_t i = 0; i < std::size(times); ++i)
    if (times[i].ps() > most || times[i].ps() < -most) return SpanError{5 + i, times[i].ps(), "no step takes this long"};
  if (s.ended < s.started) return SpanError{8, s.ended.ps(), "the task ends before it starts"};
  return std::nullopt;
}

/// The end of the last task, and its place in the file.
struct LastEnd {
  Duration at;
  std::string field;
};

LastEnd last_end(const SavedTimeline& t) {
  LastEnd last{Duration::picoseconds(std::numeric_limits<std::int64_t>::min()), ""};
  std::size_t lane = 0, span = 0;
  for (std::size_t l = 0; l < t.lanes.size(); ++l)
    for (std::size_t s = 0; s < t.lanes[l].spans.size(); ++s)
      if (t.lanes[l].spans[s].ended > last.at) last.at = t.lanes[l].spans[s].ended, lane = l, span = s;
  last.field = lane_field(lane, "spans[" + std::to_string(span) + "][8]");
  return last;
}

/// Whether steps overlap: then the step time is less than one step alone takes.
bool steps_overlap(const nlohmann::json& plan) {
  const nlohmann::json::json_pointer field("/parallel/optimizer_sync");
  return plan.contains(field) && plan.at(field) == "post_validated";
}

/// A simulated step ends with its last task; a run's with the meeting of all ranks after it.
void require_end(const SavedTimeline& t, const nlohmann::json& plan, const std::string& file) {
  const bool executed = t.performer == Performer::executed;
  if (!executed && steps_overlap(plan)) return;
  const LastEnd last = last_end(t);
  const Duration earliest = executed ? Duration::picoseconds(t.step_time.ps() / 2) : t.step_time;
  if (last.at >= earliest && last.at <= t.step_time) return;
  refuse_timeline(file, "step_time_ps", std::to_string(t.step_time.ps()),
                  "the last task ends at " + std::to_string(last.at.ps()) + " ps (" + last.field + "), not with the step");
}

void require_ranks(const SavedTimeline& t, const nlohmann::json& plan, const std::string& file) {
  std::set<std::int32_t> seen;
  for (std::size_t l = 0; l < t.lanes.size(); ++l)
    for (const std::int32_t r : t.lanes[l].ranks)
      if (r < 0 || !seen.insert(r).second)
        refuse_timeline(file, lane_field(l, "ranks"), std::to_string(r), r < 0 ? "no rank is negative" : "another lane has this rank, too");
  std::int64_t world = 1;
  for (const char* axis : {"tensor", "pipeline", "data", "context"}) {
    const nlohmann::json::json_pointer field(std::string("/parallel/") + axis);
    if (!plan.contains(field) || !plan.at(field).is_number_integer()) return;
    world *= std::clamp<std::int64_t>(plan.at(field).get<std::int64_t>(), 0, 1 << 24);
    world = std::min<std::int64_t>(world, std::int64_t{1} << 32);
  }
  if (world != static_cast<std::int64_t>(seen.size()))
    refuse_timeline(file, "lanes", std::to_string(seen.size()) + " ranks", "the file's plan has " + std::to_string(world));
}

void require_kept_step(const SavedTimeline& t, const std::string& file) {
  if (!t.history) return;
  const auto& steps = t.history->steps;
  const auto kept = std::find_if(steps.begin(), steps.end(), [&](const TrainedStep& s) { return s.step == t.history->kept_step; });
  if (kept == steps.end()) refuse_timeline(file, "run.kept_step", std::to_string(t.history->kept_step), "the run has no such step");
  const double told = kept->step_time_s, step = t.step_time.seconds();
  if (!(std::abs(told - step) <= 1e-9 + 1e-6 * step))
    refuse_timeline(file, "step_time_ps", std::to_string(t.step_time.ps()),
                    "run.steps says that the kept step took " + std::to_string(told) + " s");
}

std::uint64_t digest(const SavedTimeline& t) {
  Digest d;
  d.add(t.performer == Performer::simulated ? "simulated" : "executed");
  d.add(t.step_time);
  d.add(nlohmann::json::parse(t.plan_json.empty() ? "null" : t.plan_json).dump());
  d.add(t.measured_table.value_or("(unknown)"));
  for (const std::string& phase : t.phases) d.add(phase);
  for (const SavedTask& task : t.tasks) add(d, task);
  for (const SavedLane& lane : t.lanes) add(d, lane);
  if (t.history) add(d, *t.history);
  return d.value();
}

}  // namespace

std::string checksum_text(const SavedTimeline& t) {
  std::array<char, 20> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(digest(t)));
  return hex.data();
}

void require_sound(const SavedTimeline& t, const std::string& file) {
  const std::int64_t most = summable(t);
  if (t.step_time.ps() > most || t.step_time.ps() < 0)
    refuse_timeline(file, "step_time_ps", std::to_string(t.step_time.ps()), "no step takes this long");
  for (std::size_t l = 0; l < t.lanes.size(); ++l) {
    if (t.lanes[l].ranks.empty()) refuse_timeline(file, lane_field(l, "ranks"), "[]", "a lane stands for at least one rank");
    for (std::size_t s = 0; s < t.lanes[l].spans.size(); ++s)
      if (const auto f = span_error(t, t.lanes[l].spans[s], most))
        refuse_timeline(file, lane_field(l, "spans[" + std::to_string(s) + "][" + std::to_string(f->column) + "]"),
                        std::to_string(f->value), f->reason);
  }
}

void require_consistent(const SavedTimeline& t, const std::string& file) {
  const nlohmann::json plan = nlohmann::json::parse(t.plan_json, nullptr, false);
  if (t.lanes.empty()) refuse_timeline(file, "lanes", "[]", "holds no rank's step");
  require_end(t, plan, file);
  require_ranks(t, plan, file);
  require_kept_step(t, file);
}

}  // namespace tandem
