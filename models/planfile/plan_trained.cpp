#include "models/planfile/plan_trained.hpp"

#include "models/base/error.hpp"

namespace tandem {
namespace {

bool kept(DType t) { return t == DType::fp32 || t == DType::fp64; }

/// Gradients may travel in another type than they are kept in.
bool one_dtype(const DTypes& d) {
  return kept(d.compute) && kept(d.gradient_reduce) && d.weights == d.compute && d.gradients == d.compute &&
         d.master == d.compute && d.optimizer_state == d.compute;
}

}  // namespace

void require_trainable(const Plan& plan) {
  if (!one_dtype(plan.training.dtypes))
    throw InfeasibleError(Problem{plan.file, "training.precision", plan.training.precision,
                                  "not implemented: this runtime keeps everything in one type, fp32 or fp64, and sums in one of them",
                                  "set training.precision to fp32 and leave training.dtypes out"});
  // A training step of the runtime knows the norm before it updates anything.
  if (plan.parallel.optimizer_sync != OptimizerSync::global)
    throw InfeasibleError(Problem{plan.file, "parallel.optimizer_sync", std::string(name(plan.parallel.optimizer_sync)),
                                  "simulated only: this runtime does not take a step back when the norm says so",
                                  "set parallel.optimizer_sync to global to train"});
}

/// bert's mask is the last token of the vocabulary and stands for nothing in the data.
void require_vocabulary(const Plan& plan, std::int64_t tokens) {
  const bool bert = plan.model.family == Family::bert;
  const std::int64_t needed = tokens + (bert ? 1 : 0);
  if (needed <= plan.model.vocab_size) return;
  throw InfeasibleError(Problem{plan.file, "model.vocab_size", std::to_string(plan.model.vocab_size),
                                "the data has " + std::to_string(tokens) + " different tokens" + (bert ? ", and the mask is one more" : ""),
                                "set model.vocab_size to at least " + std::to_string(needed)});
}

std::vector<std::string> settle_for_training(Plan& plan) {
  std::vector<std::string> notes;
  if (plan.parallel.optimizer_sync != OptimizerSync::global) {
    notes.emplace_back("parallel.optimizer_sync post_validated is simulated only; training synchronises globally");
    plan.parallel.optimizer_sync = OptimizerSync::global;
  }
  if (plan.training.cuda_graphs != CudaGraphs::none) {
    notes.emplace_back("training.cuda_graphs is simulated only; this host computes itself and launches nothing that could be captured");
    plan.training.cuda_graphs = CudaGraphs::none;
  }
  return notes;
}

std::optional<std::string> crowding(const Plan& plan, std::int64_t cores) {
  const std::int64_t devices = plan.cluster.devices;
  if (plan.cluster.generation != "cpu" || devices <= cores) return std::nullopt;
  std::string told = std::to_string(devices) + " devices share the " + std::to_string(cores) +
                     " processors of this machine: its times are not those of the plan's cluster";
  if (devices % cores == 0)
    told += "; to compare with a prediction set cluster.devices to " + std::to_string(cores) +
            " and cluster.override.ranks_per_device to " + std::to_string(devices / cores * plan.cluster.ranks_per_device);
  return told;
}

}  // namespace tandem
