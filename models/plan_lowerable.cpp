// What this version lowers. A field leaves this list when a lowering pass for it lands.

#include <nlohmann/json.hpp>

#include "models/plan_fields.hpp"
#include "models/plan_steps.hpp"

namespace tandem {
namespace {

/// One thing that cannot be lowered yet.
struct Gap {
  std::string_view field;
  bool open;                ///< this plan asks for it
  std::string_view lowers;  ///< what this version does lower
};

std::vector<Gap> model_gaps(const Plan& p) {
  const ModelSpec& m = p.model;
  return {
      {"model.family", m.family == Family::bert || m.family == Family::t5, "decoders: gpt, llama and bloom"},
      {"model.norm_placement", m.norm_placement != NormPlacement::pre, "pre"},
      {"model.position_embedding", m.position_embedding == PositionEmbedding::relative, "learned, rope and alibi"},
      {"model.rope_scaling.type", !m.rope_scaling.type.empty(), "rope without scaling"},
      {"model.token_types", m.token_types > 0, "0"},
      {"model.num_kv_heads", m.num_kv_heads % p.parallel.tensor != 0, "a multiple of parallel.tensor"},
      {"model.head_dim", m.head_dim * m.num_attention_heads != m.hidden_size, "hidden_size / num_attention_heads"},
      {"model.moe.num_experts", m.moe.num_experts > 0, "0"},
  };
}

std::vector<Gap> parallel_gaps(const Plan& p) {
  const ParallelSpec& q = p.parallel;
  return {
      {"parallel.context", q.context > 1, "1"},
      {"parallel.expert", q.expert > 1, "1"},
      {"parallel.schedule",
       q.schedule != ScheduleKind::one_f_one_b && q.schedule != ScheduleKind::gpipe && q.pipeline > 1, "1f1b and gpipe"},
      {"parallel.virtual_pipeline", q.virtual_pipeline > 1, "1"},
      {"parallel.sequence_parallel", q.sequence_parallel, "false"},
      {"parallel.zero_stage", q.zero_stage > 0, "0"},
      {"parallel.offload.optimizer", q.offload.optimizer, "false"},
      {"parallel.offload.parameters", q.offload.parameters, "false"},
  };
}

std::vector<Gap> training_gaps(const Plan& p) {
  const TrainingSpec& t = p.training;
  return {
      {"training.recompute", t.recompute == Recompute::selective, "none and full"},
      {"training.recompute_layers", t.recompute_layers > 0, "0, which is all layers"},
      {"training.flash_attention", t.flash_attention, "false"},
      {"training.dtypes.gradient_reduce", t.dtypes.gradient_reduce != t.dtypes.gradients && p.parallel.data > 1,
       "the type of training.dtypes.gradients"},
      {"training.optimizer", t.optimizer.kind != OptimizerKind::adamw, "adamw"},
      {"training.batch_rampup.start", t.batch_rampup.start > 0, "a constant global batch"},
  };
}

std::string bare_value(const Plan& p, std::string_view field) {
  const nlohmann::json v = find_field(field)->write(p);
  return v.is_string() ? v.get<std::string>() : v.dump();
}

Problem not_implemented(const Plan& plan, const Gap& gap) {
  const std::string field(gap.field), value = bare_value(plan, gap.field);
  return {plan.file, field, value, "not implemented: " + field + " " + value,
          "this version lowers " + std::string(gap.lowers)};
}

}  // namespace

void require_lowerable(const Plan& plan) {
  Problems problems;
  for (const auto& gaps : {model_gaps(plan), parallel_gaps(plan), training_gaps(plan)}) {
    for (const Gap& g : gaps) {
      if (g.open) problems.push_back(not_implemented(plan, g));
    }
  }
  if (!problems.empty()) throw InfeasibleError(std::move(problems));
}

}  // namespace tandem
