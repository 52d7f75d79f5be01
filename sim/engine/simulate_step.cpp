#include "sim/engine/simulate_step.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "sim/engine/jitter.hpp"
#include "sim/engine/overlap.hpp"
#include "sim/engine/step_limit.hpp"

namespace tandem::sim {
namespace {

std::vector<std::uint64_t> colours_of(const Setup& setup, const Options& options) {
  std::vector<std::uint64_t> colours;
  std::map<std::tuple<StageId, std::uint64_t, double>, std::uint64_t> known;
  for (std::int32_t r = 0; r < setup.mesh.world_size(); ++r) {
    const std::uint64_t mark = options.marks.empty() ? 0 : options.marks[static_cast<std::size_t>(r)];
    const std::tuple kind{setup.stage_of(Rank(r)), mark, setup.speed(Rank(r))};
    const bool alone = options.unfolded || options.jitter;
    colours.push_back(alone ? static_cast<std::uint64_t>(r) : known.try_emplace(kind, known.size()).first->second);
  }
  return colours;
}

std::vector<Role> roles_of(const Setup& setup, const Classes& ranks) {
  std::vector<Role> roles(ranks.size());
  for (std::size_t r = 0; r < ranks.of.size(); ++r) roles[ranks.of[r]].ranks.push_back(static_cast<std::int32_t>(r));
  for (Role& role : roles) role.stage = setup.stage_of(Rank(role.ranks.front()));
  return roles;
}

[[noreturn]] void report(const Setup& setup, const SimulatedStep& simulated, const std::vector<Engine::Stuck>& stuck) {
  std::string message = "the step cannot finish; waiting for each other:";
  for (std::size_t i = 0; i < stuck.size() && i < 8; ++i) {
    const Role& role = simulated.roles[stuck[i].role];
    const Place place = place_of(simulated.lane_program(stuck[i].role), stuck[i].position);
    const Instance& instance = setup.graph.program(role.stage).instances[place.instance];
    const Template& tmpl = setup.graph.of(instance);
    message += std::string(i == 0 ? " " : "; ") + "stage " + std::to_string(role.stage.value()) + " " + tmpl.name + "." +
               tmpl.tasks[place.task].name + " (layer " + std::to_string(instance.layer) + ", micro-batch " +
               std::to_string(instance.micro_batch) + ")";
  }
  throw ContractError(message);
}

void check(const Setup& setup, const Options& options) {
  require(setup.mesh.size(Axis::pp) == static_cast<std::int64_t>(setup.graph.programs.size()),
          "the mesh has not as many stages as the graph has programs");
  require(options.marks.empty() || options.marks.size() == static_cast<std::size_t>(setup.mesh.world_size()),
          "marks must name every rank");
}

/// Returns one run table for each slot table of the quotient. A host that computes itself has no patterns: every task waits for its
/// own launch.
std::vector<RunTable> run_tables_of(const std::vector<LaneTemplate>& templates, bool patterns, SimulatedStep& simulated) {
  std::vector<std::optional<RunTable>> run_tables(simulated.quotient.tables.size());
  for (std::size_t r = 0; r < simulated.roles.size(); ++r) {
    std::optional<RunTable>& run_table = run_tables[simulated.quotient.roles[r].table];
    if (run_table) continue;
    std::vector<TimedTemplateId> timed_templates(templates.size(), -1);
    if (patterns)
      for (const std::uint32_t t : simulated.communications.templates[simulated.roles[r].stage.index()])
        timed_templates[t] = simulated.patterns.timed(templates[t], simulated.quotient.slots(r));
    run_table = make_run_table(templates, simulated.quotient.slots(r), std::move(timed_templates), simulated.host.launch.ps());
    run_table->runs = patterns && !simulated.lane_program(r).host_waits;
  }
  std::vector<RunTable> out;
  for (auto& run_table : run_tables) out.push_back(std::move(*run_table));
  return out;
}

/// Walks all programs once and stores the times. Returns the tasks that wait for each other; none if the step has finished.
std::vector<Engine::Stuck> walk(const std::vector<LaneTemplate>& templates, SimulatedStep& out) {
  out.records.clear();
  Engine engine(out.quotient, templates, out.patterns, out.host, std::move(out.times));
  for (std::size_t r = 0; r < out.roles.size(); ++r)
    engine.add({out.lane_program(r), out.quotient.roles[r].exchanges, out.run_table(r),
                out.delays.empty() ? nullptr : &out.delays[r], out.jitter ? &*out.jitter : nullptr, out.roles[r].ranks.front()});
  engine.run();
  out.records = engine.take_records();
  out.times = engine.take_times();
  out.events += engine.events();
  return engine.stuck();
}

void perform(const Setup& setup, const std::vector<LaneTemplate>& templates, SimulatedStep& out) {
  if (walk(templates, out).empty()) return;
  // Retry without patterns: these hold an instance's early tasks back, which other tasks may wait for.
  const std::vector<RunTable> with_patterns = std::exchange(out.run_tables, run_tables_of(templates, false, out));
  if (const auto stuck = walk(templates, out); !stuck.empty()) report(setup, out, stuck);
  out.run_tables = with_patterns;
}

/// Whether the largest delays of all stages add up to more than 1 / kNoticed of the step.
bool worth_simulating_again(const SimulatedStep& simulated, const std::vector<RoleDelays>& delays) {
  Duration end;
  for (const Record& r : simulated.records) end = std::max(end, r.end);
  std::map<std::size_t, std::int64_t> most;  // by stage
  for (std::size_t r = 0; r < delays.size(); ++r) {
    std::int64_t& of_stage = most[simulated.roles[r].stage.index()];
    of_stage = std::max(of_stage, std::accumulate(delays[r].ps.begin(), delays[r].ps.end(), std::int64_t{0}));
  }
  const auto sum = [](std::int64_t so_far, const auto& stage) { return so_far + stage.second; };
  return std::accumulate(most.begin(), most.end(), std::int64_t{0}, sum) > end.ps() / kNoticed;
}

/// Simulates all programs, and a second time if collectives delay computations noticeably.
void play(const Setup& setup, const std::vector<LaneTemplate>& templates, SimulatedStep& out) {
  perform(setup, templates, out);
  if (const double slowdown = setup.cost.comm_fit().compute_slowdown; slowdown > 0) {
    std::vector<RoleDelays> overlap = overlap_delays(out, setup.graph, slowdown, setup.topology.device().memory_bandwidth);
    if (worth_simulating_again(out, overlap)) {
      out.delays = std::move(overlap);
      perform(setup, templates, out);
    }
  }
  for (std::size_t r = 0; r < out.roles.size(); ++r) {
    out.step_time = std::max(out.step_time, out.records[r].end);
    out.tasks += static_cast<std::int64_t>(out.lane_program(r).tasks());
  }
}

}  // namespace

SimulatedStep simulate_step(const Setup& setup, const Options& options) {
  check(setup, options);
  if (options.jitter) require_few_tasks(setup);
  SimulatedStep out;
  out.host = {setup.cost.launch(), setup.topology.device().synchronous};
  out.communications = list_communications(setup.graph, setup.replay != nullptr);
  {
    const TransferMap transfer_map = make_transfer_map(setup, out.communications);
    const Folding folding = fold(transfer_map, colours_of(setup, options));
    out.slow_choices = transfer_map.slow_choices;
    out.roles = roles_of(setup, folding.ranks);
    out.quotient = make_quotient({setup, out.communications, transfer_map, folding}, lanes_of(out.host.synchronous));
  }
  require_within_time_limit(setup, out);

  const auto templates = make_lane_templates(setup.graph, out.communications, out.host.synchronous);
  out.lane_programs = make_lane_programs(setup.graph, out.communications, out.host.synchronous);
  out.patterns = Patterns(out.host.launch);
  out.run_tables = run_tables_of(templates, !out.host.synchronous && !options.singly, out);
  if (options.jitter) out.jitter.emplace(*options.jitter, setup.graph, out.communications.first_slot, out.quotient);
  play(setup, templates, out);
  return out;
}

SimulatedStep for_another_seed(const SimulatedStep& step) {
  SimulatedStep out;
  out.roles = step.roles;
  out.lane_programs = step.lane_programs;
  out.communications = step.communications;
  out.quotient = step.quotient;
  out.slow_choices = step.slow_choices;
  out.patterns = step.patterns;
  out.run_tables = step.run_tables;
  out.host = step.host;
  return out;
}

void simulate_again(const Setup& setup, const Jitter& jitter, SimulatedStep& step) {
  step.step_time = {};
  step.tasks = step.events = 0;
  step.delays.clear();
  step.jitter.emplace(jitter, setup.graph, step.communications.first_slot, step.quotient);
  play(setup, make_lane_templates(setup.graph, step.communications, step.host.synchronous), step);
}

}  // namespace tandem::sim
