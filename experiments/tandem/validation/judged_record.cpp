#include "experiments/tandem/validation/judged_record.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/validation/plan_digest.hpp"
#include "sim/cost/measured_note.hpp"
#include "sim/memory/reserved_memory.hpp"
#include "sim/memory/workspaces.hpp"
#include "sim/result/error_book.hpp"
#include "sim/result/simulate.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::program {

namespace {

constexpr double kTera = 1e12;
constexpr std::string_view kUnverified = "not verified: ";  // prefix of notes about unconfirmed facts

/// What the measuring tool would have reported for a plan's roles.
class ReportedMemory {
 public:
  ReportedMemory(const TaskGraph& graph, const Device& device, Bytes libraries, const std::string& kind)
      : graph_(graph), device_(device), libraries_(libraries), kind_(kind), reserved_(graph.programs.size()) {}

  /// A framework's allocator also counts the libraries' workspaces, and the device everything beside the allocator.
  Bytes of(const RolePrediction& role) {
    if (kind_ != "device" && kind_ != "reserved") return role.live_peak_bytes + libraries_;
    const Bytes beside = role.peak_memory_bytes - role.arena_bytes;
    return held(role, device_.usable_memory - beside) + (kind_ == "device" ? beside : libraries_);
  }

 private:
  /// Reserved segments, including memory of freed tensors. A full device makes the allocator return free segments.
  Bytes held(const RolePrediction& role, Bytes room) {
    return std::min(reserved(role), std::max(room, role.live_peak_bytes));
  }

  /// A CPU host has one arena and no allocator.
  Bytes reserved(const RolePrediction& role) {
    const auto stage = static_cast<std::size_t>(role.coords[Axis::pp]);
    if (device_.synchronous) return role.arena_bytes + role.cached_bytes;
    std::optional<Bytes>& known = reserved_[stage];
    const MemoryPlan& memory = graph_.programs[stage].memory;
    if (!known) known = sim::reserved_bytes(graph_, graph_.programs[stage]) + memory.cached_bytes - memory.pooled_bytes;
    return *known;
  }

  const TaskGraph& graph_;
  const Device& device_;
  Bytes libraries_;  ///< workspaces
  const std::string& kind_;
  std::vector<std::optional<Bytes>> reserved_;  ///< by stage, once computed
};

/// True if the role's memory was measured: all roles, those of the last stage, or those with a rank on the first node.
bool was_read(const RolePrediction& role, const std::string& rank, std::int64_t stages, const Topology& topology) {
  if (rank == "last_stage") return role.coords[Axis::pp] == stages - 1;
  return rank != "first_node" || std::any_of(role.ranks.begin(), role.ranks.end(), [&](std::int32_t r) {
    return topology.node_of(topology.device_of(Rank(r))) == topology.node_of(topology.device_of(Rank(0)));
  });
}

double peak_memory(const Prediction& p, const Measurement& m, const Plan& plan, const TaskGraph& graph,
                   const Topology& topology) {
  const auto stages = static_cast<std::int64_t>(graph.programs.size());
  ReportedMemory reported_memory(graph, topology.device(), sim::library_memory(plan, topology.device()), m.memory_kind);
  Bytes peak;
  for (const RolePrediction& role : p.roles)
    if (was_read(role, m.memory_rank, stages, topology)) peak = std::max(peak, reported_memory.of(role));
  return static_cast<double>(peak.count());
}

void predict(JudgedRecord& out) {
  const Measurement& m = out.measured;
  const Plan plan = parse_plan(m.plan_json, m.id);
  require_lowerable(plan);
  const TaskGraph graph = lower(plan);
  const auto topology = topology_of(plan, "");
  sim::SimulateOptions options;
  options.range_without = m.without.sets.empty() ? std::vector{m.set} : m.without.sets;
  options.seeds_at_once = 1;  // the records use the threads
  options.every_breakdown = false;
  const Prediction p = sim::simulate(plan, graph, *topology, options);
  out.plan = digest(plan, *topology);
  out.step_time_s = p.step_time.seconds();
  out.low_s = p.range.low_s, out.high_s = p.range.high_s, out.wider = p.range.wider;
  if (m.peak_memory_bytes) out.peak_memory_bytes = peak_memory(p, m, plan, graph, *topology);
  out.flops = p.hardware_tflops_per_device * kTera * p.step_time.seconds() * static_cast<double>(plan.cluster.devices);
  out.situation = sim::situation_of(p, *topology, out.plan.traits);
  out.host_share = sim::host_share(p);
  out.fits = p.fits;
  for (const std::string& note : p.notes)
    if (note.starts_with(kUnverified)) out.unverified.push_back(note.substr(kUnverified.size()));
    else if (note.starts_with(sim::kMeasuredTable)) out.measured_tables.push_back(note);
}

}  // namespace

std::set<std::string> read_inputs(const std::vector<Measurement>& measurements, int jobs) {
  std::set<std::string> tables;
  std::mutex adding;
  sim::load_error_book();
  std::map<std::string_view, std::string_view> id_of;  // of different plans, as equal ones read the same files
  for (const Measurement& m : measurements) id_of.emplace(m.plan_json, m.id);
  const std::vector<std::pair<std::string_view, std::string_view>> plans(id_of.begin(), id_of.end());
  for_each_index(plans.size(), {.most = jobs}, [&](std::size_t i) {
    try {
      const auto topology = topology_of(parse_plan(std::string(plans[i].first), std::string(plans[i].second)), "");
      const std::string table = sim::own_error_table(topology->device().calibration);
      const std::lock_guard lock(adding);
      if (!table.empty()) tables.insert(table);
    } catch (const std::exception&) {
    }
  });
  return tables;
}

JudgedRecord judge(const Measurement& measurement) {
  JudgedRecord out;
  out.measured = measurement;
  const LeftOut without(out.measured.without);
  try {
    predict(out);
  } catch (const ConfigError& e) {
    out.refused = e.problems().front().message();
  } catch (const ContractError& e) {
    throw ContractError(measurement.id + ": " + e.what());
  }
  return out;
}

std::vector<JudgedRecord> judge(const std::vector<Measurement>& measurements, const Jobs& jobs,
                                const std::function<void(std::int64_t)>& done) {
  std::vector<std::optional<JudgedRecord>> judged(measurements.size());
  std::mutex counting;
  std::int64_t finished = 0;
  for_each_index(measurements.size(), jobs, [&](std::size_t i) {
    judged[i] = judge(measurements[i]);
    const std::lock_guard lock(counting);
    done(++finished);
  });
  std::vector<JudgedRecord> out;
  for (std::optional<JudgedRecord>& record : judged)
    if (record) out.push_back(std::move(*record));
  return out;
}

}  // namespace tandem::program
