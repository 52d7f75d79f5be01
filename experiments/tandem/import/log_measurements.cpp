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
/// Of bigscience-workshop/Megatron-DeepSpeed: megatron/training.py.
constexpr std::string_view kStepSeconds = "elapsed time per iteration (s):";
constexpr std::string_view kBatch = "global batch size:";
constexpr std::size_t kLongestNumber = 40;  // with the blanks before it

/// The positive number at a place of a text, behind blanks; 0: there is none.
double number_at(std::string_view text, std::size_t at) {
  const std::size_t digits = std::min(text.find_first_not_of(' ', at), text.size());
  double value = 0;
  const auto [end, error] = std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return error == std::errc() && value > 0 && value < 1e15 ? value : 0;
}

/// The rest of the line at a place of a text.
std::string_view rest_of_line(std::string_view text, std::size_t at) { return text.substr(at, text.find('\n', at) - at); }

struct LoggedStep {
  std::size_t at = 0;   ///< place in the log
  double seconds = 0;
  double batch = 0;     ///< sequences; 0: the line does not say it
};

void add_steps(std::string_view log, std::string_view key, double units_a_second, std::vector<LoggedStep>& out) {
  for (std::size_t at = log.find(key); at != std::string_view::npos; at = log.find(key, at)) {
    at += key.size();
    const double value = number_at(log, at);
    const std::string_view rest = rest_of_line(log, at);
    const std::size_t batch = rest.find(kBatch);
    const double sequences = batch == std::string_view::npos ? 0 : number_at(rest, batch + kBatch.size());
    if (value > 0) out.push_back({at, value / units_a_second, sequences});
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct LogMeasurements {
  std::int64_t lines = 0;             ///< lines with a step time that count
  std::int64_t of_other_batches = 0;  ///< lines of a ramp-up, which do not
  double step_time_s = 0;             ///< median of those that count
  double max_allocated_bytes = 0;     ///< largest of the ranks that print it; 0: none does
};

LogMeasurements measurements_of(std::string_view log, std::int64_t global_batch) {
  std::vector<LoggedStep> steps;
  add_steps(log, kStepTime, 1e3, steps);
  add_steps(log, kStepSeconds, 1, steps);
  std::sort(steps.begin(), steps.end(), [](const LoggedStep& a, const LoggedStep& b) { return a.at < b.at; });
  if (steps.size() > 1) steps.erase(steps.begin());
  LogMeasurements out;
  std::vector<double> times;
  for (const LoggedStep& step : steps)
    if (step.batch == 0 || step.batch == static_cast<double>(global_batch)) times.push_back(step.seconds);
  out.lines = static_cast<std::int64_t>(times.size());
  out.of_other_batches = static_cast<std::int64_t>(steps.size() - times.size());
  if (!times.empty()) out.step_time_s = median(times);
  for (std::size_t at = log.find(kAllocated); at != std::string_view::npos; at = log.find(kAllocated, at)) {
    at += kAllocated.size();
    out.max_allocated_bytes = std::max(out.max_allocated_bytes, number_at(log, at) * kMiB);
  }
  return out;
}

}  // namespace

std::string measured_parts(std::string_view line) {
  std::string out;
  const auto keep = [&](std::size_t at, std::string_view key) { out.append(line.substr(at, key.size() + kLongestNumber)); };
  for (const std::string_view key : {kStepTime, kStepSeconds, kAllocated})
    for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + key.size())) {
      keep(at, key);
      const std::size_t batch = key == kAllocated ? std::string_view::npos : line.find(kBatch, at);
      if (batch != std::string_view::npos) keep(batch, kBatch);
      out.append("\n");
    }
  return out;
}

nlohmann::ordered_json measurement_record(const nlohmann::ordered_json& plan, std::string_view log, const std::string& file) {
  const std::int64_t batch = plan.at("training").at("global_batch_size").get<std::int64_t>();
  const LogMeasurements m = measurements_of(log, batch);
  if (m.lines == 0 && m.of_other_batches > 0)
    throw ConfigError(Problem{file, "global batch size", "", "no step has that of the plan, " + std::to_string(batch),
                              "give a log of steps behind the ramp-up, or leave out --record"});
  if (m.lines == 0)
    throw ConfigError(Problem{file, "elapsed time per iteration (ms)", "", "is not in the file: nothing was measured",
                              "give the log of a run, or leave out --record"});
  nlohmann::ordered_json measured = {{"step_time_s", m.step_time_s}};
  if (m.max_allocated_bytes > 0) {
    measured["peak_memory_bytes"] = static_cast<std::int64_t>(m.max_allocated_bytes);
    measured["peak_memory_kind"] = "allocated";
  }
  return {{"id", plan.at("name")}, {"source", file}, {"plan", plan}, {"measured", measured},
          {"notes", "The step time is the median of " + std::to_string(m.lines) + (m.lines == 1 ? " line" : " lines") + " of the log" +
                        (m.of_other_batches > 0 ? ", without " + std::to_string(m.of_other_batches) + " of other batches." : ".")}};
}

}  // namespace tandem::import
