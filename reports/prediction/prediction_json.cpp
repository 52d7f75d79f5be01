#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "models/plan/active_parameters.hpp"
#include "models/plan/plan.hpp"
#include "reports/prediction/prediction.hpp"
#include "reports/prediction/step_rates.hpp"

namespace tandem {

namespace {

using nlohmann::json;

json by_kind(const BytesByKind& bytes) {
  json out = json::object();
  for (std::size_t k = 0; k < kMemoryKinds; ++k) out[std::string(name(static_cast<MemoryKind>(k)))] = bytes[k].count();
  return out;
}

json coords_json(const Coords& c) {
  return {{"tp", c[Axis::tp]}, {"cp", c[Axis::cp]}, {"ep", c[Axis::ep]}, {"dp", c[Axis::dp]}, {"pp", c[Axis::pp]}};
}

json memory_fields(const RolePrediction& r) {
  return {{"peak_memory_bytes", r.peak_memory_bytes.count()},
          {"arena_bytes", r.arena_bytes.count()},
          {"live_peak_bytes", r.live_peak_bytes.count()},
          {"needed_bytes", r.needed_bytes.count()},
          {"memory_bytes", by_kind(r.memory_bytes)}};
}

json range_json(const StepRange& r) {
  return {{"low_s", r.low_s}, {"high_s", r.high_s}, {"share", r.share}, {"basis", r.basis}, {"wider", r.wider}};
}

json role_json(const RolePrediction& r) {
  json out = memory_fields(r);
  out["coords"] = coords_json(r.coords);
  out["ranks"] = r.ranks.size();
  out["first_rank"] = r.ranks.front();
  out["time_breakdown_s"] = r.time_breakdown_s;
  return out;
}

json products_json(const ProductCoverage& c) {
  json missing = json::array();
  for (const UncoveredProduct& p : c.not_covered)
    missing.push_back({{"product", p.product}, {"type", p.type}, {"batch", p.batch}, {"m", p.m}, {"n", p.n}, {"k", p.k},
                       {"accumulate", p.accumulate}, {"share", p.share}});
  return {{"table", c.table}, {"card", c.card}, {"date", c.date}, {"source", c.source}, {"shapes", c.shapes},
          {"share", c.share}, {"not_covered", missing}};
}

json spread_json(const StepSpread& s) {
  return {{"seeds", s.seeds}, {"mean_s", s.mean_s}, {"deviation_s", s.deviation_s}, {"low_s", s.low_s}, {"high_s", s.high_s}};
}

json perturbation_json(const PerturbationCost& cost, Duration step) {
  json out = {{"undisturbed_step_time_s", cost.undisturbed.seconds()},
              {"added_s", (step - cost.undisturbed).seconds()},
              {"changes", cost.changes}};
  if (cost.spread.seeds > 0) out["step_time_over_seeds"] = spread_json(cost.spread);
  return out;
}

json samples_json(const RolePrediction& r) {
  json samples = json::array();
  for (const MemorySample& s : r.memory_over_time) {
    json row = {s.at.seconds()};
    for (Bytes b : s.live) row.push_back(b.count());
    samples.push_back(std::move(row));
  }
  return samples;
}

}  // namespace

std::vector<std::pair<const char*, double>> step_rates(const Prediction& p) {
  return {{"tokens_per_s", p.tokens_per_s},
          {"samples_per_s", p.samples_per_s},
          {"model_tflops_per_device", p.model_tflops_per_device},
          {"hardware_tflops_per_device", p.hardware_tflops_per_device},
          {"mfu", p.mfu},
          {"hfu", p.hfu},
          {"bubble_fraction", p.bubble_fraction}};
}

std::string to_json(const Prediction& p, const Plan& plan) {
  require(p.heaviest_role < p.roles.size() && p.critical_role < p.roles.size(), "a prediction without its roles");
  json out = memory_fields(p.roles[p.heaviest_role]);
  out["needed_bytes"] = p.roles[neediest_role(p)].needed_bytes.count();
  out["live_peak_bytes"] = p.roles[fullest_role(p)].live_peak_bytes.count();
  out["schema_version"] = 1;
  out["step_time_s"] = p.step_time.seconds();
  out["makespan_s"] = p.makespan.seconds();
  out["step_time_range"] = range_json(p.range);
  for (const auto& [key, rate] : step_rates(p)) out[key] = rate;
  out["device_memory_bytes"] = p.device_memory.count();
  out["fits"] = p.fits;
  out["time_breakdown_s"] = p.roles[p.critical_role].time_breakdown_s;
  if (p.perturbation) out["perturbation"] = perturbation_json(*p.perturbation, p.step_time);
  out["ranks"] = p.ranks;
  if (has_active_parameters(plan.model)) out["active_parameters"] = active_parameters(plan.model);
  if (const std::int64_t adapters = trained_in_adapters(plan); adapters > 0) out["trained_parameters"] = adapters;
  out["roles"] = json::array();
  for (const RolePrediction& r : p.roles) out["roles"].push_back(role_json(r));
  if (p.measured_products) out["measured_products"] = products_json(*p.measured_products);
  out["notes"] = p.notes;
  out["plan"] = json::parse(to_json(plan, -1));
  return out.dump(2) + "\n";
}

std::string memory_json(const Prediction& p, const Plan& plan) {
  json columns = {"at_s"};
  for (std::size_t k = 0; k < kMemoryKinds; ++k) columns.push_back(name(static_cast<MemoryKind>(k)));
  json roles = json::array();
  for (const RolePrediction& r : p.roles)
    if (!r.memory_over_time.empty())
      roles.push_back({{"coords", coords_json(r.coords)}, {"ranks", r.ranks}, {"samples", samples_json(r)}});
  const json out = {{"schema_version", 1},
                    {"what", "tandem memory"},
                    {"heaviest_role", p.heaviest_role},
                    {"step_time_s", p.step_time.seconds()},
                    {"columns", std::move(columns)},
                    {"roles", std::move(roles)},
                    {"plan", json::parse(to_json(plan, -1))}};
  return out.dump() + "\n";
}

}  // namespace tandem
