#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "reports/compare.hpp"
#include "reports/text.hpp"

namespace tandem {

namespace {

using nlohmann::json;

std::string row(const CompareLine& line) {
  const std::string tasks = line.tasks ? std::to_string(line.tasks) : "";
  return padded(line.what, 28) + aligned(tasks, 10) + aligned(time_text(line.simulated.seconds()), 13) +
         aligned(time_text(line.executed.seconds()), 13) + aligned(percent_text(line.error), 11) + "\n";
}

std::string section(const std::string& title, const std::vector<CompareLine>& lines) {
  std::string out = lines.empty() ? "" : "\n" + title + "\n";
  for (const CompareLine& line : lines) out += row(line);
  return out;
}

/// JSON has no infinity: an error against nothing executed is null.
json error_value(double error) { return std::isfinite(error) ? json(error) : json(nullptr); }

json object(const CompareLine& line) {
  return {{"what", line.what},
          {"tasks", line.tasks},
          {"simulated_s", line.simulated.seconds()},
          {"executed_s", line.executed.seconds()},
          {"error", error_value(line.error)}};
}

json objects(const std::vector<CompareLine>& lines) {
  json out = json::array();
  for (const CompareLine& line : lines) out.push_back(object(line));
  return out;
}

}  // namespace

std::string to_text(const Comparison& c) {
  std::string out = padded("per rank and step", 28) + aligned("tasks", 10) + aligned("simulated", 13) +
                    aligned("executed", 13) + aligned("error", 11) + "\n" + row(c.step);
  out += section("by operation", c.kinds) + section("by stage", c.stages) + section("by collective", c.collectives);
  out += "\nmemory, arena of the heaviest rank: simulated " + bytes_text(c.simulated_peak_bytes) + ", executed " +
         bytes_text(c.executed_peak_bytes) + ", error " + percent_text(c.memory_error) + "\n";
  out += "tasks joined " + std::to_string(c.joined) + ", only simulated " + std::to_string(c.only_simulated) +
         ", only executed " + std::to_string(c.only_executed) + "\n";
  return out;
}

std::string to_json(const Comparison& c) {
  const json out = {{"schema_version", 1},
                    {"step", object(c.step)},
                    {"kinds", objects(c.kinds)},
                    {"stages", objects(c.stages)},
                    {"collectives", objects(c.collectives)},
                    {"tasks", {{"joined", c.joined}, {"only_simulated", c.only_simulated}, {"only_executed", c.only_executed}}},
                    {"memory",
                     {{"simulated_peak_bytes", c.simulated_peak_bytes},
                      {"executed_peak_bytes", c.executed_peak_bytes},
                      {"error", error_value(c.memory_error)}}}};
  return out.dump(2) + "\n";
}

}  // namespace tandem
