#include "experiments/program/validation.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

#include <nlohmann/json.hpp>

#include "experiments/program/rehearsal.hpp"
#include "models/base/json.hpp"
#include "sim/simulate.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;

std::optional<double> number(const json& object, const char* key) {
  return object.contains(key) && object[key].is_number() ? std::optional(object[key].get<double>()) : std::nullopt;
}

Measurement measurement(const json& record, const std::string& set) {
  const json& measured = record.at("measured");
  return {record.at("id"),
          set,
          record.at("plan").dump(),
          number(measured, "step_time_s"),
          number(measured, "peak_memory_bytes"),
          measured.value("peak_memory_kind", ""),
          measured.value("peak_memory_rank", "heaviest")};
}

/// The figure of a role that the measuring tool would have shown.
Bytes as_measured(const RolePrediction& role, const std::string& kind) {
  if (kind == "device") return role.peak_memory_bytes;
  return kind == "reserved" ? role.arena_bytes : role.live_peak_bytes;
}

double peak_memory(const Prediction& p, const Measurement& m, std::int64_t last_stage) {
  Bytes peak;
  for (const RolePrediction& role : p.roles)
    if (m.memory_rank != "last_stage" || role.coords[Axis::pp] == last_stage)
      peak = std::max(peak, as_measured(role, m.memory_kind));
  return static_cast<double>(peak.count());
}

void predict(ValidatedRecord& out) {
  const Measurement& m = out.measured;
  const Plan plan = parse_plan(m.plan_json, m.id);
  require_lowerable(plan);
  const TaskGraph graph = lower(plan);
  const Prediction p = sim::simulate(plan, graph, *topology_of(plan, ""));
  out.step_time_s = p.step_time.seconds();
  if (m.peak_memory_bytes) out.peak_memory_bytes = peak_memory(p, m, plan.parallel.pipeline - 1);
  out.fits = p.fits;
}

}  // namespace

std::vector<Measurement> read_measurements(const std::string& path) {
  const std::string set = std::filesystem::path(path).stem().string();
  std::istringstream lines(read_text(path));
  std::vector<Measurement> out;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    const std::string place = path + ":" + std::to_string(number);
    try {
      out.push_back(measurement(parse_json(line, place), set));
    } catch (const json::exception& e) {
      throw ConfigError(Problem{place, "", "", std::string("is no measurement record: ") + e.what(),
                                "give JSON lines with id, plan and measured"});
    }
  }
  return out;
}

ValidatedRecord validate(const Measurement& measurement) {
  ValidatedRecord out;
  out.measured = measurement;
  try {
    predict(out);
  } catch (const ConfigError& e) {
    out.refused = e.problems().front().message();
  }
  return out;
}

}  // namespace tandem::program
