#include "experiments/tandem/study/outcome.hpp"

#include <new>
#include <nlohmann/json.hpp>

#include "experiments/tandem/base/error_report.hpp"
#include "experiments/tandem/planning/assessment.hpp"
#include "experiments/tandem/planning/rent.hpp"
#include "models/base/files.hpp"
#include "models/base/fnv.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "reports/prediction/step_rates.hpp"
#include "sim/cost/caveat.hpp"
#include "sim/result/error_book.hpp"
#include "sim/result/host_memory_note.hpp"
#include "sim/result/simulate.hpp"
#include "topology/plan_reader.hpp"
#include "topology/preset.hpp"

namespace tandem::study {

namespace {

using nlohmann::ordered_json;

ordered_json layout(const Plan& plan) {
  const ParallelSpec& p = plan.parallel;
  const nlohmann::json whole = nlohmann::json::parse(to_json(plan, -1));
  const nlohmann::json &parallel = whole.at("parallel"), &training = whole.at("training");
  ordered_json out = {{"model", plan.model.name}, {"cluster", plan.cluster.preset}, {"devices", plan.cluster.devices},
                      {"tensor", p.tensor},       {"pipeline", p.pipeline},         {"data", p.data}};
  for (const char* key : {"context", "expert", "virtual_pipeline", "schedule", "zero_stage"})
    if (parallel.contains(key)) out[key] = parallel[key];
  for (const char* key : {"micro_batch_size", "global_batch_size", "seq_length", "precision", "recompute"})
    if (training.contains(key)) out[key] = training[key];
  return out;
}

ordered_json by_kind(const BytesByKind& bytes) {
  ordered_json out = ordered_json::object();
  for (std::size_t k = 0; k < kMemoryKinds; ++k)
    out[std::string(tandem::name(static_cast<MemoryKind>(k)))] = bytes[k].count();
  return out;
}

void add_prediction(ordered_json& row, const Prediction& p, std::int64_t ranks_per_device) {
  const RolePrediction& heaviest = p.roles[p.heaviest_role];
  row["step_time_s"] = p.step_time.seconds();
  row["step_time_low_s"] = p.range.low_s;
  row["step_time_high_s"] = p.range.high_s;
  row["step_time_wider"] = p.range.wider;
  if (p.perturbation) row["undisturbed_step_time_s"] = p.perturbation->undisturbed.seconds();
  for (const auto& [key, rate] : step_rates(p)) row[key] = rate;
  row["fits"] = p.fits;
  row["peak_memory_bytes"] = heaviest.peak_memory_bytes.count();
  row["needed_bytes"] = planning::needed_on_device(p, ranks_per_device);
  row["device_memory_bytes"] = p.device_memory.count();
  row["time_breakdown_s"] = p.roles[p.critical_role].time_breakdown_s;
  row["memory_bytes"] = by_kind(heaviest.memory_bytes);
}

void settle(ordered_json& row, Status status, const std::string& reason) {
  row["status"] = name(status);
  row["reason"] = reason;
}

void predict(ordered_json& row, const Point& point, const std::string& file) {
  const Plan plan = parse_plan(point.plan, file);
  row["stack"] = plan.stack.name + " as of " + text_of(plan.stack.as_of);
  row["layout"] = layout(plan);
  require_lowerable(plan);
  const TaskGraph graph = lower(plan);
  planning::Assessment place;
  place.plan = plan;
  planning::find_place(place);
  const auto& topology = place.topology;
  sim::SimulateOptions options;
  options.seeds_at_once = 1;  // the plans use the threads
  options.every_breakdown = false;
  const Prediction p = sim::simulate(plan, graph, *topology, options);
  settle(row, p.fits ? Status::ok : Status::too_large,
         p.fits ? "" : "does not fit " + sim::lacking_memory(p, topology->device()));
  add_prediction(row, p, plan.cluster.ranks_per_device);
  if (sim::is_bound(*topology)) row["step_time_bound"] = true;
  row["device_note"] = sim::caveat_note(topology->device());
  row["idle_devices"] = planning::rented_devices(place, std::nullopt, 0).idle;
}

void add_files(std::string& text, std::string_view folder) {
  for (const std::string& preset : preset_names(folder)) text += preset + read_text(look_for_data_file(folder, preset + ".json"));
}

/// Converts problems of a plan, or of files that it names, to problems of the study.
std::vector<Problem> in_study(const std::string& file, const std::string& at, std::vector<Problem> problems) {
  for (Problem& p : problems) {
    const std::string place = p.file.empty() || p.file == file ? "" : p.file + (p.field.empty() ? "" : ": ");
    p.file = file;
    p.field = "plan at " + at + ": " + place + p.field;
  }
  return problems;
}

/// The text of a user's own file, followed by the files that it names for parts of a cluster, down to `depth`.
std::string with_parts(const std::string& path, int depth) {
  std::string text = read_text(path);
  if (depth == 0) return text;
  const auto add = [&](const nlohmann::json& of, const char* key) {
    const bool named = of.is_object() && of.contains(key) && of[key].is_string();
    if (named && is_preset_path(of[key].get<std::string>())) text += with_parts(beside(of[key], path), depth - 1);
  };
  const nlohmann::json file = parse_json(text, path);
  const nlohmann::json device = file.is_object() ? file.value("device", nlohmann::json()) : nlohmann::json();
  for (const char* key : {"node", "device", "calibration", "measured", "cost_table"}) add(file, key), add(device, key);
  return text;
}

/// The texts of a user's own cluster, its device and their parts, because a key must depend on them.
std::string own_cluster(const Plan& plan) {
  return is_preset_path(plan.cluster.preset) ? with_parts(cluster_file(plan.cluster.preset), 2) : "";
}

}  // namespace

std::string_view name(Status s) {
  constexpr std::string_view names[] = {"ok", "too large", "infeasible", "refused", "failed"};
  return names[static_cast<std::size_t>(s)];
}

std::string digest(std::string_view text) {
  std::uint64_t hash = fnv1a(text);
  std::string out(16, '0');
  for (std::size_t i = 16; i-- > 0; hash >>= 4) out[i] = "0123456789abcdef"[hash & 15];
  return out;
}

namespace {

/// A hash of all presets, calibrations and errors that predictions use.
std::string presets_digest() {
  std::string text;
  for (const char* folder :
       {"topology/presets", "topology/presets/nodes", "topology/presets/devices", "topology/calibration",
        "topology/measured", "topology/errors", "models/stacks", "models/stacks/fusions"})
    add_files(text, folder);
  return digest(text);
}

}  // namespace

std::string program_digest() {
  const std::string self = "/proc/self/exe";
  const bool readable = why_unreadable(self).empty();
  const std::string build = readable ? digest(read_text(self, std::size_t{1} << 32)) : std::string();
  return digest(TANDEM_VERSION + presets_digest() + build);
}

std::string whole_text(const Plan& plan) { return to_json(plan, -1) + own_cluster(plan); }

Candidate candidate(const Study& study, std::size_t index, const std::string& program) {
  const Point& point = study.points[index];
  Candidate out;
  out.point = index;
  std::string text = point.plan;
  try {
    if (!point.impossible.empty())
      throw InfeasibleError(Problem{"", "parallel.data", "", point.impossible, "use others"});
    const Plan plan = parse_plan(point.plan, study.file);
    text = whole_text(plan);
  } catch (const InfeasibleError& e) {
    out.refusal = program::reasons(e);
  } catch (const ConfigError& e) {
    throw ConfigError(in_study(study.file, point.at, e.problems()));
  }
  out.key = digest(text + point.impossible + program);
  return out;
}

std::string evaluate(const Study& study, const Candidate& c) {
  const Point& point = study.points[c.point];
  ordered_json row = {{"key", c.key}, {"at", ordered_json::parse(point.at)}, {"status", ""}, {"reason", ""}};
  if (!c.refusal.empty()) {
    settle(row, Status::infeasible, c.refusal);
    return row.dump();
  }
  try {
    predict(row, point, study.file);
  } catch (const InfeasibleError& e) {
    settle(row, Status::infeasible, program::reasons(e));
  } catch (const ConfigError& e) {
    settle(row, Status::refused, program::reasons(e));
  } catch (const std::bad_alloc&) {
    throw;  // not the plan's fault
  } catch (const std::exception& e) {
    settle(row, Status::failed, e.what());
  }
  return row.dump();
}

}  // namespace tandem::study
