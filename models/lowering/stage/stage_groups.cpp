#include "models/lowering/stage/stage_groups.hpp"

namespace tandem::lowering {
namespace {

void add(StageGroups& to, Group group, std::int64_t ranks) {
  if (ranks > 1) to.collectives.push_back(group);
}

/// The loss is summed where the model ends; gradients wherever they are whole.
StageGroups groups_of(const Plan& plan, bool tied, std::int64_t stage) {
  const ParallelSpec& q = plan.parallel;
  const std::int64_t p = q.pipeline, shards = shard_group_size(plan);
  StageGroups out;
  add(out, Group::tensor, q.tensor);
  add(out, Group::data, stage == p - 1 || shards == 1 ? q.data : 1);
  add(out, Group::shard, shards);
  add(out, Group::replica, shards > 1 ? q.data / shards : 1);
  if (q.zero_stage > 0 && shards > 1) add(out, Group::world, plan.world_size());
  else add(out, Group::model, q.tensor * p);
  if (tied && (stage == 0 || stage == p - 1)) add(out, Group::embedding, p);
  for (const int offset : {1, -1}) {
    const bool inside = stage + offset >= 0 && stage + offset < p;
    if (p > 1 && (inside || q.virtual_pipeline > 1)) out.neighbours.push_back(offset);
  }
  return out;
}

}  // namespace

std::vector<StageGroups> stage_groups(const Plan& plan, bool tied) {
  std::vector<StageGroups> out;
  for (std::int64_t s = 0; s < plan.parallel.pipeline; ++s) out.push_back(groups_of(plan, tied, s));
  return out;
}

}  // namespace tandem::lowering
