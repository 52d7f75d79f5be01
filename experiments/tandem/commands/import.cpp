#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/import/report.hpp"
#include "models/base/output.hpp"
#include "models/base/presets.hpp"

namespace tandem::program {

namespace {

struct Options {
  std::string config, out;
  import::PlanRequest plan;
  std::int64_t sequence = 0;
  bool approximate = false, json = false;
};

/// Throws early if a plan with this cluster would be refused.
void require_cluster(const std::string& name) {
  if (name.empty() || is_preset_path(name) || !find_preset("topology/presets", name).empty()) return;
  Problem p = unknown_preset("topology/presets", name, "cluster preset");
  p.file = "--cluster";
  throw ConfigError(p);
}

ExitCode import_config(const Options& o) {
  require_cluster(o.plan.cluster);
  const import::Import made = import::make_import(o.config, o.sequence, o.approximate);
  const nlohmann::ordered_json document = made.document(o.plan);
  prepare_outputs({o.out}, {});  // all inputs have been read by now
  if (o.json) print_json(import::to_json(made, document));
  else log(import::to_text(made));
  if (made.refused) throw InfeasibleError(huggingface::refusals(made.model));
  const std::string text = document.dump(2) + "\n";
  if (!o.out.empty()) write_text(o.out, text);
  else if (!o.json) print_json(text);
  return ExitCode::ok;
}

}  // namespace

void add_import(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("import", "Turn a model's Hugging Face config.json into a plan's model");
  command->add_option("CONFIG", o->config, "config.json, or a folder that has one")->required();
  command->add_option("--out", o->out, "write the preset or plan there [stdout]");
  CLI::Option* cluster = command->add_option("--cluster", o->plan.cluster, "write a whole plan, on this cluster preset [the model alone]");
  command->add_option("--devices", o->plan.devices, "devices of that plan: data-parallel, weights and states sharded (zero_stage 3)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str()
      ->needs(cluster);
  command->add_option("--seq-length", o->sequence,
                      "tokens of a training sequence; attention windows that hold all of it are left out [counts: at most 4096; windows: the longest sequence of the model]")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 27));
  command->add_flag("--approximate", o->approximate, "leave out what a plan cannot say, and tell the error in parameters and FLOPs");
  command->add_flag("--json", o->json, "one JSON object on stdout: origins, features, counts, and the preset or plan as `document`");
  command->footer("A feature that a plan cannot say is refused by name (exit 4). An unknown model type is bad input (exit 3). The report goes to\n"
                  "stderr. A plan can name the same file itself: \"model\": {\"preset\": \"path/config.json\"}.");
  command->callback([o, &exit] { exit = import_config(*o); });
}

}  // namespace tandem::program
