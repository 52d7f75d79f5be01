#include "models/lowering/cuda_graphs.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "models/base/error.hpp"
#include "models/lowering/task_launches.hpp"

namespace tandem::lowering {
namespace {

constexpr std::array<std::string_view, 7> kBlocks{"block_forward", "block_recompute", "block_backward", "block_weights",
                                                  "decoder_forward", "decoder_recompute", "decoder_backward"};

bool is_block(const Template& t) { return std::find(kBlocks.begin(), kBlocks.end(), t.name) != kBlocks.end(); }

bool is_experts(const Task& t) {
  const auto any = [&]<class... Ops>(std::type_identity<Ops>...) { return (std::holds_alternative<Ops>(t.op) || ...); };
  return any(std::type_identity<ExpertSlots>(), std::type_identity<MoeDispatch>(), std::type_identity<MoeDispatchBackward>(),
             std::type_identity<MoeCombine>(), std::type_identity<MoeCombineBackward>(),
             std::type_identity<GroupedMatMul>(), std::type_identity<GroupedWeightGrad>(),
             std::type_identity<GroupedBias>(), std::type_identity<GroupedBiasGrad>());
}

/// Tasks [first, end) of one graph: the first launches it.
void capture(std::vector<Task>& tasks, std::size_t first, std::size_t end, std::uint32_t launch) {
  for (std::size_t i = first; i < end; ++i) tasks[i].host_operations = i == first ? launch : 0;
}

void capture_block(Template& t, const Capture& c, std::uint32_t launch) {
  std::size_t first = t.tasks.size(), end = 0;
  for (std::size_t i = 0; i < t.tasks.size() && c.experts_apart; ++i)
    if (is_experts(t.tasks[i])) first = std::min(first, i), end = i + 1;
  capture(t.tasks, 0, std::min(first, t.tasks.size()), launch);
  if (end > 0) capture(t.tasks, end, t.tasks.size(), launch);
}

bool in_iteration(const Instance& i, const Capture& c) {
  return i.phase != Phase::optimizer && !(i.phase == Phase::gather && c.gathers_follow);
}

/// A template is captured if all of its instances are.
std::vector<bool> captured_templates(const TaskGraph& graph, const Capture& c) {
  std::vector<bool> captured(graph.templates.size(), true);
  for (const Program& p : graph.programs)
    for (const Instance& i : p.instances)
      if (!in_iteration(i, c)) captured[i.tmpl.index()] = false;
  return captured;
}

/// The first captured instance of a stage has a template of its own, whose first task launches the graph.
void launch_first(TaskGraph& graph, Program& p, const std::vector<bool>& captured, std::uint32_t launch) {
  const auto is_captured = [&](const Instance& i) { return captured[i.tmpl.index()]; };
  const auto first = std::find_if(p.instances.begin(), p.instances.end(), is_captured);
  if (first == p.instances.end()) return;
  first->tmpl = add_launched_at_once(graph, first->tmpl, launch);
}

void capture_iteration(TaskGraph& graph, const Capture& c, std::uint32_t launch) {
  const std::vector<bool> captured = captured_templates(graph, c);
  for (std::size_t t = 0; t < captured.size(); ++t)
    if (captured[t]) {
      graph.templates[t].host_waits = false;
      for (Task& task : graph.templates[t].tasks) task.host_operations = 0;
    }
  for (Program& p : graph.programs) launch_first(graph, p, captured, launch);
}

}  // namespace

void capture_graphs(TaskGraph& graph, const Capture& c) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  require(c.launch >= 0 && c.launch <= kMost, "a launch has more host operations than can be kept");
  const auto launch = static_cast<std::uint32_t>(c.launch);
  if (c.of == CudaGraphs::layers)
    for (Template& t : graph.templates)
      if (is_block(t)) capture_block(t, c, launch);
  if (c.of == CudaGraphs::iteration) capture_iteration(graph, c, launch);
}

}  // namespace tandem::lowering
