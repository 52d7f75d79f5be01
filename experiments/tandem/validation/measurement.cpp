#include "experiments/tandem/validation/measurement.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <nlohmann/json.hpp>

#include "experiments/tandem/validation/record_stack.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "topology/preset.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;

/// Whose memory was measured; the first is the default.
const std::vector<std::string> kRanks{"heaviest", "last_stage", "first_node"};

/// Keys of a record and of its measurements: those that are judged, and those that people keep for themselves.
const std::vector<std::string> kKeys{"id",    "source",    "as_of",   "framework", "grade", "plan",   "measured", "assumed",
                                     "notes", "published", "because", "error",     "details"};
const std::vector<std::string> kMeasured{"step_time_s", "tokens_per_s", "step_time_from", "peak_memory_bytes", "peak_memory_kind", "peak_memory_rank",
                                         "peak_memory_note", "out_of_memory", "tflops_per_device", "tflops_kind"};

constexpr const char* kForm = "give JSON lines with id (a string), plan and measured (objects)";

[[noreturn]] void refuse(const std::string& place, const std::string& field, const json& value, const std::string& reason,
                         const std::string& remedy) {
  throw ConfigError(Problem{place, field, value.is_null() ? "" : value_text(value), reason, remedy});
}

/// A measured figure; nullopt if it is missing or null. Throws ConfigError for impossible values.
std::optional<double> figure(const json& measured, const char* key, const std::string& unit, const std::string& place) {
  if (!measured.contains(key) || measured[key].is_null()) return std::nullopt;
  const json& value = measured[key];
  if (!value.is_number() || !(value.get<double>() > 0))
    refuse(place, std::string("measured.") + key, value, "is no number above zero", "give " + unit + " without a unit, or leave it out");
  return value.get<double>();
}

/// Whether a run ended for lack of memory; false if the key is missing or null.
bool flag(const json& measured, const char* key, const std::string& place) {
  if (!measured.contains(key) || measured[key].is_null()) return false;
  if (!measured[key].is_boolean())
    refuse(place, std::string("measured.") + key, measured[key], "must be true or false", "write true or false without quotes, or leave it out for false");
  return measured[key].get<bool>();
}

/// A list of texts; empty if the key is missing or null.
std::vector<std::string> texts(const json& record, const char* key, const std::string& place) {
  if (!record.contains(key) || record[key].is_null()) return {};
  const json& list = record[key];
  const bool good = list.is_array() && std::ranges::all_of(list, [](const json& v) { return v.is_string(); });
  if (!good) refuse(place, key, list, "must be a list of texts", "write for example [\"training.recompute\"], or leave it out");
  return list.get<std::vector<std::string>>();
}

/// The measured step time, or that of the measured throughput: a step has training.global_batch_size x training.seq_length tokens.
std::optional<double> step_time(const json& measured, const json& plan, const std::string& place) {
  const std::optional<double> told = figure(measured, "step_time_s", "seconds", place);
  const std::optional<double> rate = figure(measured, "tokens_per_s", "tokens per second of all devices", place);
  if (told || !rate) return told;
  const json training = plan.is_object() ? plan.value("training", json()) : json();
  double tokens = 1;
  for (const char* key : {"global_batch_size", "seq_length"}) {
    const json field = training.is_object() ? training.value(key, json()) : json();
    if (!field.is_number_integer() || field.get<std::int64_t>() <= 0)
      refuse(place, "measured.tokens_per_s", measured["tokens_per_s"], std::string("needs the plan's training.") + key + " for a step time",
             "give that field, or measured.step_time_s");
    tokens *= field.get<double>();
  }
  return tokens / *rate;
}

/// A peak in bytes. A smaller one than a megabyte has another unit.
std::optional<double> peak_memory(const json& measured, const std::string& place) {
  constexpr double kLeast = 1e6;
  constexpr const char* kKey = "peak_memory_bytes";
  const std::optional<double> out = figure(measured, kKey, "bytes", place);
  if (out && *out < kLeast)
    refuse(place, std::string("measured.") + kKey, measured[kKey], "is less than a megabyte", "give bytes: 70 GiB are 75161927680");
  return out;
}

