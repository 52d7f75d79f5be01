#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "reports/compare/compare.hpp"
#include "reports/prediction/text.hpp"

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

/// What the two sides and their difference are called.
struct Words {
  std::string first, second, difference;
};

Words words(const Comparison& c) {
  return of_one_performer(c) ? Words{"new", "baseline", "change"} : Words{"simulated", "executed", "error"};
}

json object(const CompareLine& line, const Words& w) {
  return {{"what", line.what},
          {"tasks", line.tasks},
          {w.first + "_s", line.simulated.seconds()},
          {w.second + "_s", line.executed.seconds()},
          {w.difference, error_value(line.error)}};
}

json objects(const std::vector<CompareLine>& lines, const Words& w) {
  json out = json::array();
  for (const CompareLine& line : lines) out.push_back(object(line, w));
  return out;
}

}  // namespace

std::string to_text(const Comparison& c) {
  const Words w = words(c);
  std::string out = padded("per rank and step", 28) + aligned("tasks", 10) + aligned(w.first, 13) + aligned(w.second, 13) +
                    aligned(w.difference, 11) + "\n" + row(c.step) + row(c.waiting);
  out += section("by operation", c.kinds) + section("by stage", c.stages) + section("by collective", c.collectives);
  out += "\nmemory, arena of the heaviest rank: " + w.first + " " + bytes_text(c.simulated_peak_bytes) + ", " + w.second + " " +
         bytes_text(c.executed_peak_bytes) + ", " + w.difference + " " + percent_text(c.memory_error) + "\n";
  out += "tasks joined " + std::to_string(c.joined) + ", only " + w.first + " " + std::to_string(c.only_simulated) + ", only " +
         w.second + " " + std::to_string(c.only_executed) + "\n";
  return out;
}

std::string to_json(const Comparison& c) {
  const Words w = words(c);
  const json out = {{"schema_version", 1},
                    {"step", object(c.step, w)},
                    {"waiting", object(c.waiting, w)},
                    {"kinds", objects(c.kinds, w)},
                    {"stages", objects(c.stages, w)},
                    {"collectives", objects(c.collectives, w)},
                    {"operations", objects(c.operations, w)},
                    {"tasks", {{"joined", c.joined}, {"only_" + w.first, c.only_simulated}, {"only_" + w.second, c.only_executed}}},
                    {"memory",
                     {{w.first + "_peak_bytes", c.simulated_peak_bytes},
                      {w.second + "_peak_bytes", c.executed_peak_bytes},
                      {w.difference, error_value(c.memory_error)}}}};
  return out.dump(2) + "\n";
}

}  // namespace tandem
