#include "experiments/tandem/import/log_measurements.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "models/base/error.hpp"

namespace tandem::import {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr std::string_view kStepTime = "elapsed time per iteration (ms):", kAllocated = "max allocated:";
constexpr std::size_t kLongestNumber = 40;  // with the blanks before it

/// The positive numbers behind every `key` of a text.
std::vector<double> numbers_behind(std::string_view text, std::string_view key) {
  std::vector<double> out;
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at)) {
    at += key.size();
    const std::size_t digits = std::min(text.find_first_not_of(' ', at), text.size());
    double value = 0;
    const auto [end, error] = std::from_chars(text.data() + digits, text.data() + text.size(), value);
    if (error == std::errc() && value > 0 && value < 1e15) out.push_back(value);
  }
  return out;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

LogMeasurements measurements_of(std::string_view log) {
  std::vector<double> times = numbers_behind(log, kStepTime);
  if (times.size() > 1) times.erase(times.begin());
  LogMeasurements out;
  out.lines = static_cast<std::int64_t>(times.size());
  if (!times.empty()) out.step_time_s = median(times) / 1e3;
  for (const double mib : numbers_behind(log, kAllocated)) out.max_allocated_bytes = std::max(out.max_allocated_bytes, mib * kMiB);
  return out;
}

std::string measured_parts(std::string_view line) {
  std::string out;
  for (const std::string_view key : {kStepTime, kAllocated})
    for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + key.size()))
      out.append(line.substr(at, key.size() + kLongestNumber)).append("\n");
  return out;
}

nlohmann::ordered_json measurement_record(const nlohmann::ordered_json& plan, const LogMeasurements& m, const std::string& file) {
  if (m.lines == 0)
    throw ConfigError(Problem{file, "elapsed time per iteration (ms)", "", "is not in the file: nothing was measured",
                              "give the log of a run, or leave out --record"});
  nlohmann::ordered_json measured = {{"step_time_s", m.step_time_s}};
  if (m.max_allocated_bytes > 0) {
    measured["peak_memory_bytes"] = static_cast<std::int64_t>(m.max_allocated_bytes);
    measured["peak_memory_kind"] = "allocated";
  }
  return {{"id", plan.at("name")}, {"source", file}, {"plan", plan}, {"measured", measured},
          {"notes", "The step time is the median of " + std::to_string(m.lines) + (m.lines == 1 ? " line" : " lines") + " of the log."}};
}

}  // namespace tandem::import