/// Refuses a step time of a run that ended for lack of memory.
void require_one_end(const Measurement& m, const json& measured, const std::string& place) {
  if (!m.out_of_memory || !m.step_time_s) return;
  const std::string key = measured.contains("step_time_s") && !measured["step_time_s"].is_null() ? "step_time_s" : "tokens_per_s";
  refuse(place, "measured.out_of_memory", measured["out_of_memory"],
         "contradicts measured." + key + " = " + value_text(measured[key]) + ": a run that lacked memory has no step time",
         "leave out one of them");
}

void require_record(const json& record, const std::string& place) {
  if (!record.is_object()) refuse(place, "", record, "is no measurement record", kForm);
  for (const char* key : {"id", "plan", "measured"}) {
    if (!record.contains(key)) refuse(place, key, {}, "is missing: no measurement record", kForm);
  }
  if (!record["id"].is_string()) refuse(place, "id", record["id"], "must be a string", kForm);
  if (!record["measured"].is_object()) refuse(place, "measured", record["measured"], "must be an object", kForm);
}

/// True if `key` is a typo of `known`, or lacks its end (a unit). Less similar keys are the author's own.
bool is_slip(const std::string& key, const std::string& known) {
  return edit_distance(key, known) <= (known.size() < 6 ? 1 : 2) || (key.size() > 3 && known.starts_with(key));
}

/// Lists unknown keys of `object`. Throws ConfigError for probable typos.
void list_unread(const json& object, const std::string& prefix, const std::vector<std::string>& known, const std::string& place,
                 std::vector<std::string>& out) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto meant = std::find_if(known.begin(), known.end(), [&](const std::string& k) { return is_slip(key, k); });
    if (meant != known.end()) refuse(place, prefix + key, value, "unknown key", "did you mean \"" + *meant + "\"?");
    out.push_back(prefix + key);
  }
}

/// "A" (default), "B" or "C".
std::string grade(const json& record, const std::string& place) {
  const json& given = record.contains("grade") ? record["grade"] : json("A");
  if (given != "A" && given != "B" && given != "C")
    refuse(place, "grade", given, "is no grade of a measurement", "use A, B or C, or leave it out for A");
  return given;
}

/// One of `words`; the first if the key is missing or null. Throws ConfigError for any other word.
std::string word(const json& measured, const char* key, const std::vector<std::string>& words, const std::string& place) {
  if (!measured.contains(key) || measured[key].is_null()) return words.front();
  const json& value = measured[key];
  if (value.is_string() && std::find(words.begin(), words.end(), value.get<std::string>()) != words.end()) return value;
  throw ConfigError(Problem{place, std::string("measured.") + key, value.dump(), "is none of the words that it may be",
                            "use " + list_text(words) + ", or leave it out for " + words.front()});
}

/// Repositories and papers named in a text of the record; none if the text is missing.
std::vector<std::string> named_in(const json& record, const char* key) {
  if (!record.contains(key) || !record[key].is_string()) return {};
  return named_evidence(record[key].get<std::string>());
}

Measurement measurement(const json& record, const std::string& set, const std::string& place) {
  require_record(record, place);
  const json& measured = record.at("measured");
  Measurement out;
  out.id = record.at("id");
  out.set = set;
  out.grade = grade(record, place);
  json plan = record.at("plan");
  if (const std::string unknown = set_stack(plan, record, place); !unknown.empty())
    out.unread.push_back("framework \"" + unknown + "\" (no such stack)");
  out.plan_json = plan.dump();
  out.step_time_s = step_time(measured, plan, place);
  out.peak_memory_bytes = peak_memory(measured, place);
  out.memory_kind = word(measured, "peak_memory_kind", {"allocated", "reserved", "device"}, place);
  out.memory_rank = word(measured, "peak_memory_rank", kRanks, place);
  out.out_of_memory = flag(measured, "out_of_memory", place);
  require_one_end(out, measured, place);
  out.assumed = texts(record, "assumed", place);
  out.published_in = named_in(record, "source");
  out.evidence = named_in(record, "notes");
  list_unread(record, "", kKeys, place, out.unread);
  list_unread(measured, "measured.", kMeasured, place, out.unread);
  return out;
}

/// The plan's preset; "" if there is none, which the plan's own check refuses.
std::string named_preset(const json& plan) {
  const json::json_pointer preset("/cluster/preset");
  return plan.contains(preset) && plan[preset].is_string() ? plan[preset].get<std::string>() : "";
}

