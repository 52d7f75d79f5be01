#pragma once
// The plan: what is trained, how it is split, with which numbers, on what. One immutable value that both
// performers interpret. Parsing and validation: plan_parse.cpp; derived counts: plan_derived.cpp.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/dtype.hpp"
#include "models/base/error.hpp"
#include "models/base/units.hpp"
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
/// Attention and MLP read the same state: normalised once for both, or by a norm of each.
enum class ParallelResidual : std::uint8_t { none, one_norm, two_norms };
/// Norms of queries and keys: none, before their positions enter an RMS norm of every head (Qwen3, arXiv 2505.09388 section 2) or of all
/// heads as one row (OLMo 2, arXiv 2501.00656 section 2.1), or one of every head without a weight behind its turn (Llama 4).
enum class QkNorm : std::uint8_t { none, head, row, turned };
enum class PositionEmbedding : std::uint8_t { learned, rope, alibi, relative, none };
/// How a token reaches the ranks of its experts: a row for each expert, or one copy a rank and one between two nodes (DeepEP).
enum class TokenDispatcher : std::uint8_t { alltoall, deepep };
enum class ContextMode : std::uint8_t { ring, all_gather, ulysses };
enum class OptimizerSync : std::uint8_t { global, post_validated };
/// What is copied around the collectives of ZeRO 3's units (models/lowering/templates/unit_copies.hpp).
enum class UnitCopies : std::uint8_t { none, flat, per_parameter };
enum class Recompute : std::uint8_t { none, selective, full };
enum class OptimizerKind : std::uint8_t { adamw, lans, lamb, sgd };
enum class DecayShape : std::uint8_t { constant, linear, cosine, polynomial };
/// What of a step is captured in CUDA graphs (models/lowering/cuda_graphs.hpp).
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

/// Buckets of relative positions, a learned number for each and every head (T5, arXiv 1910.10683 section 2.1).
inline constexpr std::int64_t kRelativeBuckets = 32;

struct MoeSpec {
  std::int64_t num_experts = 0;          ///< 0: dense model
  std::int64_t experts_per_token = 1;
  std::int64_t ffn_hidden_size = 0;      ///< 0: the model's
  std::int64_t num_shared_experts = 0;
  std::int64_t first_dense_layers = 0;
  std::int64_t layer_frequency = 1;
  double capacity_factor = 0;            ///< 0: dropless
  double aux_loss = 0;
  bool router_bias = false;
  RouterScores router_scores = RouterScores::softmax;
  bool normalize_weights = true;         ///< a token's weights are divided by their sum where it visits several experts
  double weight_scale = 1;               ///< of weights, behind that
  std::int64_t expert_groups = 1;        ///< equal groups of neighbouring experts
  std::int64_t groups_per_token = 0;     ///< groups that a token's experts may be of; 0: all
  GroupScore group_score = GroupScore::max;
  bool weigh_inputs = false;             ///< weights multiply what experts read, not what they give
  bool shared_gate = false;              ///< a sigmoid of each token scales what shared experts give
  std::int64_t shared_ffn_hidden_size = 0; ///< of all shared experts together; 0: as many times `ffn_hidden_size`
  bool branch_norms = false;             ///< shared experts and the others have norms of their own, before and behind
  bool router_norm = false;              ///< the router reads a norm of its own
  bool expert_scale = false;             ///< weights of a token's experts are multiplied by a learned number of each expert
  double balance_rate = 0;               ///< step of the bias that balances the choice of experts; 0: there is none
  double rows_bound = 2;                 ///< dropless: rows a rank has room for, as a multiple of an even share

  /// Inner width of the shared experts together; 0: there are none.
  std::int64_t shared_ffn() const {
    if (num_shared_experts == 0) return 0;
    return shared_ffn_hidden_size > 0 ? shared_ffn_hidden_size : num_shared_experts * ffn_hidden_size;
  }
};

/// Modules that predict further tokens one after the other (DeepSeek-V3, arXiv 2412.19437 section 2.2): module k reads the states of the one
/// before it and token i + k, and is asked for token i + k + 1.
struct MtpSpec {
  std::int64_t num_layers = 0;           ///< modules, each with a block like the model's last layer; 0: none
  double loss_scale = 0.1;               ///< weight of the mean of their losses beside the model's own
};

