#pragma once
// The plan: the model, its split over ranks, its settings and its cluster. An immutable value. Parsing: plan_parse.cpp.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/base/error.hpp"
#include "models/base/units.hpp"
#include "models/plan/adapters.hpp"
#include "models/plan/layer_kind.hpp"
#include "models/plan/loss_scale.hpp"
#include "models/plan/perturbation.hpp"
#include "models/plan/recurrence.hpp"
#include "models/plan/routing.hpp"
#include "models/plan/schedule_kind.hpp"
#include "models/plan/stack_facts.hpp"
#include "models/plan/fusion_set.hpp"

namespace tandem {

enum class Family : std::uint8_t { gpt, llama, bloom, bert, t5 };
enum class Activation : std::uint8_t { gelu, relu, squared_relu, swiglu, geglu, clamped_swiglu };
enum class Normalization : std::uint8_t { layernorm, rmsnorm };
enum class NormPlacement : std::uint8_t { pre, post, post_add, sandwich, behind };
/// Whether attention and MLP read the same state, after one shared norm or after a norm each.
enum class ParallelResidual : std::uint8_t { none, one_norm, two_norms };
/// Norms of queries and keys. head: an RMS norm per head (Qwen3, arXiv 2505.09388 section 2). row: one over all heads (OLMo
/// 2, arXiv 2501.00656 section 2.1); both before rotary embedding. turned: one per head after it, without a weight (Llama 4).
enum class QkNorm : std::uint8_t { none, head, row, turned };
enum class PositionEmbedding : std::uint8_t { learned, rope, alibi, relative, none };
/// How a token reaches its experts: a row per expert, a copy per rank and one between two nodes (DeepEP), or a copy to every rank.
enum class TokenDispatcher : std::uint8_t { alltoall, deepep, allgather };
enum class ContextMode : std::uint8_t { ring, all_gather, ulysses };
enum class OptimizerSync : std::uint8_t { global, post_validated };
/// Copies that a framework makes around the collectives of ZeRO 3's units (models/lowering/templates/unit_copies.hpp).
enum class UnitCopies : std::uint8_t { none, flat, per_parameter };
enum class Recompute : std::uint8_t { none, selective, full };
enum class OptimizerKind : std::uint8_t { adamw, lans, lamb, sgd };
enum class DecayShape : std::uint8_t { constant, linear, cosine, polynomial };
/// Which parts of a step are captured in CUDA graphs (models/lowering/cuda_graphs.hpp).
enum class CudaGraphs : std::uint8_t { none, layers, iteration };
/// The spelling of a value in a plan file: "1f1b", "squared_relu", "zb-h1" ...
std::string_view name(Family v);
std::string_view name(Activation v);
std::string_view name(Normalization v);
std::string_view name(NormPlacement v);
std::string_view name(ParallelResidual v);
std::string_view name(QkNorm v);
std::string_view name(PositionEmbedding v);
std::string_view name(RecurrenceRule v);
std::string_view name(ScheduleKind v);
std::string_view name(TokenDispatcher v);
std::string_view name(ContextMode v);
std::string_view name(OptimizerSync v);
std::string_view name(UnitCopies v);
std::string_view name(Recompute v);
std::string_view name(OptimizerKind v);
std::string_view name(DecayShape v);
std::string_view name(CudaGraphs v);
std::string_view name(AttentionKernel v);
std::string_view name(RouterScores v);
std::string_view name(GroupScore v);

/// Buckets of relative positions. Each head has a learned number for each (T5, arXiv 1910.10683 section 2.1).
inline constexpr std::int64_t kRelativeBuckets = 32;

struct MoeSpec {
  std::int64_t num_experts = 0;          ///< 0: dense model
  std::int64_t experts_per_token = 1;
  std::int64_t ffn_hidden_size = 0;      ///< 0: the model's ffn_hidden_size
  std::int64_t num_shared_experts = 0;
  std::int64_t first_dense_layers = 0;
  std::int64_t layer_frequency = 1;
  double capacity_factor = 0;            ///< 0: dropless
  double aux_loss = 0;
  bool router_bias = false;
  RouterScores router_scores = RouterScores::softmax;
  bool normalize_weights = true;         ///< weights of a token are divided by their sum if it has several experts
  double weight_scale = 1;               ///< factor of the normalized weights
  std::int64_t expert_groups = 1;        ///< equal groups of neighbouring experts
  std::int64_t groups_per_token = 0;     ///< groups that a token's experts may come from; 0: all
  GroupScore group_score = GroupScore::max;
  bool weigh_inputs = false;             ///< weights multiply the experts' input, not their output
  bool shared_gate = false;              ///< a sigmoid of each token scales the shared experts' output
  std::int64_t shared_ffn_hidden_size = 0; ///< width of all shared experts together; 0: num_shared_experts * ffn_hidden_size
  bool branch_norms = false;             ///< shared and routed experts have their own norms, before and after
  bool router_norm = false;              ///< the router has its own norm
  bool expert_scale = false;             ///< weights are multiplied by a learned number per expert
  double balance_rate = 0;               ///< step of the router's balancing bias; 0: no such bias
  double rows_bound = 2;                 ///< dropless: a rank's row capacity, as a multiple of an even share

