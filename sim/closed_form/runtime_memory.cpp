#include "sim/closed_form/runtime_memory.hpp"

#include "sim/memory/nccl_buffers.hpp"
#include "sim/memory/workspaces.hpp"

namespace tandem::sim {
namespace {

/// The groups of each stage's collectives and the neighbours that it sends to and receives from, as one template a stage.
class Groups {
 public:
  Groups(const Plan& plan, bool tied) : plan_(plan), tied_(tied) {
    out_.first_slot = {0};
    for (std::int64_t s = 0; s < plan.parallel.pipeline; ++s) add_stage(s);
  }
  Communications take() { return std::move(out_); }

 private:
  void add(Port port, bool receiver = false) {
    out_.messages.push_back({static_cast<std::uint32_t>(out_.ports.size()), {}, -1});
    out_.ports.push_back(port);
    out_.entries.push_back({static_cast<std::int32_t>(out_.messages.size()) - 1, receiver});
  }
  void add(Group g, std::int64_t ranks) {
    if (ranks > 1) add({Port::Kind::collective, g, Stream::data, 0});
  }

  void add_stage(std::int64_t s) {
    const ParallelSpec& q = plan_.parallel;
    const std::int64_t p = q.pipeline, shards = shard_group_size(plan_);
    add(Group::tensor, q.tensor);
    add(Group::data, s == p - 1 || shards == 1 ? q.data : 1);  // the loss; gradients
    add(Group::shard, shards);
    add(Group::replica, shards > 1 ? q.data / shards : 1);
    add(q.zero_stage > 0 && shards > 1 ? Group::world : Group::model, q.zero_stage > 0 && shards > 1 ? plan_.world_size() : q.tensor * p);
    if (tied_ && (s == 0 || s == p - 1)) add(Group::embedding, p);
    for (const int offset : {1, -1}) {
      const std::int64_t there = s + offset;
      if (p == 1 || (q.virtual_pipeline == 1 && (there < 0 || there == p))) continue;
      add({Port::Kind::send, Group::pipeline, Stream::send, offset});
    }
    out_.templates.push_back({static_cast<std::uint32_t>(s)});
    out_.first_slot.push_back(static_cast<std::uint32_t>(out_.entries.size()));
  }

  const Plan& plan_;
  bool tied_;
  Communications out_;
};

}  // namespace

const std::vector<Bytes>& RuntimeMemory::of(const Plan& plan, bool tied) {
  const ParallelSpec& q = plan.parallel;
  key_.assign({q.tensor, q.pipeline, q.data, q.virtual_pipeline, q.zero_stage, q.zero_group, tied, plan.training.deterministic});
  append_words(key_, plan.stack);
  if (const auto known = known_.find(key_); known != known_.end()) return known->second;
  return known_.emplace(key_, read(plan, tied)).first->second;
}

std::vector<Bytes> RuntimeMemory::read(const Plan& plan, bool tied) const {
  static const TaskGraph no_graph;
  const Mesh mesh = make_mesh(plan);
  const Setup setup{no_graph, mesh, topology_, cost_};
  const Communications groups = Groups(plan, tied).take();
  std::vector<Bytes> out;
  for (std::int64_t s = 0; s < plan.parallel.pipeline; ++s) {
    Coords at = mesh.coords(Rank(0));
    at[Axis::pp] = static_cast<std::int32_t>(s);
    out.push_back(topology_.device().runtime_memory + library_memory(plan, topology_.device()) +
                  communicator_buffers(setup, groups, mesh.rank(at), plan.stack.facts.communicators));
  }
  return out;
}

}  // namespace tandem::sim
