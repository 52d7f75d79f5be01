#include "reports/timeline/timeline.hpp"

#include "models/base/output.hpp"
#include "reports/timeline/json_text.hpp"
#include "reports/timeline/saved_timeline.hpp"

namespace tandem {

namespace {

void append_task(std::string& out, const SavedTask& t) {
  out += "{\"block\":" + quoted(t.block) + ",\"task\":" + quoted(t.task) + ",\"kind\":" + quoted(t.kind) +
         ",\"stream\":" + quoted(t.stream) + ",\"group\":" + quoted(t.group) + ",\"payload_bytes\":";
  append_number(out, t.payload.count());
  out += ",\"flops\":";
  append_number(out, t.flops.count());
  out += '}';
}

void append_span(std::string& out, const SavedSpan& s) {
  const std::int64_t columns[] = {s.task,        s.layer,      s.micro_batch,  s.chunk,       s.phase,
                                  s.issued.ps(), s.ready.ps(), s.started.ps(), s.ended.ps()};
  append_list(out, columns);
}

/// [layer, micro-batch, choices of every expert], where there are any.
void append_routing(std::string& out, const std::vector<RouterCounts>& routing) {
  if (routing.empty()) return;
  out += ",\"routing\":[";
  for (std::size_t i = 0; i < routing.size(); ++i) {
    if (i) out += ',';
    std::vector<std::int64_t> row{routing[i].layer, routing[i].micro_batch};
    row.insert(row.end(), routing[i].counts.begin(), routing[i].counts.end());
    append_list(out, row);
  }
  out += ']';
}

void append_lane(std::string& out, const SavedLane& lane) {
  out += "{\"coords\":{";
  const char* axes[] = {"tp", "cp", "ep", "dp", "pp"};
  for (int a = 0; a < kAxes; ++a) {
    out += (a ? ",\"" : "\"") + std::string(axes[a]) + "\":";
    append_number(out, lane.coords.at[static_cast<std::size_t>(a)]);
  }
  out += "},\"ranks\":";
  append_list(out, lane.ranks);
  out += ",\"arena_bytes\":";
  append_number(out, lane.arena_bytes.count());
  out += ",\"spans\":[";
  for (std::size_t i = 0; i < lane.spans.size(); ++i) {
    if (i) out += ',';
    append_span(out, lane.spans[i]);
  }
  out += ']';
  append_routing(out, lane.routing);
  out += '}';
}

template <class Items, class Append>
void append_lines(std::string& out, const char* key, const Items& items, Append append) {
  out += std::string(",\n\"") + key + "\":[";
  for (std::size_t i = 0; i < items.size(); ++i) {
    out += i ? ",\n" : "\n";
    append(out, items[i]);
  }
  out += ']';
}

}  // namespace

void save_timeline(const Timeline& timeline, const TaskGraph& graph, const std::string& path, const Routing* routing,
                   const RunHistory* history) {
  SavedTimeline t = saved(timeline, graph, routing);
  if (history != nullptr) t.history = *history;
  write_timeline(t, path);
}

void write_timeline(const SavedTimeline& t, const std::string& path) {
  std::string out = "{\"schema_version\":1,\"what\":\"tandem timeline\",\"performer\":";
  out += t.performer == Performer::simulated ? "\"simulated\"" : "\"executed\"";
  out += ",\"step_time_ps\":";
  append_number(out, t.step_time.ps());
  out += ",\n\"plan\":" + (t.plan_json.empty() ? std::string("null") : t.plan_json);
  if (t.measured_table) out += ",\n\"measured_table\":" + quoted(*t.measured_table);
  if (t.history) out += ",\n\"run\":" + to_json(*t.history);
  append_lines(out, "phases", t.phases, [](std::string& o, const std::string& p) { o += quoted(p); });
  append_lines(out, "tasks", t.tasks, append_task);
  out += ",\n\"span_columns\":[\"task\",\"layer\",\"micro_batch\",\"chunk\",\"phase\",\"issued_ps\",\"ready_ps\","
         "\"started_ps\",\"ended_ps\"]";
  append_lines(out, "lanes", t.lanes, append_lane);
  out += ",\n\"checksum\":" + quoted(checksum_text(t)) + "}\n";
  write_text(path, out);
}

}  // namespace tandem
