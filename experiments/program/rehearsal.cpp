#include "experiments/program/rehearsal.hpp"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "experiments/study/fields.hpp"
#include "models/base/json.hpp"
#include "reports/cost_table.hpp"
#include "sim/product_table.hpp"

namespace tandem::program {

namespace {

/// Whether a measured table is about the devices of a plan.
bool describes(const CostTable& table, const Plan& plan, const Topology& topology) {
  return table.device == plan.cluster.preset || sim::describes(table, topology.device());
}

void require_described(const std::string& path, const Plan& plan, const Topology& topology) {
  const CostTable table = load_cost_table(path);
  if (describes(table, plan, topology)) return;
  throw ConfigError(Problem{path, "device", table.device, "the plan runs on " + plan.cluster.preset,
                            "give a table that was measured there, or none"});
}

/// The plan file with the perturbation in it.
std::string with_perturbation(const std::string& path, const std::string& perturbation) {
  nlohmann::json plan = read_json(path);
  const bool in_place = perturbation.find_first_not_of(" \t\r\n") == perturbation.find('{');
  if (plan.is_object()) study::set_field(plan, "cluster.perturbation", in_place ? parse_json(perturbation, "--perturb") : read_json(perturbation));
  return plan.dump();
}

}  // namespace

Rehearsal prepare(const std::string& path, const std::string& perturbation) {
  Plan plan = perturbation.empty() ? load_plan(path) : parse_plan(with_perturbation(path, perturbation), path);
  TaskGraph graph = naming(path, [&] { return require_lowerable(plan), lower(plan); });
  return {std::move(plan), std::move(graph)};
}

std::shared_ptr<const Topology> topology_of(const Plan& plan, const std::string& cost_table) {
  const auto plain = naming(plan.file, [&] { return make_topology(plan.cluster); });
  if (cost_table.empty()) return plain;
  require_described(cost_table, plan, *plain);
  return make_topology(plan.cluster, std::filesystem::absolute(cost_table).string());
}

Timeline timeline_of(const Prediction& prediction) {
  require(prediction.timeline != nullptr, "a timeline was asked for and is missing");
  std::map<std::int32_t, Bytes> arena;
  for (const RolePrediction& role : prediction.roles) arena[role.ranks.front()] = role.arena_bytes;
  Timeline out = *prediction.timeline;
  for (Lane& lane : out.lanes) lane.arena_bytes = arena.at(lane.ranks.front());
  return out;
}

}  // namespace tandem::program
