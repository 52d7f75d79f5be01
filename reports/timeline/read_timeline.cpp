#include <limits>
#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "models/base/input.hpp"
#include "models/base/json.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(Problem{path, "", "", reason, "give a file that `tandem simulate --timeline` or `tandem train --timeline` wrote"});
}

constexpr JsonLimits kLimits{std::size_t{4} << 30, 64};

void require_timeline(const json& document, const std::string& path) {
  if (!document.is_object()) refuse(path, "is not a JSON object");
  if (document.value("what", "") != "tandem timeline") refuse(path, "is not a timeline");
  if (document.value("schema_version", 0) != 1) refuse(path, "has a schema_version other than 1");
}

SavedTask task(const json& t) {
  return {t.at("block"), t.at("task"), t.at("kind"), t.at("stream"), t.at("group"),
          Bytes(t.at("payload_bytes").get<std::int64_t>()), Flops(t.at("flops").get<std::int64_t>())};
}

Duration time(const json& v) { return Duration::picoseconds(v.get<std::int64_t>()); }

SavedSpan span(const json& s) {
  return {s.at(0), s.at(1), s.at(2), s.at(3), s.at(4), time(s.at(5)), time(s.at(6)), time(s.at(7)), time(s.at(8))};
}

Coords coords(const json& c) {
  return {{c.at("tp"), c.at("cp"), c.at("ep"), c.at("dp"), c.at("pp")}};
}

RouterCounts counts(const json& r) {
  const auto row = r.get<std::vector<std::int32_t>>();
  if (row.size() < 3) throw std::out_of_range("a routing without choices");
  return {row[0], row[1], {row.begin() + 2, row.end()}};
}

SavedLane lane(const json& l) {
  SavedLane out{coords(l.at("coords")), l.at("ranks"), Bytes(l.at("arena_bytes").get<std::int64_t>()), {}, {}};
  for (const json& s : l.at("spans")) out.spans.push_back(span(s));
  if (l.contains("routing"))
    for (const json& r : l.at("routing")) out.routing.push_back(counts(r));
  return out;
}

double number(const json& v) { return v.is_null() ? std::numeric_limits<double>::quiet_NaN() : v.get<double>(); }

RunHistory history(const json& h) {
  RunHistory out;
  out.kept_step = h.at("kept_step");
  out.peak_memory_bytes = h.at("peak_memory_bytes");
  for (const json& s : h.at("steps"))
    out.steps.push_back({s.at("step"), number(s.at("loss")), number(s.at("grad_norm")), s.at("learning_rate"), s.at("step_time_s"),
                         s.at("global_batch_size")});
  for (const json& e : h.at("evaluations")) out.evaluations.push_back({e.at("step"), number(e.at("loss"))});
  return out;
}

Performer performer(const json& document) {
  const std::string word = document.at("performer");
  if (word != "simulated" && word != "executed") throw std::out_of_range("performer is neither simulated nor executed");
  return word == "simulated" ? Performer::simulated : Performer::executed;
}

bool within(const SavedTimeline& t, const SavedSpan& s) {
  return s.task < t.tasks.size() && s.phase >= 0 && static_cast<std::size_t>(s.phase) < t.phases.size();
}

/// The longest time that may be summed over all streams of all ranks.
std::int64_t summable(const SavedTimeline& t) {
  std::int64_t ranks = 1;
  for (const SavedLane& l : t.lanes) ranks += static_cast<std::int64_t>(l.ranks.size());
  return std::numeric_limits<std::int64_t>::max() / (8 * ranks);
}

void require_within(std::int64_t most, Duration time) {
  if (time.ps() > most || time.ps() < -most) throw std::out_of_range("a time that no step has");
}

void check(const SavedTimeline& t) {
  const std::int64_t most = summable(t);
  require_within(most, t.step_time);
  for (const SavedLane& l : t.lanes) {
    if (l.ranks.empty()) throw std::out_of_range("a lane without ranks");
    for (const SavedSpan& s : l.spans) {
      if (!within(t, s)) throw std::out_of_range("a span with a task or phase that the file lacks");
      for (const Duration at : {s.issued, s.ready, s.started, s.ended}) require_within(most, at);
      if (s.ended < s.started) throw std::out_of_range("a span that ends before it starts");
    }
  }
}

SavedTimeline timeline(const json& document) {
  SavedTimeline out;
  out.performer = performer(document);
  out.plan_json = document.at("plan").dump();
  out.step_time = time(document.at("step_time_ps"));
  out.phases = document.at("phases").get<std::vector<std::string>>();
  for (const json& t : document.at("tasks")) out.tasks.push_back(task(t));
  for (const json& l : document.at("lanes")) out.lanes.push_back(lane(l));
  if (document.contains("run")) out.history = history(document.at("run"));
  check(out);
  return out;
}

SavedTimeline checked(const json& document, const std::string& path) {
  try {
    require_timeline(document, path);
    return timeline(document);
  } catch (const json::exception& e) {
    refuse(path, std::string("is damaged: ") + e.what());
  } catch (const std::out_of_range& e) {
    refuse(path, std::string("is damaged: ") + e.what());
  }
}

}  // namespace

SavedTimeline read_timeline(const std::string& path) { return checked(read_json(path, kLimits), path); }

SavedTimeline read_timeline(InputFile& file, const std::string& path) {
  return checked(parse_json(file.whole(kLimits.max_bytes), path, kLimits), path);
}

}  // namespace tandem
