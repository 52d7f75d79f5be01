#include "sim/result/replaced_facts.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <variant>

namespace tandem::sim {
namespace {

/// Fields of calibrations and devices that only roofline() and the time of a launch read.
constexpr std::array kOfComputations = {"matmul.", "flash_attention.", "flash1_attention.", "triton_attention.", "tuned_attention.",
                                        "own_attention.", "deterministic_dropout_attention.", "spread", "memory_share", "stream_factor",
                                        "cast_bytes", "kernel_s", "launch_s", "vector_flops_per_s", "host_launch_s"};
/// Fields of calibrations and nodes that only transfers over links read.
constexpr std::array kOfCommunications = {"communication.", "scale_up.", "scale_out."};
/// Fields of clusters, nodes and calibrations that only transfers between nodes read.
constexpr std::array kOfNetwork = {"fabric.", "scale_out.latency_s", "scale_out.nic_bytes_per_s", "scale_out.nics",
                                   "scale_out.nccl.reported_latency_s", "communication.across_share",
                                   "communication.in_step_across_share", "communication.shared_nic_share"};
/// They slow computations down by the memory traffic of collectives, measured or not.
constexpr std::array kOfOverlap = {"communication.compute_slowdown", "memory_bytes_per_s"};

/// The field of "FILE: FIELD (NOTE)", without the name of a part that stands inside the cluster's file.
std::string_view field_of(std::string_view fact) {
  if (const std::size_t colon = fact.find(": "); colon != fact.npos) fact.remove_prefix(colon + 2);
  fact = fact.substr(0, fact.find(' '));
  for (const std::string_view part : {"device.", "node."})
    if (fact.starts_with(part)) fact.remove_prefix(part.size());
  return fact;
}

template <std::size_t N>
bool any(const std::array<const char*, N>& names, std::string_view field) {
  return std::ranges::any_of(names, [&](std::string_view n) { return n.ends_with('.') ? field.starts_with(n) : field == n; });
}

/// The planner times copies of experts by links.
bool measured(const CostModel& cost, const Op& op) {
  const auto* collective = std::get_if<Collective>(&op);
  return (collective == nullptr || collective->copies.experts == 0) && cost.communication(op, 2).has_value();
}

/// Whether the collective library chooses how to do it, with latencies of its own, as NCCL does for reductions and gathers.
bool library_times(const Topology& topology, const Op& op) {
  const auto* collective = std::get_if<Collective>(&op);
  if (collective == nullptr || topology.algorithm(collective->kind)) return false;
  return collective->kind == CollectiveKind::all_reduce || collective->kind == CollectiveKind::all_gather ||
         collective->kind == CollectiveKind::reduce_scatter;
}

/// Whether that holds for all communications of the step. A graph may have templates, as of sends, that no instance runs.
bool library_times_all(const Setup& setup) {
  if (!setup.cost.comm_fit().nccl) return false;
  std::set<TemplateId> run;
  for (const Program& p : setup.graph.programs)
    for (const Instance& i : p.instances) run.insert(i.tmpl);
  return std::ranges::all_of(run, [&](TemplateId t) {
    return std::ranges::all_of(setup.graph.templates[t.index()].tasks, [&](const Task& task) {
      return !is_communication(task.op) || library_times(setup.topology, task.op);
    });
  });
}

/// Whether all ranks are on the first node: ranks fill devices in order.
bool on_one_node(const Setup& setup) {
  const Rank last(setup.mesh.world_size() - 1);
  return setup.topology.node_of(setup.topology.device_of(last)) == 0;
}

}  // namespace

ReplacedFacts::ReplacedFacts(const Setup& setup) : own_latencies_(library_times_all(setup)), one_node_(on_one_node(setup)) {
  if (setup.cost.products() != nullptr) return;  // only products are measured then
  computations_ = communications_ = true;
  for (const Template& t : setup.graph.templates)
    for (const Task& task : t.tasks)
      if (!is_communication(task.op)) computations_ = computations_ && setup.cost.covered(task.op, task.dtype);
      else communications_ = communications_ && measured(setup.cost, task.op);
  communications_ = communications_ && computations_;  // else a device without a table would count where nothing communicates
  overlap_ = setup.cost.comm_fit().compute_slowdown > 0;
}

bool ReplacedFacts::hold(std::string_view fact) const {
  const std::string_view field = field_of(fact);
  if (one_node_ && any(kOfNetwork, field)) return true;
  if (own_latencies_ && field == "scale_up.hop_latency_s") return true;
  if (any(kOfOverlap, field)) return computations_ && !overlap_;
  return (computations_ && any(kOfComputations, field)) || (communications_ && any(kOfCommunications, field));
}

}  // namespace tandem::sim
