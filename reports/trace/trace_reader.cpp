#include "reports/trace/trace_reader.hpp"

#include <charconv>
#include <functional>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/text.hpp"

namespace tandem {

bool TraceReader::start_object(std::size_t) {
  keys_.emplace_back();
  if (event_depth_ == 0 || inside_ || keys_.size() != event_depth_) return true;
  if (event_depth_ == 3 && keys_[0] != "traceEvents") return true;
  inside_ = true;
  event_ = RawEvent();
  return true;
}

bool TraceReader::start_array(std::size_t) {
  const std::size_t depth = keys_.size();
  if (depth == 0) event_depth_ = 2;  // the older form, a bare list of events
  if (depth == 1 && keys_[0] == "traceEvents") event_depth_ = 3;
  keys_.emplace_back();
  return true;
}

bool TraceReader::end_array() {
  keys_.pop_back();
  return true;
}

bool TraceReader::key(std::string& name) {
  keys_.back().swap(name);
  return true;
}

bool TraceReader::end_object() {
  if (at_event()) {
    inside_ = false;
    if (const std::string reason = store_.add(event_); !reason.empty()) refuse_event("", event_.name, reason);
    ++events_;
  } else if (at(4, "distributedInfo", "pg_config") && !group_.empty()) {
    trace_.groups[group_] = std::exchange(group_facts_, {});
    group_.clear();
  }
  keys_.pop_back();
  return true;
}

bool TraceReader::string(std::string& value) {
  if (at_event()) event_text(keys_.back(), value);
  else if (at_arguments()) argument_text(keys_.back(), value);
  else if (!inside_) head_text(value);
  return true;
}

bool TraceReader::number(const std::string& text) {
  if (at_event()) event_number(keys_.back(), text);
  else if (at_arguments()) argument_number(keys_.back(), text);
  else if (!inside_) head_number(text);
  return true;
}

void TraceReader::event_text(const std::string& key, std::string& text) {
  if (key == "ph") event_.phase.swap(text);
  if (key == "cat") event_.category.swap(text);
  if (key == "name") event_.name.swap(text);
  if (key == "tid") event_.thread = static_cast<std::int64_t>(std::hash<std::string>()(text) >> 1);
}

void TraceReader::event_number(const std::string& key, const std::string& text) {
  if (key == "tid") event_.thread = whole(key, text);
  if (key == "pid") event_.process = whole(key, text);
  if (key != "ts" && key != "dur") return;
  (key == "ts" ? event_.has_start : event_.has_time) = true;
  if (!read_microseconds(text, key == "ts" ? event_.start_ns : event_.time_ns)) refuse_event(key, text, "is no number of microseconds");
}

void TraceReader::argument_number(const std::string& key, const std::string& text) {
  if (key == "correlation") event_.correlation = whole(key, text);
  if (key == "device") event_.device = whole(key, text);
  CollectiveFacts& facts = event_.facts;
  if (key == "In msg nelems") facts.in = whole(key, text), event_.has_facts = true;
  if (key == "Out msg nelems") facts.out = whole(key, text);
  if (key == "Group size") facts.group_size = whole(key, text);
}

void TraceReader::argument_text(const std::string& key, const std::string& text) {
  CollectiveFacts& facts = event_.facts;
  if (key == "Collective name") facts.name = text, event_.has_facts = true;
  if (key == "dtype") facts.dtype = text;
  if (key == "Process Group Name") facts.group = text;
  if (key == "Process Group Description") facts.description = text;
  if (key == "Process Group Ranks") facts.ranks = text;
}

void TraceReader::head_text(const std::string& text) {
  if (at(2, "otherData", "") && keys_[1] == "performer") refuse_own(text);
  if (at(4, "distributedInfo", "pg_config") && keys_[3] == "pg_name") group_ = text;
  if (at(4, "distributedInfo", "pg_config") && keys_[3] == "pg_desc") group_facts_.description = text;
  if (at(3, "deviceProperties", "") && keys_[2] == "name") devices_[device_] = text;
}

void TraceReader::head_number(const std::string& text) {
  if (at(2, "distributedInfo", "") && keys_[1] == "rank") trace_.rank = whole("distributedInfo.rank", text);
  if (at(2, "distributedInfo", "") && keys_[1] == "world_size") trace_.world_size = whole("distributedInfo.world_size", text);
  if (at(5, "distributedInfo", "pg_config") && keys_[3] == "ranks")
    group_facts_.ranks.push_back(static_cast<std::int32_t>(whole("distributedInfo.pg_config.ranks", text)));
  if (at(3, "deviceProperties", "") && keys_[2] == "id") device_ = whole("deviceProperties.id", text);
}

/// A whole number; numbers that are too large for a kept key, such as a process id, become -1.
std::int64_t TraceReader::whole(const std::string& key, const std::string& text) const {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return -1;
  if (error != std::errc() || end != text.data() + text.size()) refuse_event(key, text, "is no whole number");
  return value;
}

/// The event and key that are read: "traceEvents[3].args.dtype".
std::string TraceReader::place() const {
  std::string out = "traceEvents[" + std::to_string(events_) + "]";
  for (std::size_t i = event_depth_ - 1; i < keys_.size(); ++i)
    if (!keys_[i].empty()) out += "." + keys_[i];
  return out;
}

void TraceReader::refuse_text(std::size_t position, const std::string& error) const {
  const std::size_t said = error.find("parse error");
  const std::string reason = "is no JSON from byte " + std::to_string(position) + " on (" +
                             shortened(printable(error.substr(said == error.npos ? 0 : said)), 160) + ")";
  const bool no_value = inside_ && error.find("unexpected ','") != error.npos;
  throw ConfigError(Problem{trace_.path, inside_ ? place() : "", "", reason,
                            no_value       ? "write \"\" for the value: some versions of PyTorch leave it out"
                            : has_events() ? "let the profiler finish the file, or mend that place"
                                           : "give a trace of PyTorch's profiler"});
}

/// Tandem's `--trace` writes pictures for Perfetto, in the same format as PyTorch's profiler.
void TraceReader::refuse_own(const std::string& performer) const {
  throw ConfigError(Problem{trace_.path, "otherData.performer", shortened(performer), "is of Tandem's own --trace, which is for Perfetto",
                            "give the file that --timeline writes, or a trace of PyTorch's profiler"});
}

void TraceReader::refuse_event(const std::string& key, const std::string& value, const std::string& reason) const {
  const std::string event = inside_ || key.empty() ? "traceEvents[" + std::to_string(events_) + "]" : "";
  throw ConfigError(Problem{trace_.path, event + (event.empty() || key.empty() ? "" : ".") + key, shortened(value), reason,
                            "write the trace again with export_chrome_trace"});
}

void TraceReader::finish() {
  store_.finish(trace_);
  if (trace_.events.empty()) return;
  if (const auto found = devices_.find(trace_.events.front().device); found != devices_.end()) trace_.device = found->second;
}

}  // namespace tandem
