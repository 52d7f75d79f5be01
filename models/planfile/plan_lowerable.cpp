// What this version supports. A field leaves this list when a lowering pass for it lands.

#include <nlohmann/json.hpp>

#include "models/fields/plan_fields.hpp"
#include "models/plan/adapter_parts.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/planfile/plan_steps.hpp"
#include "models/planfile/ring.hpp"

namespace tandem {
namespace {

/// One thing that no lowering has yet.
struct Gap {
  std::string_view field;
  bool open;                ///< this plan asks for it
  std::string_view lowers;  ///< what this version does support
  std::string more = {};    ///< behind that
};

/// Those of some gaps that a plan asks for. A search asks of millions of plans, most of which ask for none.
class Open {
 public:
  Open(std::initializer_list<Gap> all) {
    for (const Gap& g : all)
      if (g.open) gaps_.push_back(g);
  }
  auto begin() const { return gaps_.begin(); }
  auto end() const { return gaps_.end(); }

 private:
  std::vector<Gap> gaps_;
};

Open model_gaps(const Plan& p) {
  const ModelSpec& m = p.model;
  const bool t5_positions =
      m.position_embedding == PositionEmbedding::relative || m.position_embedding == PositionEmbedding::learned;
  return {
      {"model.position_embedding", m.family == Family::t5 ? !t5_positions : m.position_embedding == PositionEmbedding::relative,
       "relative and learned in t5, and learned, rope, alibi and none elsewhere"},
      {"model.norm_placement", (m.norm_placement == NormPlacement::sandwich || m.norm_placement == NormPlacement::behind) && m.linear_bias,
       "norms behind attention and MLP without linear biases: model.linear_bias false"},
      {"model.parallel_residual",
       m.parallel_residual != ParallelResidual::none &&
           ((m.norm_placement != NormPlacement::pre && m.norm_placement != NormPlacement::sandwich) || m.family == Family::t5),
       "attention and MLP side by side with norms before them, elsewhere than in t5"},
      {"model.parallel_residual", m.parallel_residual == ParallelResidual::one_norm && m.moe.num_experts > 0,
       "experts beside attention with norms of their own: two_norms"},
      {"model.moe.shared_gate", m.moe.num_experts > 0 && m.moe.shared_gate && m.linear_bias,
       "a gate of shared experts without linear biases: model.linear_bias false"},
      {"model.attention_sinks", m.attention_sinks && m.family == Family::t5, "sinks elsewhere than in t5"},
      {"training.flash_attention", m.attention_sinks && !p.training.flash_attention,
       "sinks with flash attention: set it to true, or leave it out under the stack tandem"},
      {"model.latent.kv_rank",
       m.latent.kv_rank > 0 && (m.position_embedding != PositionEmbedding::rope || m.qkv_bias || m.qk_norm != QkNorm::none),
       "latent attention with rope, without biases of queries, keys and values and without norms of their heads: "
       "model.position_embedding rope, model.qkv_bias false, model.qk_norm none"},
      {"model.value_norm", m.value_norm && (m.qk_norm != QkNorm::head || m.latent.kv_rank > 0 || m.family == Family::t5),
       "norms of values beside norms of heads of queries and keys, elsewhere than in latent attention and t5: model.qk_norm head"},
      {"model.tie_kv", m.tie_kv && (!m.value_norm || m.qkv_bias),
       "values that are keys with a norm and no bias: model.value_norm true and model.qkv_bias false"},
      {"model.moe.branch_norms",
       m.moe.num_experts > 0 && m.moe.branch_norms &&
           (m.norm_placement != NormPlacement::sandwich || m.moe.shared_ffn() == 0 || m.moe.shared_gate ||
            m.parallel_residual != ParallelResidual::none),
       "norms of both branches in a sandwich, beside shared experts without a gate and behind attention: model.norm_placement sandwich, "
       "model.moe.num_shared_experts above 0, model.moe.shared_gate false and model.parallel_residual none"},
      {"model.moe.router_norm", m.moe.num_experts > 0 && m.moe.router_norm && !m.moe.branch_norms,
       "a router's norm beside norms of both branches: model.moe.branch_norms true"},
      {"model.latent.kv_rank", m.latent.kv_rank > 0 && m.has_window_heads(),
       "latent attention with the same heads in layers with a window and without: model.window.num_attention_heads, num_kv_heads, "
       "head_dim and value_dim 0"},
      {"model.latent.kv_rank", m.latent.kv_rank > 0 && (m.family == Family::bert || m.family == Family::t5),
       "latent attention in decoders: family gpt, llama or bloom"},
      {"model.rope_scaling.type",
       m.rope_scaling.type == "dynamic" || m.rope_scaling.type == "longrope", "linear, llama3 and yarn"},
  };
}

/// What an indexer stands beside.
Open indexer_gaps(const Plan& p) {
  const ModelSpec& m = p.model;
  if (m.indexer.heads == 0) return {};
  const bool blocks = m.indexer.blocks(), latent = m.latent.kv_rank > 0;
  return {
      {"model.indexer.heads", !blocks && (!latent || m.latent.query_rank == 0),
       "an indexer of single keys in latent attention that compresses queries, model.latent.kv_rank and model.latent.query_rank above 0, and "
       "one of blocks in other attention: model.indexer.block_size above 1"},
      {"model.indexer.block_size", blocks && latent, "an indexer of single keys in latent attention: 1"},
      {"model.family", blocks && (m.family == Family::bert || m.family == Family::t5), "an indexer in decoders: gpt, llama or bloom"},
      {"model.qk_norm", blocks && m.qk_norm != QkNorm::none && m.qk_norm != QkNorm::head,
       "an indexer of blocks with norms of heads or without: head or none"},
      {"parallel.tensor", blocks && p.parallel.tensor > m.num_kv_heads,
       "an indexer of blocks on tensor ranks with key heads of their own: at most model.num_kv_heads ", std::to_string(m.num_kv_heads)},
      {"model.window.size", m.window.size > 0, "an indexer without windows of attention: 0"},
      {"model.window.full_rotary", m.window.size == 0 && !m.window.full_rotary, "an indexer with rotary positions in all layers: true"},
      {"model.attention_sinks", m.attention_sinks, "an indexer without sinks of attention: false"},
      {"model.attention_soft_cap", m.attention_soft_cap > 0, "an indexer without a soft cap of scores: 0"},
      {"training.flash_attention", !p.training.flash_attention, "an indexer with flash attention: set it to true, or leave it out under the stack tandem"},
      {"training.dropout.attention", p.training.dropout.attention > 0, "an indexer without dropout of attention: 0"},
      {"parallel.context_mode", p.parallel.context > 1 && p.parallel.context_mode != ContextMode::all_gather,
       "all_gather beside an indexer, which needs all keys on each rank"},
      {"parallel.ulysses", p.parallel.context > 1 && p.parallel.ulysses > 1, "an indexer with all heads on a rank: 1"},
  };
}

/// What layers with a recurrence or of one sublayer, and a gate of attention's output, stand beside.
Open mixer_gaps(const Plan& p) {
  const ModelSpec& m = p.model;
  const bool decoder_only = m.family != Family::bert && m.family != Family::t5;
  const bool plain = m.norm_placement == NormPlacement::pre && m.parallel_residual == ParallelResidual::none;
  const bool single = m.sublayers.find_first_not_of('b') != std::string::npos, recurrence = m.recurrence.heads > 0;
  return {
      {"model.recurrence.heads", recurrence && (!decoder_only || m.linear_bias),
       "a recurrence in decoders without linear biases: family gpt, llama or bloom, model.linear_bias false"},
      {"model.sublayers", single && (!decoder_only || !plain),
       "layers of one sublayer in decoders with a norm before each: family gpt, llama or bloom, model.norm_placement pre, "
       "model.parallel_residual none"},
      {"model.attention_gate", m.attention_gate && (!decoder_only || m.latent.kv_rank > 0 || m.linear_bias),
       "a gate of attention's output in decoders, without latent attention and linear biases"},
      {"model.tie_kv", m.attention_gate && m.tie_kv, "a gate of attention's output with values of their own: false"},
  };
}

/// What modules of multi-token prediction are built of.
Open mtp_gaps(const Plan& p) {
  const ModelSpec& m = p.model;
  if (m.mtp.num_layers == 0) return {};
  return {
      {"model.mtp.num_layers", m.family == Family::bert || m.family == Family::t5,
       "multi-token prediction in decoders: family gpt, llama or bloom"},
      {"model.norm_placement", m.norm_placement == NormPlacement::post || m.norm_placement == NormPlacement::post_add,
       "multi-token prediction with norms before attention and MLP or behind each: pre, sandwich or behind"},
      {"model.position_embedding", m.position_embedding == PositionEmbedding::learned,
       "multi-token prediction without a table of learned positions: rope or alibi"},
      {"model.token_types", m.token_types > 0, "multi-token prediction without token types: 0"},
      {"model.embedding_norm", m.embedding_norm, "multi-token prediction without an embedding norm: false"},
  };
}

/// What an encoder-decoder does not have yet.
Open t5_gaps(const Plan& p) {
  const ModelSpec& m = p.model;
  const ParallelSpec& q = p.parallel;
  if (m.family != Family::t5) return {};
  return {
      {"model.norm_placement", m.norm_placement != NormPlacement::pre, "t5 with norms before its sublayers: pre"},
      {"model.moe.num_experts", m.moe.num_experts > 0, "t5 without experts: 0"},
      {"model.token_types", m.token_types > 0, "t5 without token types: 0"},
      {"model.embedding_norm", m.embedding_norm, "t5 without an embedding norm: false"},
      {"model.value_dim", m.value_dim != m.head_dim, "t5 with values as wide as keys"},
      {"model.attention_soft_cap", m.attention_soft_cap > 0, "t5 without a soft cap of scores: 0"},
      {"model.qk_norm", m.qk_norm != QkNorm::none, "t5 without norms of queries and keys: none"},
      {"model.num_kv_heads", m.num_kv_heads % q.tensor != 0, "t5 with key and value heads that all tensor ranks share out"},
      {"parallel.context", q.context > 1, "t5 on whole sequences: context 1"},
      {"parallel.schedule", splits_backward(q.schedule),
       "t5 with whole backward passes: gpipe, 1f1b, interleaved and breadth-first"},
      {"training.flash_attention", p.training.flash_attention && m.position_embedding == PositionEmbedding::relative,
       "t5 with learned positions, or with a score matrix, which relative bias is added to: false"},
  };
}

/// Whether every layer, and so every stage, has an adapter.
bool adapts_each_layer(const Plan& p) {
  const AdapterSpec& lora = p.training.lora;
  for (std::int64_t l = 0; l < p.model.num_layers; ++l)
    if (std::none_of(lora.targets.begin(), lora.targets.end(),
                     [&](const std::string& target) { return target_size(p.model, p.model.kind(l), target).out > 0; }))
      return false;
  return true;
}

/// Whether a row of a quantized matrix is no whole number of blocks on a rank. Its numbers would then depend on the number of ranks.
bool divides_blocks(const Plan& p) {
  const std::int64_t t = p.parallel.tensor, block = stored_block(DType::nf4).elements;
  for (std::int64_t l = 0; l < p.model.num_layers; ++l)
    for (const std::string_view matrix : kDefaultTargets) {
      const std::int64_t cols = target_size(p.model, p.model.kind(l), matrix).in;
      if ((matrix == "proj" || matrix == "fc2" ? cols / t : cols) % block != 0) return true;
    }
  return false;
}

/// What quantized frozen weights stand beside.
Open quantized_gaps(const Plan& p) {
  if (!p.training.lora.quantizes()) return {};
  return {
      {"model.moe.num_experts", p.model.moe.num_experts > 0, "quantized weights (training.lora.base) in dense models: 0"},
      {"parallel.zero_stage", p.parallel.zero_stage == 3, "at most 2 beside quantized weights (training.lora.base), which it does not shard"},
      {"training.lora.base", divides_blocks(p), "nf4 where all matrices have rows of a multiple of 64 elements on a tensor rank (model.hidden_size, model.ffn_hidden_size, parallel.tensor)"},
  };
}

/// What adapters stand beside.
Open adapter_gaps(const Plan& p) {
  if (!p.training.lora.here()) return {};
  const ModelSpec& m = p.model;
  const ParallelSpec& q = p.parallel;
  const DTypes& types = p.training.dtypes;
  constexpr std::string_view without = "adapters (training.lora) without it: false";
  constexpr std::string_view wide = "adapters (training.lora) in types of at least 16 bits: training.precision bf16";
  return {
      {"model.family", m.family == Family::bert || m.family == Family::t5, "adapters (training.lora) in decoders: gpt, llama or bloom"},
      {"parallel.expert_tensor", p.training.lora.on_experts() && q.expert_tensor > 1, "adapters of whole experts (training.lora.targets): 1"},
      {"parallel.pipeline", q.pipeline > 1 && !adapts_each_layer(p), "adapters in some layers alone (training.lora.targets): 1"},
      {"parallel.overlap_experts", q.overlap_experts, without},
      {"model.attention_gate", m.attention_gate && p.training.lora.on_part_of("qkv"),
       "adapters of q, k and v where queries have no gate: false, or qkv in training.lora.targets"},
      {"model.latent.kv_rank", m.latent.kv_rank > 0, "adapters (training.lora) without latent attention: 0"},
      {"model.indexer.heads", m.indexer.heads > 0, "adapters (training.lora) without an indexer: 0"},
      {"model.recurrence.heads", m.recurrence.heads > 0, "adapters (training.lora) without recurrences: 0"},
      {"model.mtp.num_layers", m.mtp.num_layers > 0, "adapters (training.lora) without multi-token prediction: 0"},
      {"model.sublayers", m.sublayers.find_first_not_of('b') != std::string::npos,
       "adapters (training.lora) in layers with attention and an MLP: b"},
      {"parallel.schedule", splits_backward(q.schedule),
       "adapters (training.lora) with whole backward passes: gpipe, 1f1b, interleaved or breadth-first"},
      {"parallel.tensor_overlap", q.tensor_overlap, without},
      {"parallel.offload.optimizer", q.offload.optimizer, without},
      {"parallel.offload.parameters", q.offload.parameters, without},
      {"training.recompute_every_second_matmul", p.training.recompute_products, without},
      {"training.dtypes.compute", bits(types.compute) < 16, wide},
      {"training.dtypes.weights", bits(types.weights) < 16, wide},
  };
}

Open parallel_gaps(const Plan& p) {
  const ParallelSpec& q = p.parallel;
  const bool grouped = q.zero_stage > 0 && q.zero_group > 0 && q.zero_group < q.data;
  // Experts are cut over other ranks than all else.
  const bool apart = p.model.moe.num_experts > 0 && q.expert_tensor != q.tensor;
  const bool could_be_cut_alike = (q.data * q.context) % q.expert == 0;
  // Ranks of a stage that hold every expert once: a sharding group is made of whole such sets (Megatron-LM:
  // megatron/core/parallel_state.py asserts that the data ranks of experts divide by the number of optimizer instances).
  const std::int64_t set = q.expert * q.expert_tensor, group_ranks = q.zero_group * q.context * q.tensor;
  const bool gathers_tokens = q.token_dispatcher == TokenDispatcher::allgather;
  const bool windows = p.model.window.size > 0 && p.model.window.size < p.training.seq_length;
  return {
      {could_be_cut_alike ? "parallel.expert_tensor" : "parallel.expert", apart && q.tensor > 1 && !q.sequence_parallel,
       could_be_cut_alike ? "another expert_tensor than tensor only with parallel.sequence_parallel true"
                         : "expert ranks that do not divide data x context only with parallel.sequence_parallel true"},
      {"parallel.zero_group", p.model.moe.num_experts > 0 && grouped && group_ranks % set != 0,
       "sharding groups that have every expert once or several times: zero_group x context x tensor a multiple of "
       "expert x expert_tensor",
       grouped ? ", " + product_text({q.expert, q.expert_tensor}) : ""},
      {"parallel.context_mode", windows && has_ring(q),
       "all_gather and ulysses beside attention windows (model.window): a ring would also send keys that no window reaches"},
      {"training.flash_attention", has_ring(q) && !p.training.flash_attention,
       "rings of context ranks with attention that keeps no score matrix: set it to true, or parallel.context_mode to all_gather or ulysses"},
      {"parallel.overlap_experts",
       p.runs_pairs() && q.schedule != ScheduleKind::one_f_one_b && q.schedule != ScheduleKind::interleaved &&
           q.schedule != ScheduleKind::dualpipe_v,
       "schedules 1f1b, interleaved and dualpipe-v with overlap_experts, whose passes take turns: false, or one of these"},
      {"parallel.zero_stage", q.schedule == ScheduleKind::dualpipe_v && q.zero_stage > 1,
       "dualpipe-v with zero_stage 0 and 1"},
      {"parallel.overlap_experts", p.runs_pairs() && gathers_tokens,
       "overlap_experts with token_dispatcher alltoall and deepep, whose rows travel: false, or one of these"},
      {"parallel.token_dispatcher", p.model.moe.num_experts > 0 && gathers_tokens && p.model.moe.capacity_factor > 0,
       "allgather with experts that drop no tokens: model.moe.capacity_factor 0, or alltoall"},
      {"parallel.overlap_experts", p.runs_pairs() && q.zero_stage > 1, "overlap_experts with zero_stage 0 and 1"},
      {"parallel.offload.parameters", q.offload.parameters && q.zero_stage != 3, "false, or zero_stage 3"},
      {"parallel.offload.ratio", q.offload.parameters && (!q.offload.optimizer || q.offload.ratio < 1),
       "parameters offloaded with all of the optimizer: offload.optimizer true and ratio 1"},
  };
}

/// What activations in host memory stand beside.
Open offload_gaps(const Plan& p) {
  const OffloadSpec& o = p.parallel.offload;
  if (o.activations.empty()) return {};
  const bool input = o.has("all") || o.has("attention_norm");
  return {
      {"model.family", p.model.family == Family::t5, "activations in host memory (parallel.offload.activations) in one stack of layers: gpt, llama, bloom or bert"},
      {"parallel.schedule", splits_backward(p.parallel.schedule),
       "activations in host memory (parallel.offload.activations) with whole backward passes: gpipe, 1f1b, interleaved or breadth-first"},
      {"parallel.offload.activations", !input && p.training.recompute == Recompute::full && p.training.recompute_layers == 0,
       "all or attention_norm where layers keep only their inputs (training.recompute full)"},
      {"parallel.offload.activations", o.has("projection") && !o.has("core_attention"),
       "projection beside core_attention, which keeps the same tensor"},
  };
}

/// Whether a stage has no layers. Without matrices of Muon's it would shard flat what another stage, which shares the tensor, owns whole.
bool has_empty_stage(const Plan& p) {
  const std::vector<std::int64_t> layers = p.layers_per_stage();
  return p.parallel.pipeline > 1 && std::find(layers.begin(), layers.end(), 0) != layers.end();
}

Open optimizer_gaps(const Plan& p) {
  const OptimizerSpec& o = p.training.optimizer;
  const bool muon = o.kind == OptimizerKind::muon;
  return {
      {"training.optimizer", muon && p.parallel.zero_stage > 1,
       "muon with parallel.zero_stage 0 or 1, or adamw: Muon needs a matrix' whole gradient"},
      {"parallel.pipeline_split", muon && p.parallel.zero_stage > 0 && has_empty_stage(p),
       "stages that all have layers where Muon's parameters have owners (parallel.zero_stage 1)"},
      {"training.optimizer", muon && p.training.lora.here(), "muon without adapters: training.lora.rank 0, or adamw"},
      {"training.optimizer", p.parallel.offload.optimizer && o.kind != OptimizerKind::adamw,
       "adamw where parallel.offload.optimizer is true"},
      {"training.muon.scale_mode", muon && p.model.mtp.num_layers > 0 && o.muon.scale_mode != MuonScale::spectral,
       "spectral in a model with MTP modules: their first matrix is stored with its inputs as rows"},
  };
}

/// Every pass of a step is in the graph: beyond this memory runs out before an answer comes.
constexpr double kMostPasses = 2e7;  // some 4 GiB

Open step_gaps(const Plan& p) {
  const double ends = 2 * static_cast<double>(p.parallel.pipeline) * static_cast<double>(p.parallel.virtual_pipeline);
  const double passes = static_cast<double>(p.micro_batches()) * (static_cast<double>(p.model.total_layers()) + ends);
  return {{"training.global_batch_size", passes > kMostPasses,
           "steps of at most 20,000,000 passes of a micro-batch through a layer or an end of a stage: use a smaller batch, a larger "
           "micro-batch or more data ranks"}};
}

Open loss_gaps(const Plan& p) {
  const ModelSpec& m = p.model;
  const bool chunks = p.training.loss_chunks > 1;
  const bool norm_first = m.norm_placement != NormPlacement::post && m.norm_placement != NormPlacement::post_add;
  return {
      {"training.loss_chunks", chunks && m.mtp.num_layers > 0, "chunks without modules that predict further tokens (model.mtp): 1"},
      {"training.loss_chunks", chunks && !norm_first, "chunks behind a final norm: 1, or another model.norm_placement"},
      {"training.loss_chunks", chunks && m.family == Family::bert, "chunks elsewhere than in bert: 1"},
      {"training.loss_chunks", chunks && p.training.fusion.metrics > 0,
       "chunks where no metrics read all logits: 1, or another training.fusion"},
  };
}

std::string bare_value(const Plan& p, std::string_view field) {
  const nlohmann::json v = find_field(field)->write(p);
  return v.is_string() ? v.get<std::string>() : v.dump();
}

Problem not_implemented(const Plan& plan, const Gap& gap) {
  const std::string field(gap.field), value = bare_value(plan, gap.field);
  return {plan.file, field, value, "not implemented: " + field + " " + value,
          "this version supports " + std::string(gap.lowers) + gap.more};
}

}  // namespace

Problems lowering_gaps(const Plan& plan) {
  Problems problems;
  for (const auto& gaps : {model_gaps(plan), indexer_gaps(plan), mixer_gaps(plan), mtp_gaps(plan), t5_gaps(plan),
                           adapter_gaps(plan), quantized_gaps(plan), parallel_gaps(plan), offload_gaps(plan), optimizer_gaps(plan),
                           loss_gaps(plan), step_gaps(plan)}) {
    for (const Gap& g : gaps) problems.push_back(not_implemented(plan, g));
  }
  return problems;
}

void require_lowerable(const Plan& plan) {
  Problems problems = lowering_gaps(plan);
  if (!problems.empty()) throw InfeasibleError(std::move(problems));
}

}  // namespace tandem