struct RopeScaling {
  std::string type;                      ///< empty: none
  double factor = 1;
  std::int64_t original_max_position_embeddings = 4096;  ///< llama3 and yarn: sequences that the model was trained on before
  double beta_fast = 32, beta_slow = 1;  ///< yarn: pairs that turn more often in such a sequence stay, that turn less often are stretched
  double mscale_all_dim = 0;             ///< yarn: scores are multiplied by (1 + 0.1 mscale_all_dim ln factor)^2 in latent attention
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values of all heads come from a compressed row.
struct LatentSpec {
  std::int64_t kv_rank = 0;              ///< width of that row; 0: keys and values come from the state itself
  std::int64_t query_rank = 0;           ///< width of the row that queries come from; 0: from the state itself
  std::int64_t rotary_dim = 64;          ///< dimensions of a head that turn by position, of keys one vector for all heads
};

/// The indexer of sparse attention. Of latent attention it chooses single keys (DeepSeek-V3.2, arXiv 2512.02556 section 2.1): its queries come
/// from the compressed row of latent attention's, its keys from the state. Of grouped attention it chooses blocks of keys, with a head for
/// every key head (MiniMax Sparse Attention, arXiv 2606.13392 section 3.1): queries and key come from the state and have the norms and the turn
/// of attention's. Simulated only.
struct IndexerSpec {
  std::int64_t heads = 0;                ///< that a query has, of keys there is one; 0: there is none
  std::int64_t head_dim = 128;           ///< of which as many turn as of attention's heads
  std::int64_t topk = 2048;              ///< keys that a query of attention sees at most, a multiple of `block_size`
  std::int64_t block_size = 1;           ///< neighbouring keys that are chosen together; a query's own block always is
  std::string layers = "i";              ///< a letter a layer, again from the first: "i" has the indexer, "f" sees all keys
  bool blocks() const { return block_size > 1; }
};

/// Heads of the attention of one kind of layer, and their widths.
struct AttentionHeads {
  std::int64_t queries, keys;            ///< query heads; key and value heads
  std::int64_t head_dim, value_dim;      ///< of a query and a key; of a value
  bool tied = false;                     ///< values are the keys
  bool operator==(const AttentionHeads&) const = default;
};

/// Layers whose queries see only keys near them (models/ops/window.hpp).
struct WindowSpec {
  std::int64_t size = 0;                 ///< keys that a query sees at most, its own among them; 0: no layer has a window
  bool chunked = false;                  ///< those of its own chunk of `size` positions, in place of the last `size`
  std::string layers = "w";              ///< a letter a layer, again from the first: "w" has the window, "f" sees all keys
  double rope_theta = 0;                 ///< of layers with a window, whose positions are not stretched then; 0: as elsewhere
  bool full_rotary = true;               ///< layers without a window turn by position
  bool full_sinks = true;                ///< layers without a window have sinks where the model has
  // Of the attention of layers with a window; 0: as elsewhere.
  std::int64_t num_attention_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t value_dim = 0;            ///< 0: as wide as `head_dim` where that is given
  bool own_values = false;               ///< where elsewhere values are the keys (tie_kv), these layers have values of their own
};

/// Layers with a recurrence in place of attention (models/ops/recurrence.hpp). Simulated only.
struct RecurrenceSpec {
  RecurrenceRule rule = RecurrenceRule::gated_delta;
  std::int64_t heads = 0;                ///< of values; 0: no layer has a recurrence
  std::int64_t key_heads = 0;            ///< of queries and keys, each for equally many of these
  std::int64_t key_dim = 128, value_dim = 128;  ///< widths of a head; of key_dim times value_dim is its state
  std::int64_t conv_width = 4;           ///< positions that the convolution before it sees, its own the last of them
  bool conv_bias = false;
  std::string layers = "r";              ///< a letter a layer, again from the first: "r" has the recurrence, "a" attention
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
  std::int64_t value_dim = 0;            ///< width of a head's values
  std::int64_t ffn_hidden_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t pad_vocab_to = 0;         ///< vocabulary is padded to a multiple of this
  std::int64_t max_position_embeddings = 0;
  std::int64_t token_types = 0;
  Activation activation = Activation::gelu;
  Normalization normalization = Normalization::layernorm;
  NormPlacement norm_placement = NormPlacement::pre;
  ParallelResidual parallel_residual = ParallelResidual::none;
  bool norm_bias = true;                 ///< layer norms have a shift
  double norm_epsilon = 1e-5;
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  double rope_theta = 10000;
  double rotary_fraction = 1;            ///< of a head's dimensions that turn, from the first
  RopeScaling rope_scaling;
  bool tie_embeddings = true;
  bool linear_bias = true;
  bool qkv_bias = true;
  bool output_bias = false;              ///< logits have a bias
  QkNorm qk_norm = QkNorm::none;
  bool value_norm = false;               ///< an RMS norm of every head of values, without a weight
  bool tie_kv = false;                   ///< values are the keys, before these are multiplied by their norm's weight and turned
  LatentSpec latent;
  IndexerSpec indexer;
  WindowSpec window;
  RecurrenceSpec recurrence;
  std::string sublayers = "b";           ///< a letter a layer, again from the first: "b" both, "m" without MLP or experts, "f" these alone
  bool attention_gate = false;           ///< a sigmoid of the layer's input scales what attention gives, column by column
  bool attention_sinks = false;          ///< a learned score of every query head joins its softmax and takes no value
  double attention_soft_cap = 0;         ///< c: a score x becomes c tanh(x / c); 0: it stays
  double logit_soft_cap = 0;             ///< the same of logits
  bool embedding_norm = false;
  double init_std = 0.02;
  MoeSpec moe;
  MtpSpec mtp;
  std::string notes;