  /// Total inner width of the shared experts; 0: none.
  std::int64_t shared_ffn() const {
    if (num_shared_experts == 0) return 0;
    return shared_ffn_hidden_size > 0 ? shared_ffn_hidden_size : num_shared_experts * ffn_hidden_size;
  }
};

/// Multi-token prediction: modules that predict further tokens in sequence (DeepSeek-V3, arXiv 2412.19437
/// section 2.2). Module k reads the states of module k - 1 and token i + k. It predicts token i + k + 1.
struct MtpSpec {
  std::int64_t num_layers = 0;           ///< number of modules, each with a block like the last layer; 0: none
  double loss_scale = 0.1;               ///< weight of the modules' mean loss beside the model's loss
};

struct RopeScaling {
  std::string type;                      ///< empty: none
  double factor = 1;
  std::int64_t original_max_position_embeddings = 4096;  ///< llama3, yarn: sequence length of the training before the scaling
  double beta_fast = 32, beta_slow = 1;  ///< yarn: turns in such a sequence; pairs above beta_fast stay, below beta_slow scale
  double mscale_all_dim = 0;             ///< yarn, latent attention: scores are multiplied by (1 + 0.1 mscale_all_dim ln factor)^2
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values of all heads share a compressed row.
struct LatentSpec {
  std::int64_t kv_rank = 0;              ///< width of the compressed row; 0: keys and values come from the hidden state
  std::int64_t query_rank = 0;           ///< width of the queries' compressed row; 0: from the hidden state
  std::int64_t rotary_dim = 64;          ///< rotary dimensions of a head; for keys one vector, shared by all heads
};

/// The indexer of sparse attention. With latent attention it chooses single keys (DeepSeek-V3.2, arXiv 2512.02556 section
/// 2.1). Its queries come from latent attention's compressed row, its keys from the hidden state. With grouped attention it
/// chooses blocks of keys, with one head per key head (MiniMax Sparse Attention, arXiv 2606.13392 section 3.1). Queries and
/// key then come from the hidden state and have attention's norms and rotary embedding. This variant is simulated only.
struct IndexerSpec {
  std::int64_t heads = 0;                ///< heads of its queries; its key has one; 0: no indexer
  std::int64_t head_dim = 128;           ///< width of a head; as many dimensions rotate as in attention's heads
  std::int64_t topk = 2048;              ///< most keys that a query of attention sees, a multiple of `block_size`
  std::int64_t block_size = 1;           ///< keys per block; a query's own block is always chosen
  std::string layers = "i";              ///< one letter per layer, repeated: "i" has the indexer, "f" sees all keys
  bool blocks() const { return block_size > 1; }
};

/// Attention heads of one kind of layer, and their widths.
struct AttentionHeads {
  std::int64_t queries, keys;            ///< query heads; key and value heads
  std::int64_t head_dim, value_dim;      ///< widths of queries and keys; of values
  bool tied = false;                     ///< values equal keys
  bool operator==(const AttentionHeads&) const = default;
};

/// Layers with attention to a window of keys (models/ops/window.hpp).
struct WindowSpec {
  std::int64_t size = 0;                 ///< most keys that a query sees, its own included; 0: no layer has a window
  bool chunked = false;                  ///< a query sees its own chunk of `size` positions, not the last `size`
  std::string layers = "w";              ///< one letter per layer, repeated: "w" has the window, "f" sees all keys
  double rope_theta = 0;                 ///< rotary base in layers with a window, without scaling; 0: as in the others
  bool full_rotary = true;               ///< layers without a window have rotary embedding
  bool full_sinks = true;                ///< layers without a window have the model's attention sinks
  // Attention heads of layers with a window; 0: as in the others.
  std::int64_t num_attention_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t value_dim = 0;            ///< 0: `head_dim` of these layers if given
  bool own_values = false;               ///< these layers have separate values although tie_kv is set
};

/// Layers with a recurrence in place of attention (models/ops/recurrence.hpp).
struct RecurrenceSpec {
  RecurrenceRule rule = RecurrenceRule::gated_delta;
  std::int64_t heads = 0;                ///< value heads; 0: no layer has a recurrence
  std::int64_t key_heads = 0;            ///< heads of queries and keys; each serves heads / key_heads value heads
  std::int64_t key_dim = 128, value_dim = 128;  ///< widths of a head; its state is key_dim x value_dim
  std::int64_t conv_width = 4;           ///< positions that the convolution before it sees, the own one included
  bool conv_bias = false;
  std::string layers = "r";              ///< one letter per layer, repeated: "r" has the recurrence, "a" attention
};

struct ModelSpec {
  std::string name;
  Family family = Family::gpt;
  std::int64_t num_layers = 0;
  std::int64_t num_decoder_layers = 0;   ///< t5 only
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;            ///< width of one head's value
  std::int64_t ffn_hidden_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t pad_vocab_to = 0;         ///< vocabulary is padded to a multiple of this
  std::int64_t max_position_embeddings = 0;
  std::int64_t token_types = 0;
  Activation activation = Activation::gelu;
  Normalization normalization = Normalization::layernorm;
  NormPlacement norm_placement = NormPlacement::pre;
  ParallelResidual parallel_residual = ParallelResidual::none;
  bool norm_bias = true;                 ///< layer norms have a bias
  double norm_epsilon = 1e-5;
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  double rope_theta = 10000;
  double rotary_fraction = 1;            ///< share of a head's dimensions that rotate, from the first
  RopeScaling rope_scaling;
  bool tie_embeddings = true;
  bool linear_bias = true;
  bool qkv_bias = true;
  bool output_bias = false;              ///< logits have a bias
  QkNorm qk_norm = QkNorm::none;
  bool value_norm = false;               ///< an RMS norm of every value head, without a weight
  bool tie_kv = false;                   ///< values are the keys before their norm's weight and rotary embedding
  LatentSpec latent;
  IndexerSpec indexer;
  WindowSpec window;
  RecurrenceSpec recurrence;
  std::string sublayers = "b";           ///< one letter per layer, repeated: "b" both parts, "m" mixer only, "f" feed-forward only
  bool attention_gate = false;           ///< a sigmoid of the layer's input scales attention's output per column
  bool attention_sinks = false;          ///< a learned logit of every query head joins its softmax, without a value
  double attention_soft_cap = 0;         ///< c: a score x becomes c tanh(x / c); 0: no cap
  double logit_soft_cap = 0;             ///< likewise for logits
  bool embedding_norm = false;
  double init_std = 0.02;
  MoeSpec moe;
  MtpSpec mtp;
  std::string notes;

