#include <CLI/CLI.hpp>
#include <optional>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/base/waiting.hpp"
#include "experiments/tandem/commands/arguments.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "experiments/tandem/planning/budget.hpp"
#include "experiments/tandem/search/context_advice.hpp"
#include "models/base/output.hpp"
#include "models/base/presets.hpp"
#include "reports/timeline/chrome_trace.hpp"
#include "reports/timeline/run_routing.hpp"
#include "reports/timeline/saved_timeline.hpp"
#include "sim/result/host_memory_note.hpp"
#include "sim/result/simulate.hpp"
#include "topology/budget_facts.hpp"

namespace tandem::program {

namespace {

struct Options {
  std::string plan, trace, timeline, memory, cost_table, routing, perturb, stack;
  bool json = false;
  bool allow_oversize = false;
};

void write_simulated(const Options& o, const PreparedPlan& r, const Topology& topology, const Prediction& p,
                     const Routing* routing) {
  SavedTimeline timeline = saved(timeline_of(p), r.graph, routing);
  timeline.measured_table = measured_table(r.plan, topology, p);
  write_timeline(timeline, o.timeline);
}

void write_files(const Options& o, const PreparedPlan& r, const Topology& topology, const Prediction& p, const Routing* routing) {
  if (!o.trace.empty()) save_chrome_trace(timeline_of(p), r.graph, o.trace);
  if (!o.timeline.empty()) write_simulated(o, r, topology, p, routing);
  if (!o.memory.empty()) write_text(o.memory, memory_json(p, r.plan));
}

Prediction predict(const Options& o, const PreparedPlan& r, const Topology& topology, const Routing* routing, Waiting& waiting) {
  sim::SimulateOptions options;
  options.timeline = !o.trace.empty() || !o.timeline.empty();
  options.memory_over_time = !o.memory.empty();
  options.every_breakdown = o.json;
  options.routing = routing;
  options.progress = [&](const std::string& what) { waiting.at("simulating " + what); };
  waiting.at("simulating");
  return naming(o.plan, [&] { return sim::simulate(r.plan, r.graph, topology, options); });
}

/// Advice for a plan that does not fit. Tries context ranks, which takes a while.
std::string ways_to_fit(const Plan& plan) {
  const Waiting waiting("trying context ranks");
  return search::ways_to_fit(plan);
}

ExitCode simulate(const Options& o) {
  std::optional<Waiting> waiting("reading the plan");
  const PreparedPlan r = prepare(o.plan, o.perturb, o.stack);
  const auto topology = topology_of(r.plan, o.cost_table);
  tell_other_type(r.plan, *topology);
  prepare_outputs({o.trace, o.timeline, o.memory}, {o.plan, o.cost_table, o.routing, o.perturb});
  const auto routing = o.routing.empty() ? std::nullopt : std::optional(read_routing(o.routing, r.plan));
  Prediction p = predict(o, r, *topology, routing ? &*routing : nullptr, *waiting);
  waiting.reset();
  const std::int64_t needed = planning::needed_on_device(p, topology->ranks_per_device());
  if (const double error = load_memory_error(); p.fits && planning::is_tight(needed, p.device_memory.count(), error))
    p.notes.push_back(planning::tight_note(error));
  if (const std::string note = own_presets_note(); !note.empty()) p.notes.push_back(note);
  const InterruptWatch watch;  // files in progress are completed
  write_files(o, r, *topology, p, routing ? &*routing : nullptr);
  o.json ? print_json(to_json(p, r.plan)) : print(to_text(p, r.plan));
  if (p.fits || o.allow_oversize) return ExitCode::ok;
  print_error(o.plan + ": the plan does not fit " + sim::lacking_memory(p, topology->device()) + "; " + ways_to_fit(r.plan) +
              "; or accept it with --allow-oversize");
  return ExitCode::infeasible;
}

}  // namespace

void add_simulate(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("simulate", "Predict step time, throughput and memory of a plan");
  command->add_option("PLAN", o->plan, "plan file (JSON)")->required();
  add_stack_option(*command, o->stack);
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->add_flag("--allow-oversize", o->allow_oversize, "exit 0 even when the plan does not fit the memory");
  command->option_defaults()->group("Files to write");
  command->add_option("--timeline", o->timeline, "times of every task, for compare, report and reports/plot_timeline.py")->type_name("FILE");
  command->add_option("--trace", o->trace, "Chrome trace of the step, for Perfetto")->type_name("FILE");
  command->add_option("--memory", o->memory, "memory over time, for reports/plot_memory.py")->type_name("FILE");
  command->option_defaults()->group("What the prediction rests on");
  add_cost_table(*command, o->cost_table, "");
  command->add_option("--perturb", o->perturb,
                      "slow devices and links, lost links, jitter: a JSON object or a file with one, as cluster.perturbation of a plan")
      ->type_name("JSON|FILE");
  command->add_option("--routing", o->routing,
                      "route tokens to experts as a run did: the file of its train --timeline [every expert gets an equal share]")
      ->type_name("FILE");
  command->callback([o, &exit] { exit = simulate(*o); });
}

}  // namespace tandem::program