/// Resolves a user's own cluster relative to the folder of the record's file, as for plans.
void find_own_cluster(Measurement& m, const std::string& path) {
  json plan = json::parse(m.plan_json);
  const std::string preset = named_preset(plan);
  if (!is_preset_path(preset)) return;
  plan["cluster"]["preset"] = beside(preset, path);
  m.plan_json = plan.dump();
}

/// Moves the plan to another cluster. A plan without a cluster section is refused by its own check.
void move(Measurement& m, const std::string& preset) {
  json plan = json::parse(m.plan_json);
  if (!plan.is_object() || !plan.value("cluster", json()).is_object() || named_preset(plan) == preset) return;
  plan["cluster"]["preset"] = preset;
  m.plan_json = plan.dump();
  m.cluster = preset;
}

/// Whether `text` begins with a JSON value that goes on after its first line.
bool goes_on(std::string_view text) {
  std::istringstream in{std::string(text)};
  json value;
  try {
    in >> value;
  } catch (const json::exception&) {
    return false;
  }
  return value.is_structured();
}

/// A record's line as JSON. `rest`: the file's text from this line on.
json parse_line(const std::string& line, std::string_view rest, const std::string& place) {
  try {
    return parse_json(line, place);
  } catch (const ConfigError&) {
    if (!goes_on(rest)) throw;
    refuse(place, "", {}, "the record goes on after this line, but a record is one line (JSON lines)",
           "write it on one line: jq -c . FILE, or jq -c '.[]' FILE for a list of records");
  }
}

bool listed(const std::vector<std::string>& list, const std::string& word) {
  return list.empty() || std::find(list.begin(), list.end(), word) != list.end();
}

void require_known_sets(const std::string& option, const std::vector<std::string>& wanted, const std::vector<std::string>& found) {
  for (const std::string& set : wanted)
    if (std::find(found.begin(), found.end(), set) == found.end())
      throw ConfigError(Problem{"", option, set, "no measurement file of this name was given", "given are " + list_text(found)});
}

void require_known_grades(const std::vector<std::string>& wanted) {
  for (const std::string& grade : wanted)
    if (grade != "A" && grade != "B" && grade != "C")
      throw ConfigError(Problem{"", "--grade", grade, "is no grade of a measurement", "use A, B or C"});
}

}  // namespace

std::string unread_text(const std::vector<Measurement>& measurements) {
  std::vector<std::string> keys;
  for (const Measurement& m : measurements)
    for (const std::string& key : m.unread)
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  return keys.empty() ? "" : "keys of records that are not read: " + shortened(list_text(keys), 200);
}

std::vector<Measurement> read_measurements(const std::string& path) {
  const std::string set = std::filesystem::path(path).stem().string();
  const std::string text = read_text(path);
  std::istringstream lines(text);
  std::vector<Measurement> out;
  std::string line;
  std::size_t start = 0, next = 0;  // of this line and the next one in `text`
  for (int number = 1; std::getline(lines, line); ++number) {
    start = next, next += line.size() + 1;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string place = path + ":" + std::to_string(number);
    try {
      out.push_back(measurement(parse_line(line, std::string_view(text).substr(start), place), set, place));
      find_own_cluster(out.back(), path);
    } catch (const json::exception& e) {
      throw ConfigError(Problem{place, "", "", std::string("is no measurement record: ") + e.what(), kForm});
    }
  }
  if (out.empty()) throw ConfigError(Problem{path, "", "", "holds no measurement record", kForm});
  return out;
}

std::vector<Measurement> read_measurements(const std::vector<std::string>& paths, const MeasurementFilter& filter) {
  std::vector<std::string> sets;
  for (const std::string& path : paths) sets.push_back(std::filesystem::path(path).stem().string());
  require_known_sets("--only", filter.sets, sets);
  require_known_sets("--exclude", filter.excluded, sets);
  for (const auto& [set, preset] : filter.clusters) {
    require_known_sets("--cluster", {set}, sets);
    load_cluster(preset);
  }
  require_known_grades(filter.grades);
  std::vector<Measurement> out;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!listed(filter.sets, sets[i]) || (!filter.excluded.empty() && listed(filter.excluded, sets[i]))) continue;
    for (Measurement& m : read_measurements(paths[i])) {
      if (!listed(filter.grades, m.grade)) continue;
      if (const auto told = filter.clusters.find(m.set); told != filter.clusters.end()) move(m, told->second);
      out.push_back(std::move(m));
    }
  }
  return out;
}

}  // namespace tandem::program
