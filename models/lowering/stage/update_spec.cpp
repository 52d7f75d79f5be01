#include "models/lowering/stage/update_spec.hpp"

#include "models/lowering/stage/stage_groups.hpp"

namespace tandem::lowering {

UpdateSpec update_spec(const Plan& plan, const Shapes& s, const Sharding& z, std::int64_t flat, std::int64_t shard) {
  const ParallelSpec& q = plan.parallel;
  UpdateSpec u;
  u.state_elements = u.own_elements = shard;
  u.gradient_elements = z.zero_stage > 1 ? shard : flat;
  u.weight_elements = z.zero_stage == 3 ? shard : flat;
  const bool world = (q.zero_stage > 0 && z.shards > 1) || experts_apart(plan);
  u.norm_group = world ? Group::world : Group::model;
  u.norm_is_shared = world ? plan.world_size() > 1 : q.tensor * q.pipeline > 1;
  u.post_validated = q.optimizer_sync == OptimizerSync::post_validated;
  u.optimizer = plan.training.optimizer;
  const TrainingSpec& t = plan.training;
  u.clip_grad = t.clip_grad;
  if (t.scales_loss()) u.loss_scale = t.loss_scale;
  u.stochastic = t.stochastic_rounding && t.rounds_states();
  u.weights = s.stored_weights();
  return u;
}

}  // namespace tandem::lowering
