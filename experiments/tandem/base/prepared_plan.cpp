#include "experiments/tandem/base/prepared_plan.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "experiments/tandem/base/fields.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "models/base/files.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "reports/prediction/cost_table.hpp"
#include "sim/cost/product_table.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {

namespace {

/// True if a measured table describes the plan's devices.
bool describes(const CostTable& table, const Plan& plan, const Topology& topology) {
  return table.device == plan.cluster.preset || sim::describes(table.device, topology.device());
}

bool lacks(const CostTable& table, DType type) {
  if (table.of_accelerator() || table.samples.empty()) return false;
  return std::none_of(table.samples.begin(), table.samples.end(), [&](const CostSample& s) { return s.dtype == type; });
}

/// The type of a CPU's table if it lacks the plan's type; else "".
std::string other_type(const CostTable& table, DType compute) {
  return lacks(table, compute) ? std::string(name(table.samples.front().dtype)) : "";
}

std::string unmeasured(DType compute) {
  return "the plan computes in " + std::string(name(compute)) + ", in which nothing was measured";
}

/// Whether sums of gradients and the update of such plans are in fp32.
bool is_narrow(DType compute) { return compute == DType::bf16 || compute == DType::fp16; }

std::string remedy(DType compute) {
  return "run tandem measure --precision " + std::string(is_narrow(compute) ? "fp32," : "") + std::string(name(compute)) + " -o F, and give --cost-table F";
}

void tell_missing_fp32(const std::string& path, const CostTable& table, DType compute) {
  if (is_narrow(compute) && !lacks(table, compute) && lacks(table, DType::fp32))
    log(path + ": was not measured in fp32, which the plan also needs: those costs are a roofline of unverified facts; " + remedy(compute));
}

void require_described(const std::string& path, const Plan& plan, const Topology& topology) {
  const CostTable table = load_cost_table(path);
  if (!describes(table, plan, topology))
    throw ConfigError(Problem{path, "device", table.device, "the plan runs on " + plan.cluster.preset,
                              "give a table that was measured there, or none"});
  const DType compute = plan.training.dtypes.compute;
  if (const std::string type = other_type(table, compute); !type.empty())
    throw ConfigError(Problem{path, "entries", type, unmeasured(compute), remedy(compute)});
  tell_missing_fp32(path, table, compute);
}

/// The plan file's text with the perturbation inserted.
std::string with_perturbation(const std::string& path, const std::string& perturbation) {
  nlohmann::json plan = read_json(path);
  const bool in_place = perturbation.find_first_not_of(" \t\r\n") == perturbation.find('{');
  if (plan.is_object()) study::set_field(plan, "cluster.perturbation", in_place ? parse_json(perturbation, "--perturb") : read_json(perturbation));
  return plan.dump();
}

}  // namespace

std::optional<StackChoice> chosen_stack(const std::string& stack) {
  return stack.empty() ? std::nullopt : std::optional(parse_stack_choice(stack));
}

void require_plan_file(const std::string& path) {
  if (is_preset_path(path) || file_exists(path) || find_preset("models/presets", path).empty()) return;
  throw ConfigError(Problem{path, "", "", "is a model preset, and no plan file",
                            "name it as \"model\": {\"preset\": \"" + path + "\"} of a plan, or have one made: tandem search " + path +
                                " --cluster NAME --devices N --out plan.json"});
}

PreparedPlan prepare(const std::string& path, const std::string& perturbation, const std::string& stack) {
  require_plan_file(path);
  return prepare_text(perturbation.empty() ? read_text(path) : with_perturbation(path, perturbation), path, stack);
}

PreparedPlan prepare_text(const std::string& text, const std::string& path, const std::string& stack) {
  Plan plan = parse_plan(text, path, chosen_stack(stack));
  TaskGraph graph = naming(path, [&] { return require_lowerable(plan), lower(plan); });
  return {std::move(plan), std::move(graph)};
}

std::shared_ptr<const Topology> topology_of(const Plan& plan, const std::string& cost_table) {
  const auto plain = naming(plan.file, [&] { return make_topology(plan.cluster); });
  if (cost_table.empty()) return plain;
  require_described(cost_table, plan, *plain);
  return make_topology(plan.cluster, absolute_path(cost_table));
}

void tell_other_type(const Plan& plan, const Topology& topology) {
  const std::string& table = topology.device().cost_table;
  const DType compute = plan.training.dtypes.compute;
  if (table.empty() || is_preset_path(table) || !file_exists(measured_table_path(table))) return;
  const std::string path = measured_table_path(table);
  const CostTable measured = load_cost_table(path);
  tell_missing_fp32(path, measured, compute);
  if (const std::string type = other_type(measured, compute); !type.empty())
    log(path + ": was measured in " + type + "; " + unmeasured(compute) + ": costs are a roofline of unverified facts; " + remedy(compute));
}

std::string measured_table(const Plan& plan, const Topology& topology, const Prediction& prediction) {
  if (prediction.measured_products) return prediction.measured_products->table;
  const std::string& table = topology.device().cost_table;
  if (table.empty()) return "";
  const std::string path = is_preset_path(table) ? table : measured_table_path(table);
  return file_exists(path) && other_type(load_cost_table(path), plan.training.dtypes.compute).empty() ? table : "";
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
