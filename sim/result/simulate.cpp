#include "sim/result/simulate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "models/base/threads.hpp"
#include "models/graph/stage_flops.hpp"
#include "models/plan/step_work.hpp"
#include "models/planfile/plan_advice.hpp"
#include "reports/timeline/memory_over_time.hpp"
#include "sim/cost/cuda_only.hpp"
#include "sim/cost/measured_note.hpp"
#include "sim/cost/time_limit.hpp"
#include "sim/engine/simulate_step.hpp"
#include "sim/memory/role_memory.hpp"
#include "sim/result/error_book.hpp"
#include "sim/result/host_memory_note.hpp"
#include "sim/result/lanes.hpp"
#include "sim/result/nccl_note.hpp"
#include "sim/result/narrow_rate_note.hpp"
#include "sim/result/network_note.hpp"
#include "sim/result/nodes_note.hpp"
#include "sim/result/own_attention_note.hpp"
#include "sim/result/perturbation_cost.hpp"
#include "sim/result/product_coverage.hpp"
#include "sim/result/replaced_facts.hpp"
#include "sim/result/role_times.hpp"
#include "sim/result/stage_note.hpp"
#include "sim/result/steady_state.hpp"
#include "topology/power_limit.hpp"

namespace tandem::sim {
namespace {

constexpr double kTera = 1e12;
constexpr std::string_view kUnverified = "not verified: ", kUnmeasured = "not measured, roofline used: ";
constexpr std::string_view kSimulatedAs = " simulated as ", kNoPeak = "the device has no peak for ";
constexpr std::array kOfMethod = {kUnverified, kUnmeasured, kNoPeak, kMeasuredTable};

void require_room(const Plan& plan, const Topology& topology) {
  const std::int64_t room = topology.devices() * topology.ranks_per_device();
  if (plan.world_size() <= room) return;
  throw InfeasibleError(Problem{
      plan.file, "cluster.devices", std::to_string(topology.devices()),
      "the plan has " + std::to_string(plan.world_size()) + " ranks and the cluster room for " + std::to_string(room),
      "give the cluster more devices or lower a parallel degree"});
}

void fill_rates(Prediction& out, const StepWork& work, const Setup& setup) {
  const double seconds = out.step_time.seconds();
  if (seconds <= 0) return;
  out.tokens_per_s = static_cast<double>(work.tokens) / seconds;
  out.samples_per_s = static_cast<double>(work.samples) / seconds;
  FlopsOfStages flops_of(setup.graph);
  const double ranks_per_stage = static_cast<double>(out.ranks) / static_cast<double>(setup.graph.programs.size());
  const double per_device = ranks_per_stage / static_cast<double>(setup.topology.devices()) / seconds / kTera;
  for (const Program& p : setup.graph.programs) {
    const StageFlops flops = flops_of.of(p);
    out.model_tflops_per_device += flops.model * per_device;
    out.hardware_tflops_per_device += flops.hardware * per_device;
  }
  const auto& peaks = setup.topology.device().peak;
  const auto peak = peaks.find(work.compute);
  if (peak == peaks.end()) return;
  const double rate = peak->second.flops_per_second() * static_cast<double>(setup.topology.threads_per_rank());
  out.mfu = out.model_tflops_per_device * kTera / rate;
  out.hfu = out.hardware_tflops_per_device * kTera / rate;
}

std::string in_ms(std::int64_t ps) {
  const std::string us = std::to_string(ps / 1'000'000 % 1000);
  return std::to_string(ps / 1'000'000'000) + "." + std::string(3 - us.size(), '0') + us + " ms";
}

void note_stalls(Prediction& out, const SimulatedStep& simulated, const std::map<std::size_t, Breakdown>& breakdowns) {
  const auto worst = std::max_element(breakdowns.begin(), breakdowns.end(), [](const auto& a, const auto& b) {
    return a.second.credit_stall_ps < b.second.credit_stall_ps;
  });
  const auto& [role, breakdown] = *worst;
  if (breakdown.credit_stall_ps == 0) return;
  out.notes.push_back("receive buffers limit the pipeline: stage " + std::to_string(simulated.roles[role].stage.value()) +
                      " idles up to " + in_ms(breakdown.credit_stall_ps) + " a step while a sender is ready and no buffer is free");
}

void note_launches(Prediction& out, const Breakdown& critical, const Plan& plan, bool cuda) {
  const std::int64_t step = std::max<std::int64_t>(out.step_time.ps(), 1);
  std::string note = host_note(plan, static_cast<double>(critical[Share::launch]) / static_cast<double>(step), cuda);
  if (!note.empty()) out.notes.push_back(std::move(note));
}

/// Adds a note in two borderline cases: the plan fits only if the allocator uses gaps between tensors, or it does not fit although its
/// live tensors would. One arena has no gaps.
void note_tight(Prediction& out, const Plan& plan, const Setup& setup) {
  const Topology& topology = setup.topology;
  if (one_arena(plan, topology.device())) return;
  const auto on_device = [&](Bytes of_rank) { return of_rank.count() * topology.ranks_per_device(); };
  const std::int64_t room = out.device_memory.count();
  if (out.fits && on_device(out.roles[out.heaviest_role].peak_memory_bytes) > room)
    out.notes.push_back(uses_segments(plan, setup)
                            ? "memory fits only because PyTorch's allocator returns free segments: the planned layout of tensors is larger than the device's memory"
                            : "memory fits only if the device's allocator uses all gaps between tensors, which is not simulated here: the planned layout of tensors is larger than the device's memory");
  const auto lacks = [&](const RolePrediction& r) { return on_device(r.needed_bytes) > room; };
  const auto holed = [&](const RolePrediction& r) {
    return lacks(r) && on_device(r.live_peak_bytes + r.memory_bytes[static_cast<std::size_t>(MemoryKind::runtime)]) <= room;
  };
  if (!out.fits && std::none_of(out.roles.begin(), out.roles.end(), [&](const RolePrediction& r) { return lacks(r) && !holed(r); }))
    out.notes.push_back("live tensors would fit, but not as PyTorch's allocator places them: free memory lies in segments that hold tensors, in pieces that are too small (training.expandable_segments avoids it)");
}

/// Notes on the graph's kinds of computation that no table holds.
void note_unmeasured(std::vector<std::string>& notes, const Setup& setup) {
  std::set<std::string_view> kinds;
  for (const auto& t : setup.graph.templates)
    for (const Task& task : t.tasks) kinds.insert(kind_name(task.op));
  for (const std::string& kind : setup.cost.unmeasured())
    if (kinds.count(kind) > 0) notes.push_back(std::string(kUnmeasured) + kind);
}

void note_machine(Prediction& out, const Plan& plan, const Setup& setup, const SimulatedStep& simulated) {
  out.notes.push_back(std::to_string(out.ranks) + (out.ranks == 1 ? " rank" : " ranks") + std::string(kSimulatedAs) +
                      std::to_string(simulated.roles.size()) + (simulated.roles.size() == 1 ? " role" : " roles"));
  const StepWork work = step_work(plan);
  if (setup.topology.device().peak.count(work.compute) == 0)
    out.notes.push_back(std::string(kNoPeak) + std::string(name(work.compute)) + ": utilisation is not given");
  if (const std::string note = narrow_rate_note(setup.topology.device(), work.compute); !note.empty()) out.notes.push_back(note);
  for (const std::string& note : plan_advice(plan)) out.notes.push_back(note);
  if (const std::string note = own_attention_note(plan, setup); !note.empty()) out.notes.push_back(note);
  if (setup.replay != nullptr) out.notes.push_back("rows of experts are those of the run whose routing is replayed");
  if (const std::string note = stage_note(plan, setup, simulated); !note.empty()) out.notes.push_back(note);
  if (const std::string note = nccl_note(setup, simulated, out.step_time); !note.empty()) out.notes.push_back(note);
  if (const std::string note = nodes_note(plan.cluster); !note.empty()) out.notes.push_back(note);
  if (const std::string note = network_note(setup.topology); !note.empty()) out.notes.push_back(note);
  const HostMemoryUse host = host_memory_use(setup, plan.cluster);
  out.fits = out.fits && host.fits();
  if (const std::string note = host_memory_note(host); !note.empty()) out.notes.push_back(note);
  const ReplacedFacts replaced(setup);
  for (const std::string& fact : setup.topology.unverified())
    if (!replaced.hold(fact)) out.notes.push_back(std::string(kUnverified) + fact);
  note_unmeasured(out.notes, setup);
  const auto is_replaced = [&](std::string_view note) {
    return note.starts_with(kUnverified) && replaced.hold(note.substr(kUnverified.size()));
  };
  for (const std::string& note : setup.cost.notes())
    if (!is_unused_fact(note, plan) && !is_replaced(note)) out.notes.push_back(note);
}

void fill_roles(Prediction& out, const Setup& setup, const SimulatedStep& simulated, const RoleTimes& times, const Plan& plan,
                bool fits) {
  RoleMemory memory(plan, setup, simulated, fits);
  for (std::size_t r = 0; r < simulated.roles.size(); ++r) {
    RolePrediction role = memory.of(simulated.roles[r]);
    role.coords = setup.mesh.coords(Rank(simulated.roles[r].ranks.front()));
    role.ranks = simulated.roles[r].ranks;
    if (times.every || r == times.critical) role.time_breakdown_s = in_seconds(times.breakdowns.at(r));
    out.fits = out.fits && memory.fits(role);
    if (r == 0 || role.peak_memory_bytes > out.roles[out.heaviest_role].peak_memory_bytes) out.heaviest_role = r;
    out.roles.push_back(std::move(role));
  }
  out.critical_role = times.critical;
  const Breakdown& critical = times.breakdowns.at(times.critical);
  out.kernels_s = kernels_in_seconds(critical);
  if (out.step_time > Duration{})
    out.bubble_fraction = static_cast<double>(critical[Share::bubble]) / static_cast<double>(out.step_time.ps());
  note_tight(out, plan, setup);
  note_stalls(out, simulated, times.breakdowns);
  note_launches(out, critical, plan, setup.cost.comm_fit().nccl.has_value());
}

void fill_range(Prediction& out, const Plan& plan, const Topology& topology, const std::vector<std::string>& without) {
  RangeQuestion question = range_question(out, topology, traits_on(plan, topology));
  question.without = without;
  const ErrorBook book = load_error_book(topology.device().calibration);
  out.range = step_range(book, out, question);
  if (std::string note = power_note(topology.device()); !note.empty()) out.notes.push_back(std::move(note));
  if (question.situation == kHostBound && has_situation(book, question))
    out.notes.push_back("launches by the host take a tenth of the step or more: the range comes from errors of such steps");
  if (question.situation == kExpertsOverNodes && has_situation(book, question))
    out.notes.push_back("rows of experts are exchanged between nodes: the range comes from errors of such steps");
}

void fill_lanes(Prediction& out, const Plan& plan, const Setup& setup, const SimulatedStep& simulated,
                const SimulateOptions& wanted) {
  if (!wanted.timeline && !wanted.memory_over_time) return;
  auto timeline = std::make_shared<Timeline>();
  timeline->performer = Performer::simulated;
  timeline->plan_json = to_json(plan);
  timeline->step_time = out.makespan;
  for (std::size_t r = 0; r < simulated.roles.size(); ++r) timeline->lanes.push_back(make_lane(simulated, setup, r));
  if (wanted.memory_over_time)
    for (std::size_t r = 0; r < simulated.roles.size(); ++r)
      out.roles[r].memory_over_time = memory_over_time(timeline->lanes[r], setup.graph.program(simulated.roles[r].stage));
  if (wanted.timeline) out.timeline = std::move(timeline);
}

/// A simulated step and, if steps overlap, their steady state.
struct Outcome {
  std::optional<SteadyState> steady_state;
  SimulatedStep simulated;
};

Outcome outcome_of(const Setup& setup, const Options& options) {
  std::optional<SteadyState> steady_state;
  Options alone = options;
  if (options.steps_overlap) alone.marks = steady_state.emplace(sim::steady_state(setup, options)).roles;
  SimulatedStep simulated = sim::simulate_step(setup, alone);
  return {std::move(steady_state), std::move(simulated)};
}

/// A step that is too long with its perturbation alone is the perturbation's fault.
Outcome outcome_of(const Setup& setup, const Options& options, const Perturbation& perturbation, const Topology& plain) {
  try {
    return outcome_of(setup, options);
  } catch (const TimeLimitExceeded&) {
    if (!perturbation.of_machine()) throw;
    refuse_perturbation(undisturbed(setup, options, plain));
  }
}

}  // namespace

Prediction simulate(const Plan& plan, const TaskGraph& graph, const Topology& plain, const SimulateOptions& wanted) {
  require_room(plan, plain);
  const Perturbation& perturbation = plan.cluster.perturbation;
  const auto changed = perturbation.of_machine() ? perturbed(plain, perturbation) : nullptr;
  const Topology& topology = changed ? *changed : plain;
  const Mesh mesh = make_mesh(plan);
  const std::unique_ptr<CostModel> cost = make_cost_model(topology);
  require_cuda(plan, topology, cost->comm_fit());
  const auto replay = wanted.routing == nullptr ? std::nullopt : std::optional<Replay>(std::in_place, graph, *wanted.routing);
  const Setup setup{replay ? replay->graph() : graph, mesh, topology, *cost, replay ? &*replay : nullptr};
  Options options{wanted.unfolded, replay ? replay->marks() : std::vector<std::uint64_t>{}};
  if (perturbation.jitter.relative > 0) options.jitter = perturbation.jitter;
  const StepWork work = step_work(plan);
  options.steps_overlap = work.steps_overlap;
  auto [steady_state, simulated] = outcome_of(setup, options, perturbation, plain);

  Prediction out;
  out.makespan = simulated.step_time;
  out.step_time = steady_state ? steady_state->step_time : simulated.step_time;
  out.ranks = mesh.world_size();
  out.device_memory = topology.device().usable_memory;
  fill_rates(out, work, setup);
  fill_roles(out, setup, simulated, role_times(setup, simulated, steady_state, wanted.every_breakdown), plan, wanted.fits);
  note_machine(out, plan, setup, simulated);
  out.measured_products = product_coverage(setup);
  fill_range(out, plan, topology, wanted.range_without);
  fill_lanes(out, plan, setup, simulated, wanted);
  if (perturbation.any())
    out.perturbation = perturbation_cost(perturbation, {setup, options, out.step_time, simulated}, plain,
                                         std::clamp(wanted.seeds_at_once, 1, all_cores()), wanted.progress);
  return out;
}

bool is_about_method(std::string_view note) {
  if (note.find(kSimulatedAs) != std::string_view::npos) return true;
  return std::any_of(kOfMethod.begin(), kOfMethod.end(), [&](std::string_view prefix) { return note.starts_with(prefix); });
}

}  // namespace tandem::sim
