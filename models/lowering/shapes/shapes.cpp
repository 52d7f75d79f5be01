#include "models/lowering/shapes/shapes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "models/plan/library_attention.hpp"

namespace tandem::lowering {
namespace {

PointwiseKind pointwise_of(Activation a) {
  switch (a) {
    case Activation::gelu: return PointwiseKind::gelu_tanh;
    case Activation::relu: return PointwiseKind::relu;
    case Activation::squared_relu: return PointwiseKind::squared_relu;
    case Activation::swiglu: case Activation::geglu: case Activation::clamped_swiglu: break;
  }
  return PointwiseKind::gelu_tanh;  // unused: a gated MLP reads gate_of()
}

GateKind gate_of(Activation a) {
  if (a == Activation::clamped_swiglu) return GateKind::clamped_silu;
  return a == Activation::geglu ? GateKind::gelu_tanh : GateKind::silu;
}

ContextPath path_of(const ParallelSpec& q) {
  if (head_ranks(q) == q.context) return ContextPath::none;
  return q.context_mode == ContextMode::ring ? ContextPath::ring : ContextPath::all_gather;
}

/// Whether a recomputed MLP or mixture of experts runs to its end (NVIDIA/Megatron-LM d98e8a64: megatron/core/tensor_parallel/random.py,
/// CheckpointFunction calls the whole module again; megatron/core/transformer/transformer_layer.py, recompute_mlp, and
/// megatron/core/transformer/moe/moe_layer.py, moe_layer_recompute from router to combination). Passes that run in pieces do not.
bool runs_modules_whole(const Plan& plan) {
  return plan.training.recompute == Recompute::selective && !plan.training.recompute_early_stop && !plan.parallel.overlap_experts;
}

Keep keep_of(const Plan& plan) {
  Keep k;
  if (plan.training.recompute != Recompute::selective) return k;
  const MoeSpec& moe = plan.model.moe;
  const bool dense = moe.num_experts == 0 || moe.first_dense_layers > 0 || moe.layer_frequency > 1;
  const bool with_product = plan.training.fusion.norm_in_product_module;
  for (const std::string& module : plan.training.recompute_modules) {
    if (module == "core_attention") k.core = false;
    if (module == "mla_up_proj" && plan.model.latent.kv_rank > 0) k.up = false, k.latent_norms = !with_product;
    if (module == "norm") (with_product ? k.separate_norms : k.norms) = false;
    if (module == "mlp" && dense) k.fc1 = k.activated = false, k.mlp_norm = !with_product;
    if (module == "moe") k.expert_fc1 = k.expert_activated = k.shared_fc1 = k.shared_activated = k.dispatched = false;
    if (module == "moe") k.routed = !runs_modules_whole(plan) || splits_backward(plan.parallel.schedule);
    if (module == "moe_activation") k.expert_activated = false;
    if (module == "shared_experts") k.shared_fc1 = k.shared_activated = false;
    // Recomputes everything but matrix products. Products' outputs are stored, attention scores among them.
    if (module == "operations") k.norms = k.activated = k.expert_activated = k.shared_activated = k.core = false, k.scores = true;
  }
  k.scores = k.scores && !plan.training.flash_attention;
  return k;
}

KeptOnHost on_host_of(const OffloadSpec& o) {
  KeptOnHost k;
  k.all = o.has("all");
  k.input = k.all || o.has("attention_norm");
  k.qkv = o.has("qkv");
  k.core = o.has("core_attention");
  k.projection = o.has("projection");
  k.mlp_norm = o.has("mlp_norm");
  k.dispatched = o.has("moe") || o.has("moe_input");
  k.expert_fc1 = o.has("moe") || o.has("moe_activation");
  k.expert_activated = o.has("moe");
  return k;
}

bool recomputed(const Plan& plan, std::string_view module) {
  const auto& modules = plan.training.recompute_modules;
  return plan.training.recompute == Recompute::selective && std::find(modules.begin(), modules.end(), module) != modules.end();
}

/// Recomputes every second product of a block, in the order of computation: queries, keys, values, projection, gate,
/// up, MLP's second. Also recomputes the residual sum after the projection. Attention is stored (pytorch/torchtitan,
/// commit f4048f8e1, torchtitan/models/llama3/infra/parallelize.py, _save_list and _get_custom_policy) unless the plan
/// lists it: before commit b39377f9f the list had no cuDNN attention. Keys are stored here, because one matrix computes
/// queries, keys and values. The same list stores sums over tensor ranks. Split backward passes store all products.
void repeat_products(Shapes& s, const Plan& plan) {
  if (!plan.training.recompute_products || !recomputed(plan, "operations")) return;
  s.keep.core = s.flash && !recomputed(plan, "core_attention");
  s.keep.scores = false;
  if (s.defer_weights) return;
  s.keep.half_fc1 = s.gated;
  s.keep.by_products = true;
  const bool plain = s.placement == NormPlacement::pre && !s.sandwich && s.parallel == ParallelResidual::none;
  s.keep.state = s.tensor > 1 || !plain || plan.model.num_decoder_layers > 0;
}

/// Flash attention's output is not a matrix product's, so a policy that stores only products recomputes it
/// (google/praxis: praxis/layers/checkpoint_policy.py, save_dot_only and save_qkv_out_proj; save_context is a
/// policy of its own). A checkpoint around attention alone stores it, because the projection outside reads it.
void drop_context(Shapes& s, const Plan& plan) {
  const bool again = recomputed(plan, "operations") && s.flash && !s.keep.core;
  s.keep.context = !again || s.context > 1 || s.defer_weights;
}

void set_sequence(Shapes& s, const Plan& plan) {
  const ParallelSpec& q = plan.parallel;
  s.batch = plan.training.micro_batch_size;
  s.seq = plan.training.seq_length / q.context;
  s.tokens = s.batch * s.seq;
  s.sequence_parallel = q.sequence_parallel;
  s.rows = s.sequence_parallel ? s.tokens / q.tensor : s.tokens;
  s.loss_chunks = plan.training.loss_chunks;
  s.context = q.context;
  s.head_ranks = head_ranks(q);
  s.path = path_of(q);
  s.flash = plan.training.flash_attention;
  s.global_sequences = plan.training.global_batch_size;
  s.global_micro_batches = plan.training.global_batch_size / plan.training.micro_batch_size;
  s.global_targets = plan.loss_targets();
}

RopeScalingKind rope_scaling(const std::string& type) {
  if (type == "linear") return RopeScalingKind::linear;
  if (type == "llama3") return RopeScalingKind::llama3;
  return type == "yarn" ? RopeScalingKind::yarn : RopeScalingKind::none;
}

/// YaRN's factor of all attention scores in latent attention (deepseek-ai/DeepSeek-V3: inference/model.py, MLA, softmax_scale).
double score_stretch(const ModelSpec& m) {
  const RopeScaling& r = m.rope_scaling;
  if (m.latent.kv_rank == 0 || rope_scaling(r.type) != RopeScalingKind::yarn || r.factor <= 1) return 1;
  return std::pow(1 + 0.1 * r.mscale_all_dim * std::log(r.factor), 2);
}

HeadShape heads_of(const ModelSpec& m, Mixer mixer, std::int64_t tensor) {
  const AttentionHeads h = m.attention_heads(mixer);
  HeadShape s{};
  s.heads = h.queries / tensor;
  s.kv_heads = std::max<std::int64_t>(1, h.keys / tensor);
  s.kv_repeat = std::max<std::int64_t>(1, tensor / h.keys);
  s.kv_group = mixer == Mixer::windowed ? Group::window_kv : Group::kv;
  s.head_dim = h.head_dim;
  s.value_dim = h.value_dim;
  s.attention = s.heads * s.value_dim;
  s.keys_are_values = h.tied;
  s.rotary_dim = m.rotary_dim(h.head_dim);
  s.sinks = m.has_sinks(mixer);
  return s;
}

void set_windows(Shapes& s, const ModelSpec& m) {
  if (m.window.size == 0 && m.window.full_rotary) return;
  s.own_window = {m.window.size, m.window.chunked, s.rotary, m.window.rope_theta, heads_of(m, Mixer::windowed, s.tensor)};
  s.rotary = s.rotary && m.window.full_rotary;
}

void set_attention(Shapes& s, const Plan& plan) {
  const ModelSpec& m = plan.model;
  s.hidden = m.hidden_size;
  static_cast<HeadShape&>(s) = heads_of(m, Mixer::full, s.tensor);
  s.rotary = m.position_embedding == PositionEmbedding::rope;
  s.rope_theta = m.rope_theta;
  s.rope_scaling = rope_scaling(m.rope_scaling.type);
  s.rope_factor = m.rope_scaling.factor;
  s.rope_original = m.rope_scaling.original_max_position_embeddings;
  s.rope_fast = m.rope_scaling.beta_fast;
  s.rope_slow = m.rope_scaling.beta_slow;
  s.rope_fractional = !m.rope_scaling.truncate;
  s.rope_keeps_length = m.latent.kv_rank == 0 && m.rope_scaling.mscale_all_dim == 1;
  s.latent = {m.latent.kv_rank, m.latent.query_rank, score_stretch(m)};
  s.alibi = m.position_embedding == PositionEmbedding::alibi;
  set_windows(s, m);
  const IndexerSpec& index = m.indexer;
  s.layer_indexer = {index.blocks() ? index.heads / s.tensor : index.heads, index.head_dim, index.topk,
                     index.blocks() ? index.block_size : 0};
  const RecurrenceSpec& r = m.recurrence;
  s.recurrence = {r.rule, r.heads / s.tensor, r.key_heads / s.tensor, r.key_dim, r.value_dim, r.conv_width, r.conv_bias};
  s.attention_gate = m.attention_gate;
  s.causal = m.family != Family::bert && m.family != Family::t5;
  s.documents = plan.training.documents == Documents::separate;
}

RouterRule routing_of(const MoeSpec& e) {
  RouterRule r{e.router_scores, e.normalize_weights, e.weight_scale};
  const std::int64_t kept = e.groups_per_token == 0 ? e.expert_groups : e.groups_per_token;
  if (kept < e.expert_groups) r.groups = e.expert_groups, r.kept_groups = kept, r.group_score = e.group_score;
  r.bias = e.balanced();
  r.expert_scale = e.expert_scale;
  return r;
}

TokenCopies copies_of(const Plan& plan) {
  const MoeSpec& e = plan.model.moe;
  if (!plan.sends_copies()) return {};
  const std::int64_t kept = e.groups_per_token == 0 ? e.expert_groups : e.groups_per_token;
  return {e.num_experts, e.experts_per_token, e.expert_groups, kept, plan.training.dtypes.dispatch};
}

void set_experts(Shapes& s, const Plan& plan) {
  const MoeSpec& e = plan.model.moe;
  s.expert_ranks = plan.parallel.expert;
  s.expert_tensor = plan.parallel.expert_tensor;
  s.experts = e.num_experts;
  s.experts_here = e.num_experts / s.expert_ranks;
  s.top_k = e.experts_per_token;
  s.copies = copies_of(plan);
  s.token_dispatcher = plan.parallel.token_dispatcher;
  s.capacity = plan.expert_capacity();
  s.expert_ffn = e.ffn_hidden_size / s.expert_tensor;
  s.expert_fc1 = s.gated ? 2 * s.expert_ffn : s.expert_ffn;
  s.shared_ffn = e.shared_ffn() / plan.parallel.tensor;
  s.shared_fc1 = s.gated ? 2 * s.shared_ffn : s.shared_ffn;
  s.aux_loss = e.aux_loss;
  s.z_loss = e.z_loss;
  s.routing = routing_of(e);
  s.balance_rate = e.balance_rate;
  s.rows_bound = e.rows_bound;
  s.weigh_inputs = e.weigh_inputs;
  s.shared_gate = e.shared_gate && e.num_shared_experts > 0;
  s.branch_norms = e.branch_norms;
  s.router_norm = e.router_norm;
}

/// Own graphs scale the few columns between A and B. Frameworks scale what B gives (NVIDIA-NeMo/Megatron-Bridge:
/// src/megatron/bridge/peft/utils.py, ParallelLinearAdapter; huggingface/peft: src/peft/tuners/lora/layer.py, Linear.forward;
/// meta-pytorch/torchtune: torchtune/modules/peft/lora.py, LoRALinear.forward).
void set_adapters(Shapes& s, const Plan& plan) {
  const AdapterSpec& a = plan.training.lora;
  if (!a.here()) return;
  s.adapters = adapter_shape(a, plan.stack.name != kOwnStack);
}

}  // namespace

std::int64_t Shapes::row_room(std::int64_t shares) const {
  const std::int64_t sent = shares * moe_dims().rows();
  if (!unequal_rows()) return sent;
  // A token visits an expert at most once, so no rank can receive more rows.
  const std::int64_t most = shares * expert_ranks * rows * std::min(top_k, experts_here);
  return std::min(most, static_cast<std::int64_t>(std::ceil(rows_bound * static_cast<double>(sent))));
}

MoeDims Shapes::dispatch_dims() const {
  MoeDims d = moe_dims();
  d.by_element = fusion.rows_by_element;
  if (!gathers_tokens()) return d;
  d.tokens *= members();
  d.room = expert_rows();
  d.here = experts_here;
  return d;
}

Rotary Shapes::rotation(bool inverse) const {
  Rotary op{attention_dims(), rope_theta, inverse, rope_scaling, rope_factor};
  if (rotary_dim < head_dim) op.turned = rotary_dim;
  if (rope_scaling == RopeScalingKind::llama3 || rope_scaling == RopeScalingKind::yarn) op.original = rope_original;
  if (rope_scaling != RopeScalingKind::yarn) return op;
  op.fast = rope_fast;
  op.slow = rope_slow;
  op.fractional = rope_fractional;
  op.keeps_length = rope_keeps_length || latent.query_scale != 1;
  return op;
}

Rotary Shapes::index_rotation(bool inverse, std::int64_t of_heads) const {
  Rotary op = rotation(inverse);
  op.dims = {batch, of_heads, seq, indexer.head_dim};
  op.dims.q_packed = false;
  op.heads = RotaryHeads::queries;
  op.turned = rotary_dim < indexer.head_dim ? rotary_dim : 0;
  return op;
}

IndexDims Shapes::index_dims() const {
  const std::int64_t all_keys = path == ContextPath::all_gather ? seq * context : 0;
  return {batch, indexer.heads, seq, indexer.head_dim, indexer.topk, all_keys, indexer.block};
}

/// Sinks matter only in the forward pass: the backward pass reads only their statistics.
AttentionKernel Shapes::flash_kernel(bool backward) const {
  const bool gathers_ranks = path == ContextPath::all_gather || exchanges_heads();
  const AttentionTraits traits{dtypes.compute, attention_dropout, alibi,    window != 0, attention_soft_cap != 0,
                               documents,      gathers_ranks,     head_dim, value_dim};
  const bool usual = why_no_library(traits).empty() && (!sinks || backward);
  return fusion.own_unusual_attention && !usual ? AttentionKernel::own : fusion.attention;
}

AttentionDims Shapes::attention_dims() const {
  AttentionDims d{batch, heads, seq, head_dim};
  d.kv_heads = kv_heads == heads ? 0 : kv_heads;
  d.value_dim = value_dim == head_dim ? 0 : value_dim;
  d.causal = causal;
  d.window = window;
  d.chunked = window > 0 && own_window.chunked;
  d.block = indexer.block;
  d.documents = documents;
  d.score_scale = attention_scale;
  return d;
}

AttentionDims Shapes::cross_dims() const {
  AttentionDims d = attention_dims();
  d.keys = memory_seq;
  d.causal = d.documents = d.q_packed = d.kv_packed = false;
  return d;
}

Shapes Shapes::of(LayerKind layers) const {
  Shapes s = of_mixer(layers.mixer);
  s.kind = layers;
  if (s.keys_are_values) s.adapters = s.adapters.without("v");
  return s;
}

Shapes Shapes::of_mixer(Mixer mixer) const {
  switch (mixer) {
    case Mixer::windowed: return windowed();
    case Mixer::indexed: return indexed();
    case Mixer::recurrence: return recurring();
    case Mixer::full: case Mixer::none: break;
  }
  return *this;
}

/// A recurrence has no attention sizes except those of the output projection.
Shapes Shapes::recurring() const {
  Shapes r = *this;
  r.attention = recurrence_dims().values();
  r.kv_repeat = 1;
  r.latent = {};
  r.sinks = r.attention_gate = false;
  return r;
}

Shapes Shapes::indexed() const {
  Shapes i = *this;
  i.indexer = layer_indexer;
  i.window = i.indexer.topk < seq * context ? i.indexer.topk : 0;
  return i;
}

Shapes Shapes::windowed() const {
  Shapes w = *this;
  static_cast<HeadShape&>(w) = own_window.heads;
  w.window = own_window.size < seq * context ? own_window.size : 0;
  w.rotary = own_window.rotary;
  if (own_window.theta == 0) return w;
  w.rope_theta = own_window.theta;
  w.rope_scaling = RopeScalingKind::none;
  w.rope_factor = 1;
  w.latent.query_scale = 1;
  return w;
}

Shapes Shapes::decoder() const {
  Shapes d = *this;
  d.seq = decoder_seq;
  d.tokens = batch * d.seq;
  d.rows = sequence_parallel ? d.tokens / tensor : d.tokens;
  d.causal = true;
  d.memory_seq = seq;
  d.memory_rows = rows;
  return d;
}

std::vector<LayerKind> kinds_of(const Shapes& s) {
  std::array<bool, kLayerKinds> has{};
  for (const LayerKind k : s.kinds) has[k.index()] = true;
  std::vector<LayerKind> out;
  for (std::size_t k = 0; k < kLayerKinds; ++k)
    if (has[k]) out.push_back(LayerKind::at(k));
  return out;
}

Shapes make_shapes(const Plan& plan) {
  const ModelSpec& m = plan.model;
  const std::int64_t t = plan.parallel.tensor;
  Shapes s{};
  s.tensor = t;
  set_sequence(s, plan);
  set_attention(s, plan);
  s.ffn = m.ffn_hidden_size / t;
  s.gated = m.gated();
  s.gate = gate_of(m.activation);
  s.fc1 = s.gated ? 2 * s.ffn : s.ffn;
  s.activation = pointwise_of(m.activation);
  s.rms = m.normalization == Normalization::rmsnorm;
  s.norm_bias = !s.rms && m.norm_bias;
  s.bare_inputs = m.norm_placement == NormPlacement::behind;
  s.sandwich = m.norm_placement == NormPlacement::sandwich || s.bare_inputs;
  s.placement = s.sandwich ? NormPlacement::pre : m.norm_placement;
  s.parallel = m.parallel_residual;
  s.bert = m.family == Family::bert;
  s.linear_bias = m.linear_bias;
  s.qkv_bias = m.qkv_bias;
  s.output_bias = m.output_bias && !s.bert;
  s.qk_norm = m.qk_norm;
  s.value_norm = m.value_norm;
  s.muon = plan.training.optimizer.kind == OptimizerKind::muon;
  s.attention_soft_cap = m.attention_soft_cap;
  s.logit_soft_cap = m.logit_soft_cap;
  s.embedding_scale = m.embedding_scale;
  s.residual_scale = m.residual_scale;
  s.logit_scale = m.logit_scale;
  s.attention_scale = m.attention_scale;
  s.router_bias = m.moe.router_bias;
  s.vocab_rows = plan.padded_vocab_size() / t;
  s.vocab_size = m.vocab_size;
  s.max_positions = m.max_position_embeddings;
  s.token_types = m.token_types;
  s.learned_positions = m.position_embedding == PositionEmbedding::learned;
  s.embedding_norm = m.embedding_norm;
  s.tied = m.tie_embeddings;
  s.tensor_overlap = plan.parallel.tensor_overlap;
  s.sum_beside_weights = plan.parallel.tensor_overlap || plan.parallel.overlap_tensor_sum;
  s.defer_weights = splits_backward(plan.parallel.schedule);
  s.sharded_gradients = plan.parallel.zero_stage > 1;
  s.sharded_weights = plan.parallel.zero_stage > 2;
  s.norm_epsilon = m.norm_epsilon;
  s.hidden_dropout = plan.training.dropout.hidden;
  s.attention_dropout = plan.training.dropout.attention;
  // After the last product, a framework's dropout stores a mask, which
  // recomputation draws again. A mask computed from its position is not stored.
  s.early_stop = plan.training.recompute == Recompute::full && plan.training.recompute_early_stop &&
                 (s.hidden_dropout == 0 || !plan.training.fusion.dropout_masks);
  s.whole_modules = runs_modules_whole(plan);
  s.keep = keep_of(plan);
  s.on_host = on_host_of(plan.parallel.offload);
  repeat_products(s, plan);
  drop_context(s, plan);
  if (m.moe.num_experts > 0) set_experts(s, plan);
  else s.expert_ranks = 1, s.expert_tensor = t;
  s.mtp = m.mtp.num_layers;
  s.mtp_loss = s.mtp > 0 ? m.mtp.loss_scale / static_cast<double>(s.mtp) : 0;
  for (std::int64_t l = 0; l < m.total_blocks(); ++l) s.kinds.push_back(m.kind(l));
  s.encoder_layers = m.num_layers;
  s.decoder_layers = m.num_decoder_layers;
  s.decoder_seq = plan.training.decoder_seq_length;
  s.relative_buckets = m.position_embedding == PositionEmbedding::relative ? kRelativeBuckets : 0;
  s.dtypes = plan.training.dtypes;
  s.scatter_p2p = plan.parallel.scatter_p2p && s.tensor > 1 && !s.sequence_parallel;
  s.host_receives = !plan.parallel.overlap_p2p;
  s.product = s.dtypes.compute;
  s.dtypes.compute = activation_type(s.product);
  s.narrow = plan.stack.facts.narrow_products;
  s.fp8_activation_inputs = plan.training.fp8_activation_inputs && bits(s.dtypes.compute) > 8;
  s.unit_copies = plan.parallel.zero_stage == 3 ? plan.parallel.unit_copies : UnitCopies::none;
  s.numerics = numerics_of(plan.stack.facts.wide_tensors, s.dtypes.compute, s.written_gradients());
  s.fusion = fusion_of(plan.training);
  set_adapters(s, plan);
  // In transformers, models with learned positions compute the softmax in the scores' type (huggingface/transformers
  // 4.40: modeling_gpt2.py, modeling_bert.py), later ones (llama, bloom, t5) in fp32. Megatron has one softmax for all.
  if (s.learned_positions && s.fusion.mask_apart) s.fusion.softmax_widened = false;
  return s;
}

}  // namespace tandem::lowering
