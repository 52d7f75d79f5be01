#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "models/arguments/exported_options.hpp"
#include "models/base/output.hpp"
#include "models/base/text.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::string plan, to, out, stack;
  bool approximate = false, json = false;
};

ordered_json as_json(const std::vector<arguments::ExportedOptions::Option>& options) {
  ordered_json out = ordered_json::array();
  for (const auto& [name, value] : options) out.push_back({{"option", name}, {"value", value.empty() ? ordered_json(true) : ordered_json(value)}});
  return out;
}

std::string to_json(const Options& o, const arguments::ExportedOptions& made, const std::vector<std::string>& unsaid) {
  const ordered_json out = {{"schema_version", 1}, {"to", o.to}, {"launcher", as_json(made.launcher)}, {"program", made.program},
                            {"options", as_json(made.options)}, {"unsaid", unsaid}, {"elsewhere", made.elsewhere}, {"text", made.text}};
  return out.dump(2) + "\n";
}

std::vector<Problem> refusals(const Options& o, const std::vector<std::string>& unsaid) {
  std::vector<Problem> out;
  for (const std::string& field : unsaid)
    out.push_back({o.plan, field.substr(0, field.find(':')), field.substr(field.find(' ') + 1), "no option of " + o.to + " says it",
                   "change it, or leave it out with --approximate"});
  return out;
}

ExitCode export_plan(const Options& o) {
  const Plan plan = load_plan(o.plan, chosen_stack(o.stack));
  const arguments::Table table = arguments::read_table(o.to);
  const arguments::ExportedOptions made = arguments::export_plan(plan, table, topology_of(plan, "")->devices_per_node());
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

}  // namespace

void add_export(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("export", "Print a plan as another framework's command or configuration");
  command->add_option("PLAN", o->plan, "plan file (JSON)")->required();
  command->add_option("--to", o->to, "framework")->required()->check(CLI::IsMember(arguments::known_frameworks()));
  command->add_option("--out", o->out, "write it there [stdout]");
  add_stack_option(*command, o->stack);
  command->add_flag("--approximate", o->approximate, "leave out what no option says, and tell it");
  command->add_flag("--json", o->json, "one JSON object on stdout: options, and fields that no option says");
  command->footer("The options are read back as a plan. A field that differs then is refused by name (exit 4). Data, tokenizer, checkpoints\n"
                  "and logs are yours to add.");
  command->callback([o, &exit] { exit = export_plan(*o); });
}

}  // namespace tandem::program
