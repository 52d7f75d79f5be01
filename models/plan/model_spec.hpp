#pragma once
// The model of a plan: its layers, attention, experts and embeddings.

#include <cstdint>
#include <string>
#include <string_view>

#include "models/plan/layer_kind.hpp"
#include "models/plan/recurrence.hpp"
#include "models/plan/routing.hpp"

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
/// The spelling of a value in a plan file.
std::string_view name(Family v);
std::string_view name(Activation v);
std::string_view name(Normalization v);
std::string_view name(NormPlacement v);
std::string_view name(ParallelResidual v);
std::string_view name(QkNorm v);
std::string_view name(PositionEmbedding v);
std::string_view name(RecurrenceRule v);
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
  double z_loss = 0;                     ///< weight of the mean squared log-sum-exp of router logits (arXiv 2202.08906 section 3.2)
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
  double balance_rate = 0;               ///< step of the router's balancing bias; 0: no such bias, unless balance_bias
  bool balance_bias = false;             ///< the router has a balancing bias even if it stays where it is
  double rows_bound = 2;                 ///< dropless: a rank's row capacity, as a multiple of an even share

  bool balanced() const { return balance_bias || balance_rate > 0; }
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
  bool truncate = true;                  ///< yarn: the blend begins and ends at whole pairs
  /// yarn. In latent attention scores are multiplied by (1 + 0.1 mscale_all_dim ln factor)^2. In other attention, 1: queries and keys
  /// keep their length; 0: they are multiplied by 1 + 0.1 ln factor.
  double mscale_all_dim = 0;
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
  std::string layers = "w";              ///< one letter per layer, repeated: "w" has the window if there is one, "f" sees all keys
  double rope_theta = 0;                 ///< rotary base in layers with a window, without scaling; 0: as in the others
  bool full_rotary = true;               ///< layers of the letter "f" have rotary embedding
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
  double attention_scale = 0;            ///< factor of attention scores; 0: 1 / sqrt(head_dim)
  double attention_soft_cap = 0;         ///< c: a score x becomes c tanh(x / c); 0: no cap
  double logit_soft_cap = 0;             ///< likewise for logits
  double embedding_scale = 1;            ///< factor of a word's embedding (Gemma: the root of the hidden size)
  double residual_scale = 1;             ///< factor of what attention, MLP or experts add to the residual stream
  double logit_scale = 1;                ///< factor of logits, before their soft cap
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

}  // namespace tandem
