#include "experiments/tandem/calibration/evaluator.hpp"

#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/base/files.hpp"
#include "models/base/output.hpp"
#include "models/base/presets.hpp"
#include "sim/result/simulate.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {

namespace {

/// Presets are compared by name, a user's own files by path.
bool same_calibration(const std::string& a, const std::string& b) {
  if (a == b || !is_preset_path(a) || !is_preset_path(b)) return a == b;
  const std::string whole = canonical_path(a);
  return !whole.empty() && whole == canonical_path(b);
}

/// nullopt if the record is not of this device.
std::optional<FitCase> fit_case(const Measurement& m, const std::string& calibration) {
  Plan plan = parse_plan(m.plan_json, m.id);
  auto topology = make_topology(plan.cluster);
  if (!same_calibration(topology->device().calibration, calibration)) return std::nullopt;
  require_lowerable(plan);
  TaskGraph graph = lower(plan);
  return FitCase{m.id, m.set, *m.step_time_s, std::move(plan), std::move(graph), std::move(topology)};
}

/// Calls `work` for every index. Throws FitStopped if stopped.
void for_all(std::size_t count, const Jobs& jobs, const std::function<void(std::size_t)>& work) {
  for_each_index(count, jobs, work);
  if (jobs.stop && jobs.stop()) throw FitStopped{};
}

/// A candidate is in another folder than the table of errors that its text may name. Its range is not asked for.
std::string without_error_table(const std::string& text) {
  nlohmann::ordered_json file = nlohmann::ordered_json::parse(text);
  file.erase("errors");
  return file.dump();
}

bool usable(const Measurement& m) { return m.grade != "C" && m.step_time_s && *m.step_time_s > 0; }

}  // namespace

FitCases fit_cases(const std::vector<Measurement>& measurements, const std::string& calibration, const Jobs& jobs) {
  std::vector<std::optional<FitCase>> found(measurements.size());
  std::vector<int> refused(measurements.size(), 0);
  for_all(measurements.size(), jobs, [&](std::size_t i) {
    if (!usable(measurements[i])) return;
    try {
      found[i] = fit_case(measurements[i], calibration);
    } catch (const ConfigError&) {
      refused[i] = 1;
    }
  });
  FitCases out;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i]) out.cases.push_back(std::move(*found[i]));
    out.refused += refused[i];
  }
  return out;
}

Evaluator::Evaluator(const std::vector<FitCase>& cases, const ConstantsFile& file, const Jobs& jobs)
    : cases_(cases), file_(file), jobs_(jobs),
      candidate_(temporary_folder() + "/tandem_calibrate_" + std::to_string(getpid()) + ".json") {}

Evaluator::~Evaluator() { remove_file(candidate_); }

LogErrors Evaluator::errors(const std::vector<double>& values, const std::vector<std::size_t>& which) {
  write_text(candidate_, without_error_table(file_.with(values)));
  LogErrors out(which.size());
  for_all(which.size(), jobs_, [&](std::size_t i) {
    const FitCase& c = cases_[which[i]];
    const auto topology = recalibrated(c.topology, candidate_);
    sim::SimulateOptions options;
    options.every_breakdown = false;
    out[i] = std::log(sim::simulate(c.plan, c.graph, *topology, options).step_time.seconds() / c.measured_s);
  });
  return out;
}

}  // namespace tandem::program