  bool gated() const {
    return activation == Activation::swiglu || activation == Activation::geglu || activation == Activation::clamped_swiglu;
  }
  /// Of the dimensions of a head of this width, how many turn: the share of them, rounded down.
  std::int64_t rotary_dim(std::int64_t width) const {
    return latent.kv_rank > 0 ? latent.rotary_dim : static_cast<std::int64_t>(static_cast<double>(width) * rotary_fraction);
  }
  AttentionHeads attention_heads(Mixer mixer) const;
  bool has_sinks(Mixer mixer) const { return attention_sinks && (mixer == Mixer::windowed || window.full_sinks); }
  /// Whether layers with a window have other heads than the others.
  bool has_window_heads() const { return window.size > 0 && attention_heads(Mixer::windowed) != attention_heads(Mixer::full); }
  /// Whether layer `layer` (0 first) holds experts instead of one MLP. Blocks of MTP modules follow the layers and are like the last one.
  bool has_experts(std::int64_t layer) const;
  /// Whether the queries of layer `layer` (0 first) see only a window of keys.
  bool has_window(std::int64_t layer) const;
  /// Whether an indexer chooses the keys that they see.
  bool has_indexer(std::int64_t layer) const;
  /// What layer `layer` (0 first) is made of.
  LayerKind kind(std::int64_t layer) const;
  /// Layers of all stacks: t5 adds its decoder.
  std::int64_t total_layers() const { return num_layers + num_decoder_layers; }
  /// The same with the blocks of MTP modules.
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
  std::int64_t virtual_pipeline = 1;     ///< chunks a stage
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  bool sequence_parallel = false;
  ContextMode context_mode = ContextMode::ring;
  int zero_stage = 0;
  std::int64_t zero_group = 0;           ///< 0: the whole data axis
  OptimizerSync optimizer_sync = OptimizerSync::global;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  bool tensor_overlap = false;
  bool overlap_tensor_sum = false;       ///< an input's gradient is summed while its matrix' gradient is computed
  bool overlap_p2p = true;               ///< stages compute while they send
  bool overlap_experts = false;          ///< experts' rows of one micro-batch travel while another computes
  TokenDispatcher token_dispatcher = TokenDispatcher::alltoall;
  bool scatter_p2p = false;              ///< tensor ranks send a share each of what all of them hold
  Bytes bucket_bytes{160'000'000};
  std::int64_t prefetch_layers = 1;
  std::int64_t reuse_distance = 0;       ///< parameters: what zero_stage 3 uses again before so many others stays gathered
  UnitCopies unit_copies = UnitCopies::none;
  bool root_unit = false;                ///< both ends of the model are one unit of zero_stage 3, whole in both passes
  std::vector<std::int64_t> pipeline_split; ///< layers per stage (x chunk); empty: auto
  std::string rank_order = "tp-cp-ep-dp-pp";///< fastest axis first
  OffloadSpec offload;
  std::string name, notes;
};

/// What each class of tensor is stored or computed in.
struct DTypes {
  DType compute = DType::bf16;
  DType weights = DType::bf16;
  DType gradients = DType::fp32;         ///< accumulated gradient
  DType gradient_reduce = DType::fp32;   ///< what data-parallel reduction carries
  DType master = DType::fp32;            ///< equal to weights: no separate copy
  DType optimizer_state = DType::fp32;
  DType dispatch = DType::bf16;          ///< tokens on their way to experts, with token_dispatcher deepep
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
  std::int64_t decay_over = 0;           ///< 0: the run's length
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
  bool stochastic_rounding = true;       ///< of weights and states in 16 bits of which there is no wider copy
  Recompute recompute = Recompute::none;
  std::int64_t recompute_layers = 0;     ///< 0: all
  std::vector<std::string> recompute_modules;
  bool recompute_products = false;       ///< of "operations": every second matrix product, too, but no attention
  bool fp8_activation_inputs = false;    ///< what an MLP's or an expert's activation reads is kept in 8 bits
  bool recompute_early_stop = false;     ///< of whole layers: ends where the backward pass has all that it reads
  bool flash_attention = false;
  AttentionKernel attention_kernel = AttentionKernel::flash2;  ///< only with flash_attention
  FusionSet fusion;                      ///< the named set, resolved
  CudaGraphs cuda_graphs = CudaGraphs::none;
  bool deterministic = false;            ///< only kernels and collectives that give the same bits again
  bool fill_uninitialized_memory = false;///< tensors are filled before tasks write them; only where deterministic
  bool launch_blocking = false;          ///< a launch returns when the device has done it, so the host is never ahead
  bool expandable_segments = false;      ///< PyTorch's allocator maps more memory behind a segment in place of taking another
  Dropout dropout;
  OptimizerSpec optimizer;
  BatchRampup batch_rampup;
  double clip_grad = 1.0;                ///< 0: off
  std::uint64_t seed = 1234;
  std::int64_t steps = 1;
  std::string name, notes;

