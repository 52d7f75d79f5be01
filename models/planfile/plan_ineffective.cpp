// Fields that a plan spells out and that change nothing beside its other fields. They are told, not refused: a plan whose experts
// were taken away to compare should not have to lose their sizes.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/fields/plan_fields.hpp"
#include "models/planfile/attention_kernels.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/planfile/plan_steps.hpp"

namespace tandem {
namespace {

struct Ineffective {
  std::string_view field;  ///< or, ending in '.', all fields below
  bool idle;
  std::string_view because;
};

/// An array, because a search asks for it of millions of plans.
auto table(const Plan& p) {
  const bool rotary = p.model.position_embedding == PositionEmbedding::rope;
  const bool experts = p.model.moe.num_experts > 0, offloads = p.parallel.offload.optimizer || p.parallel.offload.parameters;
  const bool allgather = p.parallel.token_dispatcher == TokenDispatcher::allgather;
  const bool shares_rows = p.parallel.sequence_parallel && p.parallel.expert_tensor > 1;
  const bool gathers_tokens = allgather && (shares_rows || p.training.fusion.rows_by_element);
  const bool latent = p.model.latent.kv_rank > 0;
  const OptimizerSpec& o = p.training.optimizer;
  const bool sgd = o.kind == OptimizerKind::sgd, stays_at_peak = o.learning_rate.decay == DecayShape::constant;
  const std::string_view no_moments = "sgd has neither moments nor their root (training.optimizer)";
  const std::string& scaling = p.model.rope_scaling.type;
  const bool whole = p.parallel.zero_stage == 3 && p.stack.facts.whole_between_micro_batches;
  const bool one_copy = p.parallel.data * p.parallel.context == 1 && !experts;
  const bool gathers = p.parallel.zero_stage > 0 || p.training.cuda_graphs != CudaGraphs::none;
  const std::string_view stays = "pipelines of this stack have weights whole between micro-batches";
  const bool norm_comes_last = p.model.norm_placement == NormPlacement::post || p.model.norm_placement == NormPlacement::post_add;
  const WindowSpec& window = p.model.window;
  const bool apart = window.size > 0 || !window.full_rotary;  // layers w from layers f
  const bool all_windows = apart && window.layers.find('f') == std::string::npos;
  const bool own_base = rotary && all_windows && p.model.window.rope_theta > 0;
  const std::string_view all_have_it = "all layers have the window and model.window.rope_theta";
  const MoeSpec& moe = p.model.moe;
  const bool all_groups = moe.groups_per_token == 0 || moe.groups_per_token == moe.expert_groups;
  const bool selective = p.training.recompute == Recompute::selective;
  const auto only = [&](std::initializer_list<std::string_view> idle) {
    return std::all_of(p.training.recompute_modules.begin(), p.training.recompute_modules.end(),
                       [&](const std::string& m) { return std::find(idle.begin(), idle.end(), m) != idle.end(); });
  };
  const std::vector<std::string>&repeated = p.training.recompute_modules, &on_host = p.parallel.offload.activations;
  const bool of_experts = std::all_of(on_host.begin(), on_host.end(), [](const std::string& m) { return m.starts_with("moe"); });
  const bool repeats_operations = selective && std::find(repeated.begin(), repeated.end(), "operations") != repeated.end();
  const bool repeats_mlp = selective && std::any_of(repeated.begin(), repeated.end(), [](const std::string& m) {
    return m == "mlp" || m == "moe" || m == "shared_experts";
  });
  const AttentionKernel kernel = p.training.attention_kernel;
  const bool own_runs = kernel != AttentionKernel::own && attention_kernels(p, kernel).only_own();
  const bool of_length = scaling == "llama3" || scaling == "yarn";
  return std::to_array<Ineffective>({
      {"model.rope_theta", !rotary, "positions are not rotary"},
      {"model.rotary_fraction", !rotary, "positions are not rotary"},
      {"model.rope_scaling.", !rotary, "positions are not rotary"},
      {"model.rope_scaling.factor", rotary && scaling.empty(), "model.rope_scaling.type is none"},
      {"model.rope_scaling.original_max_position_embeddings", rotary && !of_length,
       "model.rope_scaling.type is neither llama3 nor yarn"},
      {"model.rope_scaling.beta_fast", rotary && scaling != "yarn", "model.rope_scaling.type is not yarn"},
      {"model.rope_scaling.beta_slow", rotary && scaling != "yarn", "model.rope_scaling.type is not yarn"},
      {"model.rope_scaling.truncate", rotary && scaling != "yarn", "model.rope_scaling.type is not yarn"},
      {"model.rope_scaling.mscale_all_dim", rotary && scaling != "yarn", "model.rope_scaling.type is not yarn"},
      {"model.rotary_fraction", rotary && latent, "attention is latent: model.latent.rotary_dim"},
      {"model.latent.", !latent, "model.latent.kv_rank is 0"},
      {"model.indexer.", p.model.indexer.heads == 0, "model.indexer.heads is 0"},
      {"model.indexer.topk", p.model.indexer.heads > 0 && p.model.indexer.topk >= p.training.seq_length,
       "a sequence has no more keys (training.seq_length)"},
      {"model.recurrence.", p.model.recurrence.heads == 0, "model.recurrence.heads is 0"},
      {"model.qk_norm", !rotary && p.model.qk_norm == QkNorm::turned, "positions are not rotary"},
      {"model.output_bias", p.model.family == Family::bert, "the head of bert has a bias of its own"},
      {"model.norm_bias", p.model.normalization == Normalization::rmsnorm, "RMS norms have none (model.normalization)"},
      {"model.window.", !apart, "model.window.size is 0"},
      {"model.window.chunked", apart && window.size == 0, "model.window.size is 0"},
      {"model.window.rope_theta", !rotary, "positions are not rotary"},
      {"model.window.full_rotary", !rotary, "positions are not rotary"},
      {"model.window.full_rotary", rotary && all_windows, "all layers have the window or the letter w (model.window.layers)"},
      {"model.num_kv_heads", all_windows && window.num_kv_heads > 0, "all layers have the window and model.window.num_kv_heads"},
      {"model.head_dim", all_windows && window.head_dim > 0, "all layers have the window and model.window.head_dim"},
      {"model.value_dim", all_windows && (window.head_dim > 0 || window.value_dim > 0),
       "all layers have the window and values of their own width"},
      {"model.window.own_values", !p.model.tie_kv, "model.tie_kv is false"},
      {"model.tie_kv", p.model.tie_kv && all_windows && window.own_values, "all layers have the window and values of their own"},
      {"model.window.full_sinks", !p.model.attention_sinks, "model.attention_sinks is false"},
      {"model.window.full_sinks", p.model.attention_sinks && all_windows, "all layers have the window"},
      {"model.rope_theta", own_base, all_have_it},
      {"model.rope_scaling.", own_base, all_have_it},
      {"model.moe.", !experts, "model.moe.num_experts is 0"},
      {"model.moe.normalize_weights", experts && moe.experts_per_token == 1, "model.moe.experts_per_token is 1"},
      {"model.moe.shared_ffn_hidden_size", experts && moe.num_shared_experts == 0, "model.moe.num_shared_experts is 0"},
      {"model.moe.shared_gate", experts && moe.num_shared_experts == 0, "model.moe.num_shared_experts is 0"},
      {"model.moe.expert_groups", experts && all_groups, "experts of all groups may be chosen (model.moe.groups_per_token)"},
      {"model.moe.group_score", experts && all_groups, "experts of all groups may be chosen (model.moe.groups_per_token)"},
      {"model.mtp.loss_scale", p.model.mtp.num_layers == 0, "model.mtp.num_layers is 0"},
      {"cluster.threads_per_rank", !p.cluster.generation.empty() && p.cluster.generation != "cpu",
       "the device of cluster.preset is no processor"},
      {"parallel.expert", !experts, "model.moe.num_experts is 0"},
      {"parallel.expert_tensor", !experts, "model.moe.num_experts is 0"},
      {"parallel.overlap_experts", !experts, "model.moe.num_experts is 0"},
      {"parallel.overlap_experts", experts && p.parallel.expert == 1, "parallel.expert is 1: no rows travel"},
      {"parallel.overlap_experts", p.runs_pairs() && p.training.global_batch_size == p.training.micro_batch_size * p.parallel.data,
       "a step has one micro-batch: no other one computes meanwhile"},
      {"parallel.token_dispatcher", !experts, "model.moe.num_experts is 0"},
      {"parallel.token_dispatcher", experts && p.parallel.expert == 1 && !gathers_tokens,
       "parallel.expert is 1: no rows travel"},
      {"training.dtypes.dispatch", !p.sends_copies(), "tokens travel as activations unless parallel.token_dispatcher is deepep"},
      {"parallel.overlap_tensor_sum", p.parallel.tensor == 1, "parallel.tensor is 1"},
      {"parallel.overlap_tensor_sum", p.parallel.tensor > 1 && p.parallel.tensor_overlap, "parallel.tensor_overlap does the same and more"},
      {"parallel.tensor_overlap", p.parallel.tensor == 1, "parallel.tensor is 1"},
      {"parallel.scatter_gather_tensors_in_pipeline", p.parallel.pipeline == 1, "parallel.pipeline is 1"},
      {"parallel.scatter_gather_tensors_in_pipeline", p.parallel.pipeline > 1 && p.parallel.tensor == 1, "parallel.tensor is 1"},
      {"parallel.scatter_gather_tensors_in_pipeline", p.parallel.pipeline > 1 && p.parallel.sequence_parallel, "tensor ranks hold shares (parallel.sequence_parallel)"},
      {"parallel.reduce_scatter", one_copy, "parallel.data and parallel.context are 1: gradients are not reduced"},
      {"parallel.reduce_scatter", p.parallel.zero_stage != 1 && p.parallel.zero_stage != 2, "parallel.zero_stage is neither 1 nor 2"},
      {"parallel.reduce_scatter", p.parallel.zero_stage == 1 && o.kind == OptimizerKind::muon, "owners of muon's parameters need whole sums"},
      {"parallel.overlap_grad_reduce", one_copy, "parallel.data and parallel.context are 1: gradients are not reduced"},
      {"parallel.overlap_param_gather", !gathers, "parallel.zero_stage is 0: weights are not gathered"},
      {"parallel.overlap_param_gather", gathers && one_copy && p.training.cuda_graphs == CudaGraphs::none,
       "parallel.data and parallel.context are 1: weights are not gathered"},
      {"parallel.offload.ratio", !offloads, "nothing is offloaded"},
      {"parallel.offload.layers", on_host.empty(), "parallel.offload.activations is empty"},
      {"parallel.offload.activations", !experts && of_experts, "no layer has experts (model.moe.num_experts)"},
      {"parallel.prefetch_layers", p.parallel.zero_stage != 3, "parallel.zero_stage is not 3"},
      {"parallel.reuse_distance", p.parallel.zero_stage != 3, "parallel.zero_stage is not 3"},
      {"parallel.fsdp_copies", p.parallel.zero_stage != 3, "parallel.zero_stage is not 3"},
      {"parallel.root_unit", p.parallel.zero_stage != 3, "parallel.zero_stage is not 3"},
      {"parallel.prefetch_layers", whole, stays},
      {"parallel.reuse_distance", whole, stays},
      {"parallel.fsdp_copies", whole, stays},
      {"parallel.root_unit", whole, stays},
      {"parallel.context_mode", p.parallel.context == 1, "parallel.context is 1"},
      {"parallel.context_mode", p.parallel.context > 1 && p.parallel.ulysses == p.parallel.context,
       "parallel.ulysses is parallel.context: all context ranks exchange heads, as in context_mode ulysses"},
      {"parallel.ulysses", p.parallel.context > 1 && p.parallel.context_mode == ContextMode::ulysses,
       "parallel.context_mode is ulysses: all context ranks exchange heads"},
      {"training.recompute_layers", p.training.recompute == Recompute::none, "training.recompute is none"},
      {"training.recompute_modules", p.training.recompute != Recompute::selective, "training.recompute is not selective"},
      {"training.recompute_modules",
       selective && !latent && only({"mla_up_proj"}),
       "attention is not latent (model.latent.kv_rank)"},
      {"training.recompute_modules", selective && !experts && only({"moe", "moe_activation", "shared_experts"}), "no layer has experts (model.moe.num_experts)"},
      {"training.recompute_modules", selective && !experts && !latent && p.training.fusion.norm_in_product_module && only({"norm"}),
       "norms are modules with the products behind them (training.fusion)"},
      {"training.recompute_modules", selective && experts && moe.shared_ffn() == 0 && only({"shared_experts"}),
       "no layer has shared experts (model.moe.num_shared_experts)"},
      {"training.recompute_modules", selective && experts && moe.first_dense_layers == 0 && moe.layer_frequency == 1 && only({"mlp"}), "all layers have experts (moe)"},
      {"training.recompute_every_second_matmul", !repeats_operations, "training.recompute_modules does not list operations"},
      {"training.recompute_early_stop", p.training.recompute != Recompute::full && !repeats_mlp,
       "training.recompute is not full, and training.recompute_modules lists no mlp, moe or shared_experts"},
      {"training.recompute_early_stop",
       p.training.recompute == Recompute::full && p.training.dropout.hidden > 0 && p.training.fusion.dropout_masks,
       "a dropout follows the last product (training.dropout.hidden), whose mask is kept and drawn again (training.fusion)"},
      {"training.recompute_early_stop", p.training.recompute == Recompute::full && norm_comes_last,
       "a norm follows the last product (model.norm_placement), which keeps what it reads"},
      {"training.lora.alpha", !p.training.lora.here(), "training.lora.rank is 0"},
      {"training.lora.dropout", !p.training.lora.here(), "training.lora.rank is 0"},
      {"training.lora.targets", !p.training.lora.here(), "training.lora.rank is 0"},
      {"training.lora.base", !p.training.lora.here(), "training.lora.rank is 0"},
      {"training.lora.double_quantization", !p.training.lora.quantizes(), "training.lora.base is plain"},
      {"training.attention_kernel", !p.training.flash_attention, "training.flash_attention is false"},
      {"training.attention_kernel", own_runs, "Tandem's own kernel runs, as libraries have none for this attention"},
      {"training.fill_uninitialized_memory", !p.training.deterministic, "training.deterministic is false"},
      {"training.fill_uninitialized_memory", p.training.deterministic && !p.training.fusion.allocates_by_dispatcher,
       "tensors of this training.fusion are not allocated by calls of PyTorch that fill them"},
      {"training.loss_scale.", !p.training.scales_loss(), "training.dtypes.compute is not fp16"},
      {"training.stochastic_rounding", !p.training.rounds_states(), "weights and moments have copies of more than 16 bits"},
      {"training.momentum", o.kind != OptimizerKind::sgd && o.kind != OptimizerKind::muon, "training.optimizer is neither sgd nor muon"},
      {"training.muon.", o.kind != OptimizerKind::muon, "training.optimizer is not muon"},
      {"training.beta1", sgd, no_moments},
      {"training.beta2", sgd, no_moments},
      {"training.epsilon", sgd, no_moments},
      {"training.min_learning_rate", stays_at_peak, "training.learning_rate_decay is constant"},
      {"training.decay_over", stays_at_peak, "training.learning_rate_decay is constant"},
      {"training.learning_rate_unit", stays_at_peak && o.learning_rate.warmup == 0,
       "training.learning_rate_decay is constant and training.warmup 0"},
      {"training.decay_start", stays_at_peak, "training.learning_rate_decay is constant"},
      {"training.decay_power", o.learning_rate.decay != DecayShape::polynomial, "training.learning_rate_decay is not polynomial"},
  });
}

/// Whether a field has the value that it would have had: a plan printed with every default has said nothing by most of them.
bool is_default(const Plan& plan, const Given& given, const std::string& path) {
  const PlanField& field = *find_field(path);
  Given others = given;
  others.erase(path);
  Plan without = plan;
  const nlohmann::json fresh = field.write(Plan());
  if (fresh.is_null()) return false;  // printed only where it has an effect, so somebody wrote it
  field.read(fresh, without);
  fill_defaults(without, others);
  return field.write(plan) == field.write(without);
}

bool named(std::string_view row, std::string_view field) {
  return row == field || (row.ends_with('.') && field.starts_with(row));
}

}  // namespace

IdleRows idle_rows(std::string_view field) {
  IdleRows out;
  const auto rows = table(Plan());  // every plan's names the same fields
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (named(rows[i].field, field)) out.push_back(i);
  return out;
}

IdleFields::IdleFields(const Plan& plan) {
  const auto rows = table(plan);
  static_assert(rows.size() <= decltype(idle_)().size());
  for (std::size_t i = 0; i < rows.size(); ++i) idle_[i] = rows[i].idle;
}

bool IdleFields::has(const IdleRows& rows) const {
  return std::any_of(rows.begin(), rows.end(), [&](std::size_t row) { return idle_[row]; });
}

std::vector<std::string> ineffective_fields(const Plan& plan, const Given& given) {
  std::vector<std::string> out;
  for (const Ineffective& row : table(plan)) {
    if (!row.idle) continue;
    for (const std::string& field : given)
      if (named(row.field, field) && field != "model.moe.num_experts" && !is_default(plan, given, field))
        out.push_back(field + " changes nothing: " + std::string(row.because));
  }
  return out;
}

}  // namespace tandem