  bool gated() const {
    return activation == Activation::swiglu || activation == Activation::geglu || activation == Activation::clamped_swiglu;
  }
  /// Number of rotary dimensions in a head of this width, rounded down.
  std::int64_t rotary_dim(std::int64_t width) const {
    return latent.kv_rank > 0 ? latent.rotary_dim : static_cast<std::int64_t>(static_cast<double>(width) * rotary_fraction);
  }
  AttentionHeads attention_heads(Mixer mixer) const;
  bool has_sinks(Mixer mixer) const { return attention_sinks && (mixer == Mixer::windowed || window.full_sinks); }
  /// Whether layers with a window have other heads than the rest.
  bool has_window_heads() const { return window.size > 0 && attention_heads(Mixer::windowed) != attention_heads(Mixer::full); }
  /// Whether layer `layer` (first: 0) has experts in place of an MLP. Blocks of MTP modules follow; they equal the last layer.
  bool has_experts(std::int64_t layer) const;
  /// Whether the queries of layer `layer` (first: 0) see only a window of keys.
  bool has_window(std::int64_t layer) const;
  /// Whether an indexer chooses the keys in layer `layer` (first: 0).
  bool has_indexer(std::int64_t layer) const;
  /// Mixer and feed-forward part of layer `layer` (first: 0).
  LayerKind kind(std::int64_t layer) const;
  /// Layers of all stacks. T5 adds its decoder.
  std::int64_t total_layers() const { return num_layers + num_decoder_layers; }
  /// Layers of all stacks, plus blocks of MTP modules.
  std::int64_t total_blocks() const { return total_layers() + mtp.num_layers; }
};

struct OffloadSpec {
  bool optimizer = false;
  bool parameters = false;
  double ratio = 1;
};

struct ParallelSpec {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t data = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;        ///< ranks that share the matrices of the same experts
  std::int64_t virtual_pipeline = 1;     ///< chunks per stage
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  bool sequence_parallel = false;
  ContextMode context_mode = ContextMode::ring;
  int zero_stage = 0;
  std::int64_t zero_group = 0;           ///< 0: the whole data axis
  OptimizerSync optimizer_sync = OptimizerSync::global;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  bool tensor_overlap = false;
  bool overlap_tensor_sum = false;       ///< tensor ranks sum an input gradient while the weight gradient is computed
  bool overlap_p2p = true;               ///< stages compute while they send
  bool overlap_experts = false;          ///< experts' rows of one micro-batch travel while another one computes
  TokenDispatcher token_dispatcher = TokenDispatcher::alltoall;
  bool scatter_p2p = false;              ///< each tensor rank sends a share of the tensor that all of them hold
  Bytes bucket_bytes{160'000'000};
  std::int64_t prefetch_layers = 1;
  std::int64_t reuse_distance = 0;       ///< zero_stage 3: weights reused within so many parameters stay gathered
  UnitCopies unit_copies = UnitCopies::none;
  bool root_unit = false;                ///< zero_stage 3: both ends of the model form one unit that stays gathered
  std::vector<std::int64_t> pipeline_split; ///< layers per stage (x chunk); empty: auto
  std::string rank_order = "tp-cp-ep-dp-pp";///< fastest axis first
  OffloadSpec offload;
  std::string name, notes;
};

/// Types in which each class of tensor is stored or computed.
struct DTypes {
  DType compute = DType::bf16;
  DType weights = DType::bf16;
  DType gradients = DType::fp32;         ///< the accumulated gradient
  DType gradient_reduce = DType::fp32;   ///< type in the data-parallel reduction
  DType master = DType::fp32;            ///< equal to `weights`: no separate copy
  DType optimizer_state = DType::fp32;
  DType dispatch = DType::bf16;          ///< tokens sent to experts under token_dispatcher deepep
};

struct Dropout {
  double hidden = 0;
  double attention = 0;
};

struct LearningRate {
  double peak = 3e-4;
  double minimum = 0;
  DecayShape decay = DecayShape::constant;
  std::string unit = "steps";            ///< steps, samples or tokens
  std::int64_t warmup = 0;
  std::int64_t decay_over = 0;           ///< 0: length of the run
  std::int64_t decay_start = 0;          ///< the rate stays at its peak until then; 0: end of the warm-up
  double power = 1;                      ///< polynomial
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::adamw;
  LearningRate learning_rate;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0;                   ///< sgd
};

struct BatchRampup {
  std::int64_t start = 0;                ///< 0: none
  std::int64_t increment = 0;
  std::int64_t samples = 0;
};

struct TrainingSpec {
  std::int64_t seq_length = 0;
  std::int64_t decoder_seq_length = 0;   ///< t5 only
  std::int64_t micro_batch_size = 0;     ///< sequences
  std::int64_t global_batch_size = 0;    ///< sequences
  std::string precision = "bf16";
  DTypes dtypes;
  LossScale loss_scale;                  ///< fp16 only
  bool stochastic_rounding = true;       ///< for 16-bit weights and states without a wider copy
  Recompute recompute = Recompute::none;
  std::int64_t recompute_layers = 0;     ///< 0: all
  std::vector<std::string> recompute_modules;
  bool recompute_products = false;       ///< "operations" also recomputes every second matrix product, but no attention
  bool fp8_activation_inputs = false;    ///< the input of an activation function is stored in 8 bits
  bool recompute_early_stop = false;     ///< full recomputation of a layer stops at the last tensor that its backward pass reads
  bool flash_attention = false;
  AttentionKernel attention_kernel = AttentionKernel::flash2;  ///< only with flash_attention
  FusionSet fusion;                      ///< the named set, resolved
  CudaGraphs cuda_graphs = CudaGraphs::none;
  bool deterministic = false;            ///< only kernels and collectives with bitwise reproducible results
  bool fill_uninitialized_memory = false;///< new tensors are filled before use; needs `deterministic`
  bool launch_blocking = false;          ///< a launch returns when the device has run it, so the host never runs ahead
  bool expandable_segments = false;      ///< PyTorch's allocator extends segments instead of allocating new ones
  Dropout dropout;
  AdapterSpec lora;                      ///< what is trained instead of the model's own parameters
  OptimizerSpec optimizer;
  BatchRampup batch_rampup;
  double clip_grad = 1.0;                ///< 0: off
  std::uint64_t seed = 1234;
  std::int64_t steps = 1;
  std::string name, notes;

