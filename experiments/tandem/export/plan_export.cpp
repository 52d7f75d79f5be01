#include "experiments/tandem/export/plan_export.hpp"

#include <nlohmann/json.hpp>
#include <numeric>

#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "models/arguments/exported_options.hpp"
#include "models/base/output.hpp"
#include "models/base/text.hpp"
#include "topology/plan_reader.hpp"
#include "topology/preset.hpp"

namespace tandem::program {
namespace {

using nlohmann::ordered_json;

ordered_json as_json(const std::vector<arguments::ExportedOptions::Option>& options) {
  ordered_json out = ordered_json::array();
  for (const auto& [name, value] : options) out.push_back({{"option", name}, {"value", value.empty() ? ordered_json(true) : ordered_json(value)}});
  return out;
}

std::string to_json(const PlanExport& o, const arguments::ExportedOptions& made, const std::vector<std::string>& unsaid) {
  const ordered_json out = {{"schema_version", 1}, {"to", o.to}, {"environment", as_json(made.environment)}, {"launcher", as_json(made.launcher)}, {"program", made.program},
                            {"options", as_json(made.options)}, {"unsaid", unsaid}, {"elsewhere", made.elsewhere}, {"text", made.text}};
  return out.dump(2) + "\n";
}

std::vector<Problem> refusals(const PlanExport& o, const std::vector<std::string>& unsaid) {
  std::vector<Problem> out;
  for (const std::string& field : unsaid)
    out.push_back({o.plan, field.substr(0, field.find(':')), field.substr(field.find(' ') + 1), "no option of " + o.to + " says it",
                   "change it, or leave it out with --approximate"});
  return out;
}

/// Devices that a launcher counts as those of a node: a rack is many hosts.
std::int64_t launched_together(const Plan& plan, std::int64_t node) {
  const std::int64_t host = load_cluster(plan.cluster.preset).node.devices_per_host;
  return host > 0 ? std::gcd(node, host) : node;
}

}  // namespace

ExitCode export_plan(const PlanExport& o) {
  require_plan_file(o.plan);
  const Plan plan = load_plan(o.plan, chosen_stack(o.stack));
  const arguments::Table table = arguments::read_table(o.to, plan.stack.as_of);
  const std::int64_t node = topology_of(plan, "")->devices_per_node();
  const arguments::ExportedOptions made = arguments::export_plan(plan, table, launched_together(plan, node), node);
  const std::vector<std::string> unsaid = arguments::unsaid_fields(plan, made, table, PlanContext{generation_of});
  prepare_outputs({o.out}, {o.plan});
  if (o.json) print_json(to_json(o, made, unsaid));
  if (!unsaid.empty() && !o.approximate) throw InfeasibleError(refusals(o, unsaid));
  for (const std::string& field : unsaid) log("no option of " + o.to + " says " + field);
  if (!made.elsewhere.empty()) log("yours to say in your program: " + list_text(made.elsewhere));
  if (!o.out.empty()) write_text(o.out, made.text);
  else if (!o.json) print(made.text);
  return ExitCode::ok;
}

}  // namespace tandem::program
