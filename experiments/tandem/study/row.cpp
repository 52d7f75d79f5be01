#include "experiments/tandem/study/row.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "experiments/tandem/study/outcome.hpp"
#include "models/base/json.hpp"

namespace tandem::study {

namespace {

using nlohmann::json;

constexpr std::string_view kBefore = ",\"checksum\":\"", kBehind = "\"}";
constexpr std::size_t kDigits = 16;
constexpr std::size_t kTail = kBefore.size() + kDigits + kBehind.size();

using Kind = bool (*)(const json&);

bool is_text(const json& v) { return v.is_string(); }
bool is_number(const json& v) { return v.is_number(); }
bool is_truth(const json& v) { return v.is_boolean(); }
bool is_object(const json& v) { return v.is_object(); }
bool is_numbers(const json& v) {
  return v.is_object() && std::all_of(v.begin(), v.end(), [](const json& n) { return n.is_number(); });
}

struct Member {
  const char* key;
  Kind kind;
};

constexpr Member kEvery[] = {{"key", is_text}, {"at", is_object}, {"status", is_text}, {"reason", is_text}};

constexpr Member kPredicted[] = {
    {"stack", is_text},                 {"layout", is_object},              {"step_time_s", is_number},         {"step_time_low_s", is_number},
    {"step_time_high_s", is_number},    {"step_time_wider", is_text},       {"tokens_per_s", is_number},        {"samples_per_s", is_number},
    {"model_tflops_per_device", is_number}, {"hardware_tflops_per_device", is_number},
    {"mfu", is_number},                 {"hfu", is_number},                 {"bubble_fraction", is_number},
    {"fits", is_truth},                 {"peak_memory_bytes", is_number},   {"needed_bytes", is_number},
    {"device_memory_bytes", is_number}, {"time_breakdown_s", is_numbers},   {"memory_bytes", is_numbers},
    {"device_note", is_text},           {"idle_devices", is_number}};

/// Keys that only some rows have.
constexpr Member kOther[] = {{"stack", is_text},           {"layout", is_object},
                             {"undisturbed_step_time_s", is_number}, {"step_time_bound", is_truth},
                             {"training_days", is_number}, {"training_days_low", is_number},
                             {"training_days_high", is_number}, {"device_hours", is_number},
                             {"in_time", is_truth},        {"cost", is_number},
                             {"cost_without_idle", is_number}};

template <std::size_t N>
bool has_all(const json& row, const Member (&members)[N]) {
  return std::all_of(members, members + N, [&](const Member& m) { return row.contains(m.key) && m.kind(row[m.key]); });
}

/// True if a layout has the keys that a goal reads.
bool is_layout(const json& layout) {
  return layout.contains("cluster") && layout["cluster"].is_string() && layout.contains("devices") && layout["devices"].is_number();
}

std::optional<Status> status_of(const json& row) {
  for (Status s : {Status::ok, Status::too_large, Status::infeasible, Status::refused, Status::failed})
    if (row["status"] == name(s)) return s;
  return std::nullopt;
}

bool is_row(const json& row) {
  if (!row.is_object() || !has_all(row, kEvery)) return false;
  for (const Member& m : kOther)
    if (row.contains(m.key) && !m.kind(row[m.key])) return false;
  const std::optional<Status> status = status_of(row);
  if (!status) return false;
  const bool predicted = *status == Status::ok || *status == Status::too_large;
  return !predicted || (has_all(row, kPredicted) && is_layout(row["layout"]));
}

/// Checks the row even after a matching checksum, because anybody can compute one.
bool holds_row(const std::string& text) {
  try {
    return is_row(parse_json(text, "row"));
  } catch (const ConfigError&) {
    return false;
  }
}

}  // namespace

std::string sealed(const std::string& row) {
  return row.substr(0, row.size() - 1) + std::string(kBefore) + digest(row) + std::string(kBehind);
}

std::string unsealed(const std::string& line) {
  if (line.size() <= kTail) return "";
  const std::string row = line.substr(0, line.size() - kTail) + "}";
  return sealed(row) == line && holds_row(row) ? row : "";
}

bool has_rows(std::string_view log) {
  constexpr std::string_view kBeginning = "{\"key\":\"";
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string_view line = log.substr(at, end - at);
    if (!line.empty() && line.substr(0, kBeginning.size()) == kBeginning.substr(0, line.size())) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace tandem::study