  /// Whether losses are scaled. Small fp16 gradients would underflow otherwise.
  bool scales_loss() const { return dtypes.compute == DType::fp16; }
  /// Whether an update stores some tensor only in 16 bits.
  bool rounds_states() const {
    const DType last = dtypes.master == dtypes.weights ? dtypes.weights : dtypes.master;
    return bits(last) == 16 || bits(dtypes.optimizer_state) == 16;
  }
};

enum class Algorithm : std::uint8_t;   // models/ops/collective.hpp

/// Forced algorithms for all groups' collectives. Unset: the communication library chooses.
struct CollectiveAlgorithms {
  std::optional<Algorithm> all_reduce, all_gather, reduce_scatter, all_to_all;
};

struct ClusterOverride {
  std::optional<Bandwidth> scale_out_per_node;
  std::optional<Bandwidth> scale_up_per_device;
  std::optional<double> oversubscription;
  std::optional<std::int64_t> devices_per_node;
  std::optional<Bytes> memory_bytes;             ///< of a device, as built
  std::optional<Bandwidth> memory_bytes_per_s;   ///< of a device's memory
  CollectiveAlgorithms algorithms;
  std::string nccl_algo;                 ///< algorithms that NCCL may choose from: ring, ^nvls; empty: all
};

struct ClusterSpec {
  std::string preset;
  std::string generation;                ///< generation of its devices ("hopper"); the parser's caller looks it up in the preset
  std::int64_t devices = 0;
  std::int64_t ranks_per_device = 1;     ///< `override.ranks_per_device`
  std::int64_t threads_per_rank = 1;     ///< threads of a rank that computes on CPUs
  ClusterOverride override;
  Perturbation perturbation;
  std::string name, notes;
};

/// The name of the stack for Tandem's own runtime.
inline constexpr std::string_view kOwnStack = "tandem";

/// The framework, at a date, whose behaviour the plan follows.
struct PlanStack {
  std::string name{kOwnStack};
  Month as_of;                           ///< date of the framework's code
  bool refuses = false;                  ///< its rules refuse plans; else broken rules become notes
  StackFacts facts;                      ///< its rules resolved for this plan (resolve_stack)
};

/// A stack as the command line names it: "megatron-core" or "megatron-core@2024-07".
struct StackChoice {
  std::string name;
  std::optional<Month> as_of;
};
/// Parses a StackChoice. Throws ConfigError if the text has another form.
StackChoice parse_stack_choice(const std::string& text);

/// Returns the device generation of a cluster preset, given by name or path. Empty if unknown.
using GenerationOf = std::function<std::string(const std::string& preset)>;

/// Inputs of parsing other than the plan file.
struct PlanContext {
  GenerationOf generation;
  std::optional<StackChoice> stack = std::nullopt;  ///< replaces the file's stack
};

/// A validated plan. Every default is filled in; no field is "unset" any more.
struct Plan {
  std::string name;
  std::string notes;
  std::string file;                      ///< where it was read from, for messages
  ModelSpec model;
  ParallelSpec parallel;
  TrainingSpec training;
  ClusterSpec cluster;
  PlanStack stack;
  std::vector<std::string> ineffective;  ///< "field changes nothing: why", for fields that the file gives

