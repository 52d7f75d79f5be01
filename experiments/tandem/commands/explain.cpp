#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/base/waiting.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/explain/explanation.hpp"
#include "experiments/tandem/explain/headline.hpp"
#include "models/base/files.hpp"
#include "models/plan/plan.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"
#include "topology/plan_reader.hpp"
#include "topology/preset.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;

constexpr const char* kMore =
    "--all prints every field. A KEY tells where one value comes from: plan.training.fusion, or one of `simulate --json` (step_time_s).\n";

struct Options {
  std::string plan, key, stack;
  bool json = false, all = false;
};

json parameters_json(const ParameterCount& p) {
  return {{"per_layer", p.per_layer},
          {"per_decoder_layer", p.per_decoder_layer},
          {"per_moe_layer", p.per_moe_layer},
          {"embedding", p.embedding},
          {"head", p.head},
          {"mtp", p.mtp},
          {"total", p.total},
          {"total_padded", p.total_padded}};
}

/// Features of the plan that this version cannot lower, in words; empty if there are none.
std::vector<std::string> not_implemented(const Plan& plan) {
  std::vector<std::string> out;
  try {
    require_lowerable(plan);
  } catch (const InfeasibleError& e) {
    for (const Problem& p : e.problems()) out.push_back(p.message());
  }
  return out;
}

json stack_defaults_json(const Plan& plan) {
  json out = json::array();
  for (const StackDefault& d : plan.stack.facts.defaults)
    out.push_back({{"field", d.field},
                   {"since", d.since.said() ? json(text_of(d.since)) : json()},
                   {"until", d.until.said() ? json(text_of(d.until)) : json()},
                   {"source", d.source}});
  return out;
}

json derived_json(const DerivedRanks& derived) {
  return derived.field.empty() ? json::array() : json{{{"field", derived.field}, {"from", derived.from}}};
}

std::string to_json_text(const Plan& plan, const DerivedRanks& derived, const ParameterCount& parameters) {
  json out = {{"schema_version", 1},
              {"plan", json::parse(to_json(plan, -1))},
              {"parameters", parameters_json(parameters)},
              {"layers_per_stage", plan.layers_per_stage()},
              {"world_size", plan.world_size()},
              {"micro_batches", plan.micro_batches()},
              {"global_batch_tokens", plan.global_batch_tokens()},
              {"padded_vocab_size", plan.padded_vocab_size()},
              {"derived_fields", derived_json(derived)},
              {"stack_defaults", stack_defaults_json(plan)},
              {"stack_notes", plan.stack.facts.notes},
              {"not_implemented", not_implemented(plan)}};
  if (has_active_parameters(plan.model)) out["active_parameters"] = active_parameters(plan.model);
  if (const std::int64_t adapters = trained_in_adapters(plan); adapters > 0) out["trained_parameters"] = adapters;
  return out.dump(2) + "\n";
}

std::string line(const std::string& what, const std::string& value) { return "  " + padded(what, 22) + value + "\n"; }

std::string dates_text(const StackDefault& d) {
  if (!d.since.said() && !d.until.said()) return "";
  return " (" + (d.since.said() ? "since " + text_of(d.since) : "") + (d.since.said() && d.until.said() ? ", " : "") +
         (d.until.said() ? "until " + text_of(d.until) : "") + ")";
}

std::string notes_text(const Plan& plan) {
  std::string out;
  for (const std::string& note : plan.stack.facts.notes) out += "note: " + note + "\n";
  return out;
}

/// Fields that the stack fills in, because the plan omits them, each with its value.
std::string stack_values_text(const Plan& plan) {
  if (plan.stack.facts.defaults.empty()) return "";
  const json values = json::parse(to_json(plan, -1));
  std::string out = "defaults that stack " + plan.stack.name + " fills in\n";
  for (const StackDefault& d : plan.stack.facts.defaults) {
    std::string path = d.field;
    std::replace(path.begin(), path.end(), '.', '/');
    const json::json_pointer at("/" + path);
    const json value = values.contains(at) ? values.at(at) : json();
    const std::string meant = meaning(d.field, value), text = value.is_null() ? "not set" : value.dump();
    out += "  " + padded(d.field, 44) + " " + text + (meant.empty() ? "" : " (" + meant + ")") + dates_text(d) + "\n";
  }
  return out;
}

