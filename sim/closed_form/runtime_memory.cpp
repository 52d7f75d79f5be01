#include "sim/closed_form/runtime_memory.hpp"

#include "sim/memory/nccl_buffers.hpp"
#include "sim/memory/workspaces.hpp"

namespace tandem::sim {
namespace {

void add(Communications& to, const Port& port) {
  to.entries.push_back({static_cast<std::int32_t>(to.messages.size()), false});
  to.messages.push_back({static_cast<std::uint32_t>(to.ports.size()), {}, -1});
  to.ports.push_back(port);
}

/// Lists the stages' communications, with one template a stage.
Communications communications_of(const std::vector<lowering::StageGroups>& stages) {
  Communications out;
  out.first_slot = {0};
  for (const lowering::StageGroups& stage : stages) {
    for (const Group g : stage.collectives) add(out, {Port::Kind::collective, g, Stream::data, 0});
    for (const int offset : stage.neighbours) add(out, {Port::Kind::send, Group::pipeline, Stream::send, offset});
    out.templates.push_back({static_cast<std::uint32_t>(out.templates.size())});
    out.first_slot.push_back(static_cast<std::uint32_t>(out.entries.size()));
  }
  return out;
}

}  // namespace

const std::vector<Bytes>& RuntimeMemory::of(const Plan& plan, bool tied) {
  key_.assign({tied, plan.training.deterministic});
  append_words(key_, plan.parallel);
  append_words(key_, plan.stack);
  if (const auto known = known_.find(key_); known != known_.end()) return known->second;
  return known_.emplace(key_, read(plan, tied)).first->second;
}

std::vector<Bytes> RuntimeMemory::read(const Plan& plan, bool tied) const {
  static const TaskGraph no_graph;
  const Mesh mesh = make_mesh(plan);
  const Setup setup{no_graph, mesh, topology_, cost_};
  const std::vector<lowering::StageGroups> stages = lowering::stage_groups(plan, tied);
  const Communications groups = communications_of(stages);
  std::vector<Bytes> out;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Coords at = mesh.coords(Rank(0));
    at[Axis::pp] = static_cast<std::int32_t>(s);
    out.push_back(topology_.device().runtime_memory + library_memory(plan, topology_.device()) +
                  communicator_buffers(setup, groups, mesh.rank(at), plan.stack.facts.communicators));
  }
  return out;
}

}  // namespace tandem::sim