  // ---- derived, all exact (plan_derived.cpp) ----
  std::int64_t world_size() const;               ///< ranks
  /// Whether a forward and a backward pass run at the same time, so that experts' rows travel during computation.
  bool runs_pairs() const { return parallel.overlap_experts && model.moe.num_experts > 0 && parallel.expert > 1; }
  /// Whether a token travels to its experts once per rank, not once per expert.
  bool sends_copies() const {
    return parallel.token_dispatcher == TokenDispatcher::deepep && model.moe.num_experts > 0 && parallel.expert > 1;
  }
  std::int64_t micro_batches() const;            ///< per pipeline and step: global / (micro x data)
  std::int64_t micro_batch_tokens() const;       ///< micro_batch_size x seq_length
  std::int64_t global_batch_tokens() const;
  std::int64_t padded_vocab_size() const;
  /// Number of masked positions in a sequence (BERT): 15 %, rounded, at least one (arXiv 1810.04805 section 3.1).
  std::int64_t masked_positions() const;
  /// Number of targets in the global batch, the divisor of the loss: all
  /// tokens, BERT's masked positions, or the targets of T5's decoder.
  std::int64_t loss_targets() const;
  /// Tokens of the data per sequence, without the one that is only
  /// a target. In T5 the decoder's tokens follow the encoder's.
  std::int64_t sequence_tokens() const;
  /// Positions of a sequence in global layer `layer`. T5's decoder layers have another length.
  std::int64_t layer_seq_length(std::int64_t layer) const;
  /// Rows that an expert takes from one rank's tokens (its context and, under sequence parallelism, tensor share
  /// of a micro-batch): capacity_factor x tokens x experts_per_token / num_experts, rounded up; 0: dropless.
  std::int64_t expert_capacity() const;
  /// Layers of each stage: `pipeline` entries (x virtual_pipeline chunks, in the order of a micro-batch: stage_of_part).
  /// Their sum is model.total_layers(). With layers + 2 chunks the first and last are 0: only embedding, only head.
  std::vector<std::int64_t> layers_per_stage() const;
};

/// Parameters by part, without vocabulary padding (as published). `total_padded` is with padding (as stored).
struct ParameterCount {
  // Layers with full attention if there are any, else with the first layer's mixer.
  std::int64_t per_layer = 0;        ///< with an MLP, even in models with experts (T5: of the encoder)
  std::int64_t per_decoder_layer = 0;///< T5: self attention, cross attention and MLP
  std::int64_t per_moe_layer = 0;    ///< a layer with all experts and the router; 0 in dense models
  std::int64_t embedding = 0;        ///< token + position (+ token type) + embedding norm
  std::int64_t head = 0;             ///< final norm, untied output matrix, BERT's pooler and two heads
  std::int64_t mtp = 0;              ///< MTP modules, without the shared embedding and head
  std::int64_t total = 0;
  std::int64_t total_padded = 0;
};
ParameterCount count_parameters(const ModelSpec& model, std::int64_t padded_vocab_size);

/// Reads, completes and validates a plan file. Throws ConfigError (exit 3) with *all* problems of syntax, type, unit, key and
/// value, and InfeasibleError (exit 4) with all reasons why a valid file cannot run (divisibility, stack rules). Plans that cannot
/// be lowered yet are loaded; require_lowerable() refuses them. `topology/plan_reader.hpp` adds the presets' device generations.
Plan load_plan(const std::string& path, const PlanContext& context);

/// Likewise for text. `file` is only used in messages.
Plan parse_plan(std::string_view text, const std::string& file, const PlanContext& context);

/// The completed plan as JSON text, every default printed, loadable again.
std::string to_json(const Plan& plan, int indent = 2);

/// Throws InfeasibleError naming every field that this version parses but cannot lower.
void require_lowerable(const Plan& plan);

/// Reads a model preset (models/presets/<name>.json), completed as in a plan with one rank. Throws ConfigError.
ModelSpec load_model(const std::string& preset);

/// JSON Schema (draft-07) of a plan file, generated from the parser's own definitions.
std::string plan_json_schema();

}  // namespace tandem
