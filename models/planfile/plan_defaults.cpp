#include <algorithm>
#include <array>

#include "models/fields/fusion_file.hpp"
#include "models/plan/balanced_split.hpp"
#include "models/planfile/attention_kernels.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/planfile/plan_flops.hpp"
#include "models/planfile/plan_steps.hpp"
#include "models/planfile/ring.hpp"
#include "models/planfile/stage_split.hpp"
#include "models/stack/resolve.hpp"
#include "models/stack/stack_file.hpp"

namespace tandem {
namespace {

struct FamilyDefaults {
  Activation activation;
  Normalization normalization;
  NormPlacement placement;
  double epsilon;
  PositionEmbedding position;
  bool tie, bias, embedding_norm;
  std::int64_t token_types;
};

// In the order of Family. Sources: the families' first papers and reference configurations (GPT-2, LLaMA, BLOOM,
// BERT, T5 1.0).
constexpr std::array<FamilyDefaults, 5> kFamilies{{
    {Activation::gelu, Normalization::layernorm, NormPlacement::pre, 1e-5, PositionEmbedding::learned, true, true,
     false, 0},
    {Activation::swiglu, Normalization::rmsnorm, NormPlacement::pre, 1e-5, PositionEmbedding::rope, false, false, false,
     0},
    {Activation::gelu, Normalization::layernorm, NormPlacement::pre, 1e-5, PositionEmbedding::alibi, true, true, true,
     0},
    {Activation::gelu, Normalization::layernorm, NormPlacement::post, 1e-12, PositionEmbedding::learned, true, true,
     true, 2},
    {Activation::relu, Normalization::rmsnorm, NormPlacement::pre, 1e-6, PositionEmbedding::relative, true, false,
     false, 0},
}};

struct Precision {
  std::string_view name;
  DTypes types;
};

// Fields that nothing below reads.
constexpr std::array<std::string_view, 20> kAlone{
    "parallel.sequence_parallel",   "parallel.zero_group",          "parallel.optimizer_sync",   "parallel.overlap_grad_reduce",
    "parallel.overlap_param_gather", "parallel.tensor_overlap",     "parallel.overlap_tensor_sum", "parallel.overlap_p2p",
    "parallel.scatter_gather_tensors_in_pipeline", "parallel.bucket_bytes", "parallel.prefetch_layers", "parallel.reuse_distance",
    "parallel.fsdp_copies",         "parallel.root_unit",           "parallel.offload.optimizer", "parallel.offload.ratio",
    "training.micro_batch_size",    "training.expandable_segments", "parallel.reduce_scatter",
    "parallel.overlap_experts"};

constexpr DTypes mixed(DType compute, DType weights) {
  return {compute, weights, DType::fp32, DType::fp32, DType::fp32, DType::fp32};
}
constexpr DTypes uniform(DType t) { return {t, t, t, t, t, t, t}; }

// The 8- and 4-bit recipes keep bf16 weights and cast them at each product, as Transformer Engine does.
constexpr std::array<Precision, 9> kPrecisionTypes{{
    {"fp64", uniform(DType::fp64)},
    {"fp32", uniform(DType::fp32)},
    {"tf32", mixed(DType::tf32, DType::fp32)},
    {"fp16", mixed(DType::fp16, DType::fp16)},
    {"bf16", mixed(DType::bf16, DType::bf16)},
    {"fp8", mixed(DType::fp8, DType::bf16)},
    {"fp8_block", mixed(DType::fp8_block, DType::bf16)},
    {"mxfp8", mixed(DType::mxfp8, DType::bf16)},
    {"nvfp4", mixed(DType::nvfp4, DType::bf16)},
}};

/// Sets members of a plan unless the file gave them.
class Filler {
 public:
  explicit Filler(const Given& given) : given_(given) {}

  template <class T, class V>
  void set(std::string_view path, T& member, V value) const {
    if (!given_.contains(path)) member = value;
  }