  /// Whether losses are scaled: the gradients of fp16 activations lose their small values otherwise.
  bool scales_loss() const { return dtypes.compute == DType::fp16; }
  /// Whether an update leaves nothing wider than 16 bits of some tensor.
  bool rounds_states() const {
    const DType last = dtypes.master == dtypes.weights ? dtypes.weights : dtypes.master;
    return bits(last) == 16 || bits(dtypes.optimizer_state) == 16;
  }
};

enum class Algorithm : std::uint8_t;   // models/ops/collective.hpp

/// What communication libraries would choose themselves: algorithms of all groups' collectives.
struct CollectiveAlgorithms {
  std::optional<Algorithm> all_reduce, all_gather, reduce_scatter, all_to_all;
};

struct ClusterOverride {
  std::optional<Bandwidth> scale_out_per_node;
  std::optional<Bandwidth> scale_up_per_device;
  std::optional<double> oversubscription;
  std::optional<std::int64_t> devices_per_node;
  CollectiveAlgorithms algorithms;
  std::string nccl_algo;                 ///< what NCCL may choose from: ring, ^nvls; empty: everything
};

struct ClusterSpec {
  std::string preset;
  std::string generation;                ///< of its devices ("hopper"), a fact of the preset that the caller of the parser looks up
  std::int64_t devices = 0;
  std::int64_t ranks_per_device = 1;     ///< `override.ranks_per_device`
  std::int64_t threads_per_rank = 1;     ///< with which a rank on processors computes
  ClusterOverride override;
  Perturbation perturbation;
  std::string name, notes;
};

/// The stack of this project's runtime.
inline constexpr std::string_view kOwnStack = "tandem";

/// The framework, at a date, whose habits the plan has.
struct PlanStack {
  std::string name{kOwnStack};
  Month as_of;                           ///< of the framework's code
  bool refuses = false;                  ///< its rules refuse plans; else they are told in notes
  StackFacts facts;                      ///< what its rules come to for this plan (resolve_stack)
};

/// A stack as the command line names it: "megatron-core" or "megatron-core@2024-07".
struct StackChoice {
  std::string name;
  std::optional<Month> as_of;
};
/// Throws ConfigError where the text has another form.
StackChoice parse_stack_choice(const std::string& text);

/// Where a parser gets the generation of a cluster's devices: of a preset's name, or a path. Empty where it is not known.
using GenerationOf = std::function<std::string(const std::string& preset)>;

/// What a plan is read with.
struct PlanContext {
  GenerationOf generation;
  std::optional<StackChoice> stack = std::nullopt;  ///< in place of what the file says
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
  std::vector<std::string> ineffective;  ///< "field changes nothing: why", of fields the plan spells out

