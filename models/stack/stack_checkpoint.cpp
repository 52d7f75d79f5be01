#include "models/stack/stack_checkpoint.hpp"

#include "models/plan/active_parameters.hpp"
#include "models/stack/stack_file.hpp"

namespace tandem {
namespace {

/// PyTorch's FSDP shards the wide weights and casts them as it gathers, so no narrow ones are there to write.
bool shards_master_alone(const ParallelSpec& p) { return p.zero_stage == 3 && p.unit_copies != UnitCopies::none; }

}  // namespace

StackCheckpoint stack_checkpoint(const Plan& plan) {
  const auto stack = load_stack(plan.stack.name);
  const CheckpointEntry* entry = first_that_holds(stack->checkpoints, plan.stack.as_of, plan);
  return entry == nullptr ? StackCheckpoint{} : entry->of;
}

double checkpoint_bytes(const Plan& plan) {
  const StackCheckpoint habit = stack_checkpoint(plan);
  const auto written = [&](DType held) { return bits(habit.floats.value_or(held)); };
  const DTypes& types = plan.training.dtypes;
  const OptimizerKind kind = plan.training.optimizer.kind;
  const int moments = kind == OptimizerKind::sgd || kind == OptimizerKind::muon ? 1 : 2;
  const bool has_master = types.master != types.weights;
  const bool master_alone = has_master && (!habit.narrow_weights || shards_master_alone(plan.parallel));
  const ParameterCount count = count_parameters(plan.model, plan.model.vocab_size);
  const auto all = static_cast<double>(count.total);
  const auto adapters = static_cast<double>(trained_in_adapters(plan));
  const double trained = adapters > 0 ? adapters : all, weights = all + adapters - (master_alone ? trained : 0);
  const int states = (has_master ? written(types.master) : 0) + moments * written(types.optimizer_state);
  // Muon keeps second moments of embedding and head. Those of norms and biases are left out: under a thousandth.
  const double squares = kind == OptimizerKind::muon ? static_cast<double>(count.embedding + count.head) : 0;
  return (weights * written(types.weights) + trained * states + squares * written(types.optimizer_state)) / 8;
}

}  // namespace tandem
