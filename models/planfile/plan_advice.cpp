#include "models/planfile/plan_advice.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/base/text.hpp"
#include "models/planfile/attention_kernels.hpp"
#include "models/stack/gradient_buckets.hpp"
#include "models/stack/unmet_defaults.hpp"

namespace tandem {
namespace {

/// Reductions of whole gradients beside the passes of a stage with chunks, for which the other stages wait.
bool reduces_beside_chunks(const ParallelSpec& p) {
  return p.overlap_grad_reduce && has_chunks(p.schedule) && p.pipeline > 1 && p.data * p.context > 1 && p.zero_stage <= 1;
}

/// A zero-bubble schedule whose stages end at once, because the update waits for the norm of all gradients (arXiv 2401.10241, section 4).
bool waits_for_the_norm(const ParallelSpec& p) {
  const bool zero_bubble = p.schedule == ScheduleKind::zb_h2 || p.schedule == ScheduleKind::zb_v;
  return zero_bubble && p.pipeline > 1 && p.optimizer_sync == OptimizerSync::global;
}

/// Whether the plan's stack recomputes every second product, which is not implemented beside adapters.
bool lacks_recomputed_products(const Plan& plan) {
  const TrainingSpec& t = plan.training;
  const bool operations = t.recompute == Recompute::selective && std::ranges::count(t.recompute_modules, "operations") > 0;
  return t.lora.here() && operations && !t.recompute_products && !unmet_defaults(plan, "training.recompute_every_second_matmul").empty();
}

/// Whether a larger parallel.expert divides the experts and the ranks of a stage.
bool has_more_expert_ranks(const Plan& plan) {
  const ParallelSpec& p = plan.parallel;
  if (plan.model.moe.num_experts == 0) return false;
  return std::gcd(plan.model.moe.num_experts, p.data * p.context * p.tensor / p.expert_tensor) > p.expert;
}

/// Whether the order of ranks asks for expert ranks that are no neighbours, which `Mesh` does not have.
bool spreads_expert_ranks(const Plan& plan) {
  const ParallelSpec& p = plan.parallel;
  return plan.model.moe.num_experts > 0 && p.expert > 1 && p.data > 1 && p.rank_order.find("ep") > p.rank_order.find("dp");
}

/// Whether rotary positions go beyond those that the model was made for.
bool exceeds_positions(const Plan& plan) {
  return plan.model.position_embedding == PositionEmbedding::rope && plan.training.seq_length > plan.model.max_position_embeddings;
}

}  // namespace

std::vector<std::string> plan_advice(const Plan& plan) {
  const TrainingSpec& t = plan.training;
  std::vector<std::string> notes;
  if (t.batch_rampup.start > 0)
    notes.push_back("step time is that of the full batch, after a ramp-up of " + std::to_string(t.batch_rampup.samples) + " samples");
  if (t.recompute == Recompute::selective && t.flash_attention && t.recompute_modules == std::vector<std::string>{"core_attention"})
    notes.push_back("recomputing attention saves little memory here, because flash attention keeps no scores");
  if (lacks_recomputed_products(plan))
    notes.push_back("stack " + plan.stack.name + " also recomputes every second product of a layer. Beside adapters (training.lora) this is not implemented: all products are kept here");
  if (reduces_beside_chunks(plan.parallel) && !gradient_buckets(plan).aligned)
    notes.push_back("reductions beside a chunk's passes (parallel.overlap_grad_reduce) slow one stage after the other, and all stages wait for each: the step may be shorter without overlap, or if the framework starts them on all stages at once (Megatron-LM's align_grad_reduce)");
  if (spreads_expert_ranks(plan))
    notes.push_back("the place of ep in parallel.rank_order changes nothing: expert ranks divide the ranks of a stage, tp fastest, then cp, then dp");
  if (waits_for_the_norm(plan.parallel))
    notes.push_back(std::string(name(plan.parallel.schedule)) +
                    " has no zero bubble while stages wait for the global norm: parallel.optimizer_sync post_validated lets steps overlap");
  if (exceeds_positions(plan))
    notes.push_back("sequences of " + std::to_string(t.seq_length) + " tokens are longer than model.max_position_embeddings, " +
                    std::to_string(plan.model.max_position_embeddings) +
                    ": the figures hold, but the model was not made for such positions (model.rope_scaling stretches them)");
  if (t.recompute == Recompute::full && splits_backward(plan.parallel.schedule) && plan.parallel.pipeline > 1)
    notes.push_back("recomputing layers saves less memory in " + std::string(name(plan.parallel.schedule)) +
                    ": what is computed again is kept until a layer's weight gradients, which this schedule delays");
  if (plan.parallel.offload.optimizer)
    notes.push_back("offloaded states are copied to the device and updated there: DeepSpeed's CPUAdam and Megatron-LM's --optimizer-cpu-offload update "
                    "on the host, which takes longer");
  if (!plan.parallel.offload.activations.empty())
    notes.push_back("offloaded activations leave and come back one copy after the other: Megatron-LM copies in both directions at "
                    "once, which takes less time where the host's link is the limit");
  if (t.optimizer.kind == OptimizerKind::muon && std::max(plan.parallel.tensor, plan.parallel.expert_tensor) > 1)
    notes.push_back("Muon makes each tensor rank's share of a matrix orthogonal alone, as Megatron-LM's --muon-tp-mode blockwise: its results depend on "
                    "parallel.tensor and expert_tensor");
  if (plan.stack.facts.whole_between_micro_batches)
    notes.push_back("ZeRO " + std::to_string(plan.parallel.zero_stage) + " saves no weights or gradients here: pipelines of stack " + plan.stack.name +
                    " hold them whole through the step and exchange them once");
  if (t.lora.quantizes())
    notes.push_back("the time of dequantizing (training.lora.base " + std::string(name(t.lora.base)) +
                    ") is that of the bytes that it reads and writes: it was never compared with bitsandbytes' kernels");
  if (t.documents == Documents::separate)
    notes.push_back("attention takes as long as if each sequence were one document (training.documents): a plan does not know how long documents are");
  notes.insert(notes.end(), plan.ineffective.begin(), plan.ineffective.end());
  notes.insert(notes.end(), plan.stack.facts.notes.begin(), plan.stack.facts.notes.end());
  return notes;
}

std::string memory_advice(const Plan& plan) {
  const ParallelSpec& p = plan.parallel;
  std::vector<std::string> ways;
  if (plan.training.recompute != Recompute::full) ways.emplace_back("recompute more (training.recompute)");
  if (plan.training.micro_batch_size > 1) ways.emplace_back("take smaller micro-batches (training.micro_batch_size)");
  if (p.data > 1 && (p.zero_stage == 0 || (p.zero_stage < 3 && p.pipeline == 1))) ways.emplace_back("shard more (parallel.zero_stage)");
  if (has_more_expert_ranks(plan)) ways.emplace_back("spread the experts over more ranks (parallel.expert)");
  ways.emplace_back(p.tensor > 1 || p.pipeline > 1 ? "split it further" : "split it by tensor or pipeline");
  ways.emplace_back("let `tandem search` find a layout that fits");
  return list_text(ways, "or");
}

std::string host_note(const Plan& plan, double share, bool cuda) {
  if (!host_limits(share)) return "";
  return "the host limits the step, not the device: it launches tasks for " + std::to_string(std::lround(share * 100)) +
         " % of the time; what shortens it: " + fewer_launches(plan, cuda);
}

std::string fewer_launches(const Plan& plan, bool cuda) {
  std::string text = "larger micro-batches";
  if (plan.parallel.tensor > 1) text += ", fewer tensor ranks";
  if (cuda && plan.training.cuda_graphs == CudaGraphs::none) text += ", captured launches (training.cuda_graphs)";
  return text;
}

bool is_unused_fact(std::string_view fact, const Plan& plan) {
  const TrainingSpec& t = plan.training;
  if (fact.find("communication.") != fact.npos) return plan.world_size() == 1;
  if (fact.find("fp4_ceiling") != fact.npos) return bits(t.dtypes.compute) > 4;
  const auto is_of = [&](std::string_view kernel) { return fact.find(std::string(kernel) + "_attention.") != fact.npos; };
  const AttentionKernels run = attention_kernels(plan);
  for (const AttentionKernel k : {AttentionKernel::flash1, AttentionKernel::triton, AttentionKernel::tuned, AttentionKernel::own})
    if (is_of(name(k))) return !run.has(k);
  // An indexer and a recurrence have FlashAttention 2's rate, too, and so have kernels without a fit of their own.
  const bool like_attention = plan.model.indexer.heads > 0 || plan.model.recurrence.heads > 0;
  return is_of("flash") && !like_attention && (run.forward.empty() || run.only_own());
}

}  // namespace tandem