  // ---- derived, all exact (plan_derived.cpp) ----
  std::int64_t world_size() const;               ///< ranks
  /// A forward and a backward pass run at once, so that rows of experts travel beside computation.
  bool runs_pairs() const { return parallel.overlap_experts && model.moe.num_experts > 0 && parallel.expert > 1; }
  /// Whether tokens travel to experts once a rank, not once an expert.
  bool sends_copies() const {
    return parallel.token_dispatcher == TokenDispatcher::deepep && model.moe.num_experts > 0 && parallel.expert > 1;
  }
  std::int64_t micro_batches() const;            ///< per pipeline and step: global / (micro x data)
  std::int64_t micro_batch_tokens() const;       ///< micro_batch_size x seq_length
  std::int64_t global_batch_tokens() const;
  std::int64_t padded_vocab_size() const;
  /// Masked positions of a sequence (bert): 15 %, rounded, at least one (arXiv 1810.04805 section 3.1).
  std::int64_t masked_positions() const;
  /// Targets of the global batch, which the loss is a mean over: its tokens, bert's masked positions, or the tokens that
  /// t5's decoder is asked for.
  std::int64_t loss_targets() const;
  /// Tokens of the data that one sequence is made of, besides the one that is only a target: t5's decoder goes on where its
  /// encoder ends.
  std::int64_t sequence_tokens() const;
  /// Positions of a sequence in global layer `layer`: t5's decoder layers have their own.
  std::int64_t layer_seq_length(std::int64_t layer) const;
  /// Rows that an expert takes from the tokens one rank routes, its context (sequence-parallel: and tensor) share of a
  /// micro-batch: capacity_factor x tokens x experts_per_token / num_experts, rounded up; 0: dropless.
  std::int64_t expert_capacity() const;
  /// Layers of every stage, `pipeline` entries (x virtual_pipeline chunks, in the order in which a micro-batch passes them:
  /// stage_of_part), sum = model.total_layers(). With layers + 2 chunks the first and the last are 0: embedding and head alone.
  std::vector<std::int64_t> layers_per_stage() const;
};

/// Parameters by part, with the vocabulary unpadded (as published) and as stored (padded).
struct ParameterCount {
  // Of attention to all keys, where some layers have it, else of the first layer's mixer.
  std::int64_t per_layer = 0;        ///< with an MLP where there are experts (of the encoder for t5)
  std::int64_t per_decoder_layer = 0;///< t5: self attention, cross attention and MLP
  std::int64_t per_moe_layer = 0;    ///< a layer with experts, all of them and the router; 0 in dense models
  std::int64_t embedding = 0;        ///< token + position (+ token type) + embedding norm
  std::int64_t head = 0;             ///< final norm, the untied output matrix, bert's pooler and two heads
  std::int64_t mtp = 0;              ///< modules of multi-token prediction, without the embedding and head that they share
  std::int64_t total = 0;
  std::int64_t total_padded = 0;
};
ParameterCount count_parameters(const ModelSpec& model, std::int64_t padded_vocab_size);

/// Reads, completes and validates a plan file. `topology/plan_reader.hpp` has the same with the presets' devices. Throws ConfigError (exit 3) with *all* problems of syntax, type, unit,
/// key and value; InfeasibleError (exit 4) with all reasons why a well-formed plan cannot be (divisibility, stack
/// rules). What this version cannot lower is loaded: require_lowerable() refuses it.
Plan load_plan(const std::string& path, const PlanContext& context);

/// The same for text; `file` is only used in messages.
Plan parse_plan(std::string_view text, const std::string& file, const PlanContext& context);

/// The completed plan as JSON text, every default printed, loadable again.
std::string to_json(const Plan& plan, int indent = 2);

/// Throws InfeasibleError naming every field that this version can parse but not lower.
void require_lowerable(const Plan& plan);

/// A model preset (models/presets/<name>.json) completed as in a plan of one rank. Throws ConfigError.
ModelSpec load_model(const std::string& preset);

/// JSON Schema (draft-07) of a plan file, generated from the definitions that the parser uses.
std::string plan_json_schema();

}  // namespace tandem