 private:
  const Given& given_;
};

std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

void fill_family(ModelSpec& m, const Filler& fill) {
  const FamilyDefaults& d = kFamilies.at(static_cast<std::size_t>(m.family));
  fill.set("model.activation", m.activation, d.activation);
  fill.set("model.normalization", m.normalization, d.normalization);
  fill.set("model.norm_placement", m.norm_placement, d.placement);
  fill.set("model.norm_epsilon", m.norm_epsilon, d.epsilon);
  fill.set("model.position_embedding", m.position_embedding, d.position);
  fill.set("model.tie_embeddings", m.tie_embeddings, d.tie);
  fill.set("model.linear_bias", m.linear_bias, d.bias);
  fill.set("model.qkv_bias", m.qkv_bias, m.linear_bias);
  fill.set("model.embedding_norm", m.embedding_norm, d.embedding_norm);
  fill.set("model.token_types", m.token_types, d.token_types);
  // As published with Llama 3.1, and Megatron-Core's of YaRN (megatron/core/models/common/embeddings/yarn_rotary_pos_embedding.py).
  fill.set("model.rope_scaling.original_max_position_embeddings", m.rope_scaling.original_max_position_embeddings,
           m.rope_scaling.type == "llama3" ? 8192 : 4096);
}

/// Volta and Turing multiply no bf16.
void fill_precision(Plan& p, const Filler& fill) {
  const bool older = p.cluster.generation == "volta" || p.cluster.generation == "turing";
  if (older) fill.set("training.precision", p.training.precision, "fp16");
}

void fill_sizes(Plan& p, const Filler& fill) {
  ModelSpec& m = p.model;
  const bool t5 = m.family == Family::t5;
  fill.set("model.num_decoder_layers", m.num_decoder_layers, t5 ? m.num_layers : 0);
  fill.set("model.num_kv_heads", m.num_kv_heads, m.num_attention_heads);
  fill.set("model.recurrence.key_heads", m.recurrence.key_heads, m.recurrence.heads);
  // No default where the heads do not divide: 0, which check_layout refuses.
  const bool divides = m.hidden_size % m.num_attention_heads == 0;
  fill.set("model.head_dim", m.head_dim, divides ? m.hidden_size / m.num_attention_heads : 0);
  const bool latent = m.latent.kv_rank > 0;
  fill.set("model.value_dim", m.value_dim, latent ? std::max<std::int64_t>(1, m.head_dim - m.latent.rotary_dim) : m.head_dim);
  fill.set("model.ffn_hidden_size", m.ffn_hidden_size,
           m.gated() ? rounded_up((8 * m.hidden_size + 2) / 3, 64) : 4 * m.hidden_size);
  fill.set("model.pad_vocab_to", m.pad_vocab_to, 128 * p.parallel.tensor);
  fill.set("training.decoder_seq_length", p.training.decoder_seq_length, t5 ? p.training.seq_length : 0);
  fill.set("model.max_position_embeddings", m.max_position_embeddings,
           std::max(p.training.seq_length, p.training.decoder_seq_length));
  if (m.moe.num_experts > 0 && m.moe.ffn_hidden_size == 0) m.moe.ffn_hidden_size = m.ffn_hidden_size;
}

/// Experts are cut like everything else unless their ranks need part of the tensor axis.
void fill_expert_tensor(ParallelSpec& q, const Filler& fill) {
  const std::int64_t ranks = q.tensor * q.context * q.data;
  std::int64_t most = q.tensor;
  while (most > 1 && (q.tensor % most != 0 || ranks % (most * q.expert) != 0)) --most;
  fill.set("parallel.expert_tensor", q.expert_tensor, most);
}

void fill_types(TrainingSpec& t, const Filler& fill) {
  DTypes d;
  for (const Precision& p : kPrecisionTypes) {
    if (p.name == t.precision) d = p.types;
  }
  fill.set("training.dtypes.compute", t.dtypes.compute, d.compute);
  fill.set("training.dtypes.weights", t.dtypes.weights, d.weights);
  fill.set("training.dtypes.gradients", t.dtypes.gradients, d.gradients);
  fill.set("training.dtypes.gradient_reduce", t.dtypes.gradient_reduce, d.gradient_reduce);
  fill.set("training.dtypes.master", t.dtypes.master, d.master);
  fill.set("training.dtypes.optimizer_state", t.dtypes.optimizer_state, d.optimizer_state);
  fill.set("training.dtypes.dispatch", t.dtypes.dispatch, activation_type(t.dtypes.compute));
}

/// Data ranks or devices, where the other is said. What does not follow is refused by check_derived_ranks.
void fill_ranks(Plan& p, const Given& given) {
  const ParallelSpec& q = p.parallel;
  const bool data = given.contains("parallel.data"), devices = given.contains("cluster.devices");
  const std::int64_t ranks = p.cluster.devices * p.cluster.ranks_per_device, others = q.tensor * q.pipeline * q.context;
  if (devices && !data) p.parallel.data = std::max<std::int64_t>(1, derived_data(ranks, others));
  if (data && !devices) p.cluster.devices = std::max<std::int64_t>(1, derived_devices(p));
}

/// Where layers do not divide there is no default: 0 chunks, which check_layout refuses.
void fill_chunks(Plan& p, const Filler& fill) {
  if (!has_chunks(p.parallel.schedule)) return;
  const std::int64_t layers = p.model.total_layers(), even = layers % p.parallel.pipeline == 0 ? layers / p.parallel.pipeline : 0;
  fill.set("parallel.virtual_pipeline", p.parallel.virtual_pipeline, folds(p.parallel.schedule) ? 2 : even);
}

void fill_transfers(Plan& p, const Filler& fill) {
  if (p.parallel.pipeline == 1) return;
  const StackTransfers stack = stack_transfers(p);
  fill.set("parallel.overlap_p2p", p.parallel.overlap_p2p, stack.overlap);
  fill.set("parallel.scatter_gather_tensors_in_pipeline", p.parallel.scatter_p2p, stack.scatter);
}

/// Splits embedding, layers, final norm and head evenly over stages; the first stages have one more if these do not divide. Leaves the
/// split automatic if a stage would have no layer.
void fill_split_with_ends(Plan& p) {
  const std::int64_t stages = p.parallel.pipeline, layers = p.model.total_layers(), each = (layers + 3) / stages;
  std::vector<std::int64_t> split;
  for (std::int64_t s = 0; s < stages; ++s) split.push_back(each + (s < (layers + 3) % stages ? 1 : 0));
  split.front() -= 1;
  split.back() -= 2;
  if (*std::min_element(split.begin(), split.end()) > 0) p.parallel.pipeline_split = split;
}

/// Layers of every chunk where the stack gives what does not divide to the last stages; elsewhere the split stays automatic. A balanced
/// split of layers whose FLOPs are not known or depend on their place, or that the stack cannot say, is left to check_split.
void fill_split(Plan& p) {
  const bool known = has_forward_flops(p.model.family) && stack_splits(p).choice != StageChoice::none && !recomputes_by_place(p);
  if (asks_balance(p.parallel) && (p.parallel.pipeline == 1 || known)) p.parallel.pipeline_split = split_by_flops(p);
  const std::int64_t stages = p.parallel.pipeline, chunks = p.parallel.virtual_pipeline, layers = p.model.total_layers();
  if (p.parallel.pipeline_split.empty() && stages > 1 && chunks == 1 && stack_ends_are_layers(p)) return fill_split_with_ends(p);
  const bool divides = stages < 2 || chunks < 1 || layers % (stages * chunks) == 0;
  if (!p.parallel.pipeline_split.empty() || divides || layers < stages * chunks || !stack_remainder_last(p)) return;
  for (std::int64_t c = 0; c < chunks; ++c) {
    const std::int64_t of_chunk = layers / chunks + (c < layers % chunks ? 1 : 0);
    for (std::int64_t s = 0; s < stages; ++s)
      p.parallel.pipeline_split.push_back(of_chunk / stages + (s >= stages - of_chunk % stages ? 1 : 0));
  }
}

/// A ring's steps merge results of attention that keeps no score matrix, whatever the stack's attention is otherwise.
void fill_ring(Plan& p, const Filler& fill) {
  if (has_ring(p.parallel)) fill.set("training.flash_attention", p.training.flash_attention, true);
}

void fill_recompute(TrainingSpec& t, const Given& given) {
  if (t.recompute != Recompute::selective) return;
  if (!given.contains("training.recompute_modules")) t.recompute_modules = {"core_attention"};
  // Whole blocks are what full recomputation repeats, and all other modules are parts of one.
  if (std::find(t.recompute_modules.begin(), t.recompute_modules.end(), "block") == t.recompute_modules.end()) return;
  t.recompute = Recompute::full;
  t.recompute_modules.clear();
}

void fill_adapters(AdapterSpec& a, const Filler& fill) {
  if (!a.here()) return;
  fill.set("training.lora.alpha", a.alpha, static_cast<double>(a.rank));
  fill.set("training.lora.targets", a.targets, std::vector<std::string>(kDefaultTargets.begin(), kDefaultTargets.end()));
}

/// Moonlight's momentum (arXiv 2502.16982, appendix D).
void fill_optimizer(OptimizerSpec& o, const Filler& fill) {
  if (o.kind == OptimizerKind::muon) fill.set("training.momentum", o.momentum, 0.95);
}

/// The published recipe of LLaMA models has no dropout (arXiv 2302.13971, 2307.09288), whatever a framework's default is.
Given with_family_recipe(const Plan& plan, const Given& in_file) {
  Given given = in_file;
  if (plan.model.family == Family::llama) given.insert({"training.dropout.hidden", "training.dropout.attention"});
  return given;
}

}  // namespace

std::int64_t derived_data(std::int64_t ranks, std::int64_t others) { return ranks % others == 0 ? ranks / others : 0; }

std::int64_t derived_devices(const Plan& p) {
  const ParallelSpec& q = p.parallel;
  const std::int64_t others = q.tensor * q.pipeline * q.context, each = p.cluster.ranks_per_device;
  if (others > kMaxDevices * each / q.data || others * q.data % each != 0) return 0;
  return others * q.data / each;
}

bool stands_alone(std::string_view field) { return std::find(kAlone.begin(), kAlone.end(), field) != kAlone.end(); }

void fill_defaults(Plan& plan, const Given& in_file) {
  fill_ranks(plan, in_file);
  fill_precision(plan, Filler(in_file));  // what a stack does depends on it, too
  fill_family(plan.model, Filler(in_file));  // first: what a stack does depends on the model (positions, activation)
  choose_stack(plan, in_file);
  const Given given = fill_stack_defaults(plan, with_family_recipe(plan, in_file));
  fill_ring(plan, Filler(in_file));
  const Filler fill(given);
  fill_sizes(plan, fill);
  fill_expert_tensor(plan.parallel, fill);
  fill_types(plan.training, fill);
  fill_chunks(plan, fill);
  fill_recompute(plan.training, given);
  fill_adapters(plan.training.lora, fill);
  fill_optimizer(plan.training.optimizer, fill);
  fill_transfers(plan, fill);
  fill_split(plan);
  // An unknown stack is refused later, with all that is wrong.
  const bool known = is_stack(plan.stack.name);
  if (known && !given.contains("training.fusion")) plan.training.fusion = fusion_set(stack_fusion(plan));
  const AttentionKernel named = plan.training.fusion.attention;
  const AttentionKernel kernel = attention_kernels(plan, named).only_own() ? AttentionKernel::own : named;
  fill.set("training.attention_kernel", plan.training.attention_kernel, kernel);
  remember_choices(plan, given);
  resolve_stack(plan);
}

}  // namespace tandem
