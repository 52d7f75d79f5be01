#include "models/lowering/stage/stage_groups.hpp"

namespace tandem::lowering {
namespace {

void add(StageGroups& to, Group group, std::int64_t ranks) {
  if (ranks > 1) to.collectives.push_back(group);
}

void add_experts(StageGroups& to, const Plan& plan) {
  const std::int64_t copies = expert_copies(plan), shards = expert_shard_group_size(plan);
  add(to, Group::expert, plan.parallel.expert);
  add(to, Group::expert_tensor, plan.parallel.expert_tensor);
  add(to, Group::expert_data, shards == 1 ? copies : 1);
  add(to, Group::expert_shard, shards);
  add(to, Group::expert_replica, shards > 1 ? copies / shards : 1);
}

/// Context ranks divide the heads of recurrences all together, whatever attention does.
void add_context(StageGroups& to, const Plan& plan) {
  const std::int64_t context = plan.parallel.context, heads = head_ranks(plan.parallel);
  const bool two_levels = heads > 1 && heads < context;
  add(to, Group::context, two_levels && plan.model.recurrence.heads == 0 ? 1 : context);
  add(to, Group::context_heads, two_levels ? heads : 1);
  add(to, Group::context_keys, two_levels ? context / heads : 1);
}

/// The stage with the head sums the loss. Stages with whole gradients reduce them.
StageGroups groups_of(const Plan& plan, bool tied, std::int64_t stage) {
  const ParallelSpec& q = plan.parallel;
  const std::int64_t p = q.pipeline, copies = q.data * q.context, shards = shard_group_size(plan);
  StageGroups out;
  add(out, Group::tensor, q.tensor);
  add_context(out, plan);
  add(out, Group::data, stage == p - 1 || shards == 1 ? copies : 1);
  add(out, Group::shard, shards);
  add(out, Group::replica, shards > 1 ? copies / shards : 1);
  const bool apart = experts_apart(plan);
  if (apart) add_experts(out, plan);
  if (apart || (q.zero_stage > 0 && shards > 1)) add(out, Group::world, plan.world_size());
  else add(out, Group::model, q.tensor * p);
  if (tied && (stage == 0 || stage == p - 1)) add(out, Group::embedding, p);
  for (const int offset : {1, -1}) {
    const bool inside = stage + offset >= 0 && stage + offset < p;
    if (p > 1 && (inside || q.virtual_pipeline > 1)) out.neighbours.push_back(offset);
  }
  return out;
}

}  // namespace

bool experts_apart(const Plan& plan) {
  const ParallelSpec& q = plan.parallel;
  return plan.model.moe.num_experts > 0 && (q.expert > 1 || q.expert_tensor != q.tensor);
}

std::vector<StageGroups> stage_groups(const Plan& plan, bool tied) {
  std::vector<StageGroups> out;
  for (std::int64_t s = 0; s < plan.parallel.pipeline; ++s) out.push_back(groups_of(plan, tied, s));
  return out;
}

}  // namespace tandem::lowering
