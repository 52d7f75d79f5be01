#include "models/planfile/plan_trained.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "models/ops/row_capacity.hpp"

namespace tandem {
namespace {

bool is_computed(DType t) { return t == DType::fp64 || t == DType::fp32 || t == DType::bf16 || t == DType::fp16; }

struct NamedType {
  const char* field;
  DType type;
};

[[noreturn]] void refuse(const Plan& plan, const NamedType& of, const std::string& reason, const std::string& remedy) {
  throw InfeasibleError(Problem{plan.file, std::string("training.dtypes.") + of.field, std::string(name(of.type)), reason, remedy});
}

/// What is not refused: every type of 16 bits or more, alone or mixed with wider ones, but for fp64, which is alone or what gradients
/// travel in.
void require_precision(const Plan& plan) {
  const DTypes& d = plan.training.dtypes;
  const NamedType all[] = {{"compute", d.compute}, {"weights", d.weights},           {"gradients", d.gradients},
                           {"master", d.master},   {"optimizer_state", d.optimizer_state}, {"gradient_reduce", d.gradient_reduce}};
  for (const NamedType& t : all)
    if (!is_computed(t.type))
      refuse(plan, t, "simulated only: this runtime computes in fp64, fp32, bf16 and fp16",
             !is_computed(d.compute)     ? "set training.precision to bf16, fp16 or fp32"
             : bits(d.compute) >= 32 ? "set it to " + std::string(name(d.compute))
                                     : "set it to " + std::string(name(d.compute)) + " or fp32");
  for (const NamedType& t : std::span(all).first(5))
    if ((t.type == DType::fp64) != (d.compute == DType::fp64))
      refuse(plan, t, "not implemented: fp64 beside a narrower type, except for gradient_reduce", "use fp64 for all of training.dtypes or for none");
  if (d.master != d.weights && bits(d.master) <= bits(d.weights))
    refuse(plan, {"master", d.master}, "is no wider than training.dtypes.weights " + std::string(name(d.weights)),
           "use " + std::string(name(d.weights)) + ", which is no second copy, or fp32");
}

/// Layers that the runtime has no kernels of.
void require_kernels(const Plan& plan) {
  const ModelSpec& m = plan.model;
  const auto fail = [&](const std::string& field, const std::string& value, const std::string& why, const std::string& remedy) {
    throw InfeasibleError(Problem{plan.file, field, value, "simulated only: this runtime " + why, remedy});
  };
  if (m.indexer.blocks())
    fail("model.indexer.block_size", std::to_string(m.indexer.block_size), "has no kernels that choose blocks of keys",
         "set model.indexer.heads to 0 to train attention to all keys");
  const AdapterSpec& lora = plan.training.lora;
  if (lora.dropout > 0 && lora.on_experts())
    fail("training.lora.dropout", value_text(lora.dropout), "draws no masks for rows of routed experts, whose order depends on the layout",
         "set it to 0, or leave targets of experts out of training.lora.targets");
  if (lora.quantizes() && lora.double_quantization)
    fail("training.lora.double_quantization", "true", "quantizes no scales", "set it to false to train with fp32 scales");
  if (plan.training.fp8_activation_inputs)
    fail("training.fp8_activation_inputs", "true", "has no kernels that write 8 bits", "set it to false to keep them as they are");
}

/// Models whose documents the runtime cannot keep apart.
void require_separable(const Plan& plan) {
  if (plan.training.documents == Documents::joined) return;
  const ModelSpec& m = plan.model;
  const auto fail = [&](const std::string& why) {
    throw InfeasibleError(Problem{plan.file, "training.documents", "separate", "not implemented: this runtime " + why,
                                  "set training.documents to joined"});
  };
  if (m.family == Family::bert || m.family == Family::t5) fail("keeps documents apart only where tokens see none behind them, not in " + std::string(name(m.family)));
  if (m.recurrence.heads > 0) fail("has no recurrences that begin anew at a document (model.recurrence)");
  if (m.indexer.heads > 0) fail("has no indexers that choose within a document (model.indexer)");
  if (m.mtp.num_layers > 0) fail("counts no targets that a document's end takes from modules (model.mtp)");
}

}  // namespace

void require_trainable(const Plan& plan) {
  require_precision(plan);
  require_kernels(plan);
  require_separable(plan);
  // A training step of the runtime knows the norm before it updates anything.
  if (plan.parallel.optimizer_sync != OptimizerSync::global)
    throw InfeasibleError(Problem{plan.file, "parallel.optimizer_sync", std::string(name(plan.parallel.optimizer_sync)),
                                  "simulated only: this runtime does not undo an update after the norm is known",
                                  "set parallel.optimizer_sync to global to train"});
}

/// bert's mask is the last token of the vocabulary and stands for nothing in the data.
void require_vocabulary(const Plan& plan, std::int64_t tokens) {
  const bool bert = plan.model.family == Family::bert;
  const std::int64_t needed = tokens + (bert ? 1 : 0);
  if (needed <= plan.model.vocab_size) return;
  std::string reason = "the data's tokens are numbers from 0 to " + std::to_string(tokens - 1), remedy = "set model.vocab_size to at least " + std::to_string(needed);
  if (bert) reason += ", and the mask is one more";
  if (bert && tokens == plan.model.vocab_size) remedy += ", or --mask-token to the mask's number if it is one of them";
  throw ConfigError(Problem{plan.file, "model.vocab_size", std::to_string(plan.model.vocab_size), reason, remedy});
}

std::vector<std::string> settle_for_training(Plan& plan, bool replays) {
  std::vector<std::string> notes;
  const std::string& generation = plan.cluster.generation;
  if (!replays && !generation.empty() && generation != "cpu")
    notes.push_back("is trained on this machine's CPUs, not on " + plan.cluster.preset + " (cluster.preset)");
  const auto said = [&](std::string_view field) {  // by the plan, and not by its stack
    const auto& defaults = plan.stack.facts.defaults;
    return std::none_of(defaults.begin(), defaults.end(), [&](const StackDefault& d) { return d.field == field; });
  };
  if (plan.parallel.optimizer_sync != OptimizerSync::global) {
    notes.emplace_back("parallel.optimizer_sync post_validated is simulated only; training synchronises globally");
    plan.parallel.optimizer_sync = OptimizerSync::global;
  }
  const CudaGraphs graphs = plan.training.cuda_graphs;
  if (graphs != CudaGraphs::none && !(replays && graphs == CudaGraphs::iteration)) {
    const char* layers = "training.cuda_graphs layers is simulated only; this runtime captures whole iterations or nothing";
    const char* host = "training.cuda_graphs is simulated only; this host computes itself and launches nothing that could be captured";
    if (said("training.cuda_graphs")) notes.emplace_back(replays ? layers : host);
    plan.training.cuda_graphs = CudaGraphs::none;
  }
  return notes;
}

void settle_for_evaluation(Plan& plan) {
  plan.training.fusion.one_kernel_loss = false;  // such a kernel writes no sums
  plan.training.fusion.loss_in_place = false;    // logits in place of a gradient have its type, which that kernel determines
}

std::int64_t computing_threads(const Plan& plan) {
  const std::string& generation = plan.cluster.generation;
  return generation.empty() || generation == "cpu" ? plan.cluster.threads_per_rank : 1;
}

std::optional<std::string> crowding(const Plan& plan, std::int64_t cores) {
  const std::int64_t devices = plan.cluster.devices, threads = plan.cluster.threads_per_rank;
  if (plan.cluster.generation != "cpu" || devices * threads <= cores) return std::nullopt;
  std::string told = std::to_string(devices) + (devices == 1 ? " device" : " devices");
  if (threads > 1)
    told += " of " + std::to_string(threads) + (devices == 1 ? " processors (cluster.threads_per_rank)" : " processors each (cluster.threads_per_rank)");
  told += std::string(devices == 1 ? " has only" : " share") + " the " + std::to_string(cores) +
          (cores == 1 ? " processor" : " processors") + " of this machine: its times are not those of the plan's cluster";
  if (threads == 1 && devices % cores == 0)
    told += "; to compare with a prediction set cluster.devices to " + std::to_string(cores) +
            " and cluster.override.ranks_per_device to " + std::to_string(devices / cores * plan.cluster.ranks_per_device);
  return told;
}

std::string too_many_rows(const Plan& plan, const RowsError& error) {
  const double bound = plan.model.moe.rows_bound;
  // A bound that is too low for some rows is below the number of ranks; then the room is the bound times an even share, rounded up.
  const double share = std::floor(static_cast<double>(error.capacity()) / bound * (1 + 1e-12));  // 33 / 1.1 is 30
  const double needed = share < 1 ? 0 : std::ceil(100 * static_cast<double>(error.rows()) / share) / 100;
  const std::string needs = "the step needs " + (needed > 0 ? "at least " + nlohmann::json(needed).dump() : "more");
  const std::string remedy = std::to_string(plan.parallel.expert) + " (the number of expert ranks) never fails";
  return Problem{plan.file, "model.moe.rows_bound", nlohmann::json(bound).dump(), needs, remedy}.message();
}

}  // namespace tandem