/// The same with the source of each rule.
std::string stack_sources_text(const Plan& plan) {
  if (plan.stack.facts.defaults.empty()) return "";
  std::string out = "rules of stack " + plan.stack.name + "\n";
  for (const StackDefault& d : plan.stack.facts.defaults) out += "  " + d.field + dates_text(d) + ": " + d.source + "\n";
  return out;
}

std::string split_text(const Plan& plan) {
  std::string out;
  for (std::int64_t layers : plan.layers_per_stage()) out += (out.empty() ? "" : " ") + std::to_string(layers);
  return out;
}

std::string summary(const Plan& plan, const DerivedRanks& derived, const ParameterCount& p) {
  std::string out = "derived\n";
  if (!derived.field.empty()) out += line(derived.field, derived.from + ": the plan leaves it out");
  out += line("ranks", count_text(plan.world_size()));
  out += line("layers per stage", split_text(plan));
  out += line("micro-batches", count_text(plan.micro_batches()) + " per pipeline and step");
  out += line("tokens per step", count_text(plan.global_batch_tokens()));
  out += line("vocabulary, padded", count_text(plan.padded_vocab_size()));
  out += line("parameters", count_text(p.total) + " (" + count_text(p.total_padded) + " with the padded vocabulary)");
  if (has_active_parameters(plan.model)) out += line("", active_text(plan.model));
  if (const std::int64_t adapters = trained_in_adapters(plan); adapters > 0)
    out += line("", count_text(adapters) + " of adapters, which alone are trained");
  out += line("  per layer", count_text(p.per_layer));
  out += line("  embedding", count_text(p.embedding));
  out += line("  head", count_text(p.head));
  for (const std::string& note : not_implemented(plan)) out += "this version cannot run or simulate it: " + note + "\n";
  return out;
}

ExplainedCase waited_for(const Options& o) {
  Waiting waiting("simulating");
  return make_case(o.plan, o.stack, [&](const std::string& what) { waiting.at("simulating " + what); });
}

ExitCode explain_one(const Options& o) {
  const ExplainedCase c = waited_for(o);
  const Explanation e = explain_key(c, o.key);
  o.json ? print_json(to_json(e)) : print(to_text(e));
  return ExitCode::ok;
}

ExitCode explain(const Options& o) {
  if (!o.key.empty()) return explain_one(o);
  require_plan_file(o.plan);
  const std::string text = read_text(o.plan);  // once: it may be a pipe
  const Plan plan = parse_plan(text, o.plan, chosen_stack(o.stack));
  const DerivedRanks derived = derived_ranks(plan, given_fields(text, o.plan));
  naming(o.plan, [&] { return load_cluster(plan.cluster.preset); });
  const ParameterCount parameters = count_parameters(plan.model, plan.padded_vocab_size());
  if (o.json)
    print_json(to_json_text(plan, derived, parameters));
  else
    print(stack_text(plan) + "\n" + headline(plan) + "\n" + stack_values_text(plan) + notes_text(plan) +
          summary(plan, derived, parameters) +
          (o.all ? stack_sources_text(plan) + "plan, every default filled in\n" + to_json(plan) + "\n" : kMore));
  return ExitCode::ok;
}

}  // namespace

void add_explain(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("explain", "Say which defaults a plan gets, or where a figure of its prediction comes from");
  command->add_option("PLAN", o->plan, "plan file (JSON)")->required();
  CLI::Option* key = command->add_option("KEY", o->key,
                                         "a figure: a key of `simulate --json`, dotted (step_time_s, memory_bytes.weights, roles[2].arena_bytes); or a "
                                         "field (plan.model.pad_vocab_to): its formula, values, sources of the facts, range");
  command->add_flag("--all", o->all, "also print every field of the plan, and the source of each default of the stack")->excludes(key);
  add_stack_option(*command, o->stack);
  command->add_flag("--json", o->json, "one JSON object on stdout, with everything");
  command->callback([o, &exit] { exit = explain(*o); });
}

}  // namespace tandem::program
