#pragma once
// The local sizes every lowering pass works with, computed from the plan once. After this only shapes travel.

#include <cstdint>
#include <vector>

#include "models/lowering/shapes/fusion.hpp"
#include "models/lowering/shapes/numerics.hpp"
#include "models/ops/op.hpp"
#include "models/plan/plan.hpp"
#include "models/plan/stack_facts.hpp"

namespace tandem::lowering {

/// What a block keeps of its forward pass; the rest is computed again.
struct Keep {
  bool norms = true;       ///< outputs of the norms
  bool scores = false;     ///< the score matrix itself
  bool up = true;          ///< queries, keys and values of latent attention
  bool core = true;        ///< probabilities, or what flash attention leaves
  bool context = true;     ///< what attention wrote
  bool fc1 = true, activated = true;                ///< outputs of a dense MLP's first matrix and of its activation
  bool expert_fc1 = true, expert_activated = true;  ///< the same of routed experts
  bool shared_fc1 = true, shared_activated = true;  ///< the same of shared experts
  bool dispatched = true;  ///< rows as the experts receive them
  bool state = true;       ///< the residual sum behind the attention
  bool half_fc1 = false;   ///< of a gated MLP's fc1, what one of its two matrices wrote
  bool by_products = false;  ///< what products wrote, every second one's, and nothing between
};

/// How a rank's share of a sequence attends to all of it.
enum class ContextPath : std::uint8_t { none, all_gather, ulysses, ring };

/// What latent attention compresses its input to; rank 0 of keys and values: there is none, of queries: they are not compressed.
struct LatentShape {
  std::int64_t kv_rank = 0, query_rank = 0;
  double query_scale = 1;       ///< what queries are multiplied by, because scores are stretched with their positions
  bool here() const { return kv_rank > 0; }
};

/// The indexer of sparse attention, which works on all tokens. One of single keys is whole on every tensor rank (Megatron-Core:
/// megatron/core/transformer/experimental_attention_variant/dsa.py, parallel_mode duplicated). Of one of blocks a tensor rank has the heads
/// of its own key heads (vllm-project/vllm: vllm/models/minimax_m3/nvidia/model.py). 0 heads: there is none.
struct IndexerShape {
  std::int64_t heads = 0, head_dim = 0, topk = 0;
  std::int64_t block = 0;       ///< keys that are chosen together; 0: single ones
  bool here() const { return heads > 0; }
  bool blocks() const { return block > 0; }
};

/// A recurrence in place of attention, of one rank; 0 heads: the model has none.
struct RecurrenceShape {
  RecurrenceRule rule = RecurrenceRule::gated_delta;
  std::int64_t heads = 0, key_heads = 0, key_dim = 0, value_dim = 0, taps = 0;
  bool conv_bias = false;
};

/// The heads of one rank.
struct HeadShape {
  std::int64_t heads, kv_heads, head_dim;
  std::int64_t kv_repeat;       ///< tensor ranks that hold the same kv heads
  Group kv_group;               ///< of these ranks
  std::int64_t value_dim;       ///< width of a head's values
  std::int64_t attention;       ///< heads * value_dim: columns of the context
  bool keys_are_values;
  std::int64_t rotary_dim;      ///< dimensions of a head that turn
  bool sinks;                   ///< every query head has a learned score that joins its softmax
};

/// Of layers with a window of attention.
struct WindowShape {
  std::int64_t size = 0;        ///< keys
  bool chunked = false, rotary = false;
  double theta = 0;             ///< base of the rotary frequencies, without a scaling; 0: as in other layers
  HeadShape heads{};
};

/// Sizes of one rank, in layers of one kind.
struct Shapes : HeadShape {
  LayerKind kind;               ///< of `of()`; else that of attention to all keys and an MLP
  std::int64_t batch, seq;      ///< sequences of a micro-batch, and of each the positions of this context rank
  std::int64_t tokens;          ///< batch * seq
  std::int64_t rows;            ///< of hidden states between blocks: tokens, or a sequence shard of them
  std::int64_t hidden;
  std::int64_t ffn;             ///< local
  std::int64_t fc1;             ///< local columns of the first matrix: ffn, twice that when gated
  std::int64_t vocab_rows;      ///< local, padded
  std::int64_t vocab_size;      ///< whole, unpadded
  std::int64_t max_positions, token_types;
  std::int64_t global_targets;  ///< of the global batch: what losses are divided by
  std::int64_t global_sequences, global_micro_batches;
  std::int64_t tensor;          ///< tensor-parallel degree
  std::int64_t context;         ///< context-parallel degree
  ContextPath path;
  PointwiseKind activation;     ///< unless gated
  GateKind gate;                ///< if gated
  NormPlacement placement;      ///< of a sandwich, and with norms only behind sublayers: pre
  bool sandwich;                ///< norms behind attention and MLP, too
  bool bare_inputs;             ///< attention and MLP read the state itself: norms stand only behind them
  ParallelResidual parallel;
  bool gated, rms, norm_bias, rotary, linear_bias, qkv_bias;
  bool output_bias;
  QkNorm qk_norm;
  bool value_norm;              ///< and one of values, without a weight
  double attention_soft_cap, logit_soft_cap;  ///< 0: none
  bool router_bias;
  RouterRule routing;              ///< of experts
  TokenCopies copies;           ///< in place of rows on the way to experts; no experts: rows travel
  double balance_rate;          ///< of the bias in their choice; 0: there is none
  bool causal;                  ///< false: bert, and t5's encoder
  bool bert;
  bool sequence_parallel;
  bool flash;
  double rope_theta;
  RopeScalingKind rope_scaling;
  double rope_factor;
  std::int64_t rope_original;  ///< longest sequence before the scaling
  double rope_fast, rope_slow;  ///< turns in that sequence between which yarn goes from angle to angle
  LatentShape latent;           ///< of latent attention, of which every head has keys of its own
  IndexerShape indexer;         ///< of `of()`: `window` is then how many keys a query chooses
  RecurrenceShape recurrence;   ///< of the layers that have one
  bool attention_gate;          ///< the first product gives a gate of what attention gives, too
  bool alibi, learned_positions, embedding_norm, tied;
  bool tensor_overlap;          ///< tensor ranks' collectives run in pieces beside the products they feed or follow
  bool sum_beside_weights;      ///< weight gradients run beside the sum of the input gradient
  bool defer_weights;           ///< zero-bubble: weight gradients are an action of their own
  bool sharded_gradients;       ///< ZeRO 2 and 3: those of a micro-batch lie apart until they are reduced
  bool early_stop;              ///< a layer that runs again ends where its backward pass has what it reads
  bool sharded_weights;         ///< ZeRO 3: gathered before they are used
  double norm_epsilon, hidden_dropout, attention_dropout;
  Keep keep;
  // Experts; 0 experts: none.
  std::int64_t experts, experts_here, top_k, capacity, expert_ffn, expert_fc1, shared_ffn, shared_fc1, expert_ranks, expert_tensor;
  double rows_bound, aux_loss;
  bool weigh_inputs;            ///< weights multiply what experts read
  bool shared_gate;             ///< a sigmoid of each token scales what shared experts give
  bool branch_norms;            ///< shared experts and the others have norms of their own, before and behind
  bool router_norm;             ///< the router has one
  std::vector<LayerKind> kinds; ///< by global layer, then by MTP module: `of()` has their sizes
  std::int64_t window;          ///< keys that a query sees at most; 0: all before it
  IndexerShape layer_indexer;   ///< that of the layers that have it
  WindowShape own_window;       ///< what layers with a window have in place of these
  std::int64_t mtp;             ///< modules of multi-token prediction
  double mtp_loss;              ///< weight of a module's loss
  // An encoder and a decoder; 0 decoder layers: one stack. These are the encoder's sizes, or those of `decoder()`.
  std::int64_t encoder_layers, decoder_layers, decoder_seq;
  std::int64_t memory_seq, memory_rows;   ///< in a decoder: of the encoder's output, which it attends to; else 0
  std::int64_t relative_buckets;          ///< of relative position bias; 0: none
  DTypes dtypes;   ///< `compute` is that of activations
  Numerics numerics;
  UnitCopies unit_copies;  ///< none unless weights are sharded
  bool scatter_p2p;  ///< a boundary tensor crosses in shares
  bool host_receives;  ///< the host waits for what it receives: sends are not overlapped
  DType product;   ///< of the products of linear layers: narrower than activations in an 8- or 4-bit recipe
  NarrowProducts narrow;                  ///< what is kept of those products
  bool fp8_activation_inputs;             ///< activations' inputs are cast to fp8 to be kept, and back
  Fusion fusion;                          ///< what the target does in one kernel

  /// What a rank keeps of its weights: a share of a unit that is copied on its way is the optimizer's, and there is no other.
  DType stored_weights() const { return unit_copies == UnitCopies::none ? dtypes.weights : dtypes.master; }
  /// What the backward pass writes gradients in: those of units that are copied on their way leave their products' type there.
  DType written_gradients() const { return unit_copies == UnitCopies::none ? dtypes.gradients : dtypes.weights; }

  /// In which type the input of an MLP's or an expert's activation is kept.
  DType kept_activation_input() const { return fp8_activation_inputs ? DType::fp8 : dtypes.compute; }
  /// In which type a product's input is kept for its matrix' gradient.
  DType kept_input() const { return narrow.inputs ? product : dtypes.compute; }
  /// Bytes of the scales of a product's input, and of one copy of matrices, in the products' type.
  std::int64_t scales(std::int64_t elements) const { return scales(elements, narrow.scale_block); }
  std::int64_t weight_scales(std::int64_t elements) const { return scales(elements, narrow.weight_scale_block); }
  static std::int64_t scales(std::int64_t elements, std::int64_t block) { return block == 0 ? 0 : (elements + block - 1) / block; }

  /// Whose kernel computes attention without a score matrix.
  AttentionKernel flash_kernel(bool backward) const;
  /// Of the attention before context parallelism changes it: packed qkv of this rank's positions.
  AttentionDims attention_dims() const;
  /// The turn of queries and keys by their positions, or its gradient.
  Rotary rotation(bool inverse) const;
  std::int64_t qkv() const { return attention_dims().qkv_width(); }
  /// Columns of it that a product gives.
  std::int64_t qkv_made() const { return keys_are_values ? (heads + kv_heads) * head_dim : qkv(); }
  /// Of these, a key head's and its value's.
  std::int64_t pair_made() const { return keys_are_values ? head_dim : attention_dims().pair_width(); }
  NormedValues normed_values() const {
    return keys_are_values ? NormedValues::of_keys : value_norm ? NormedValues::own : NormedValues::none;
  }
  /// From compressed queries, keys and values to those of the heads, and columns of the latter two.
  LatentHeads latent_heads() const { return {attention_dims(), rotary_dim, latent.query_scale}; }
  std::int64_t latent_kv() const { return latent_heads().kv_width(); }
  std::int64_t queries() const { return heads * head_dim; }
  /// Of the indexer, whose keys are all that context ranks have together.
  IndexDims index_dims() const;
  /// The turn of so many of its heads on this rank's positions, or its gradient.
  Rotary index_rotation(bool inverse, std::int64_t of_heads) const;
  /// Whether queries and keys have norms here: one behind their turn needs a turn.
  bool norms_qk() const { return qk_norm != QkNorm::none && (qk_norm != QkNorm::turned || rotary); }
  RecurrenceDims recurrence_dims() const {
    const RecurrenceShape& r = recurrence;
    return {r.rule, batch, r.heads, seq, r.key_heads, r.key_dim, r.value_dim};
  }
  /// The first product of attention or of a recurrence, and its columns.
  const char* input_matrix() const { return kind.has_recurrence() ? "recurrence_in" : "qkv"; }
  std::int64_t input_columns() const {
    return kind.has_recurrence() ? recurrence_dims().width() : qkv_made() + (attention_gate ? attention : 0);
  }
  /// Elements of queries, keys and normed values as they were before their norms; 0: they have none.
  std::int64_t unnormed() const { return norms_qk() ? head_norm().elements() : 0; }
  HeadNorm head_norm() const { return {attention_dims(), norm_epsilon, qk_norm == QkNorm::turned, normed_values()}; }
  /// Elements of the tensor between blocks. With norms after the addition and a residual that is not normalised, it holds
  /// the normalised state and then the residual.
  std::int64_t hidden_elements() const { return rows * hidden * (placement == NormPlacement::post_add ? 2 : 1); }
  /// The same with the encoder's output behind it: what a decoder's chunk begins with.
  std::int64_t boundary_elements() const { return hidden_elements() + memory_rows * hidden; }
  bool is_decoder() const { return memory_rows > 0; }
  /// Whether an encoder and its decoder add the same table of learned positions to their words (NVIDIA/Megatron-LM:
  /// megatron/core/models/T5/t5_model.py, both stacks call the same LanguageModelEmbedding).
  bool shared_positions() const { return learned_positions && decoder_layers > 0; }
  bool is_decoder_layer(std::int64_t layer) const { return decoder_layers > 0 && layer >= encoder_layers; }
  /// Whether a layer holds experts in place of an MLP.
  bool has_experts() const { return kind.has_experts(); }
  /// Of the layers of this kind.
  Shapes of(LayerKind layers) const;
  /// Sizes of the decoder that follows this encoder.
  Shapes decoder() const;
  std::int64_t memory_tokens() const { return batch * memory_seq; }
  /// Of a decoder's attention to the encoder's output.
  AttentionDims cross_dims() const;
  const char* relative_table() const { return is_decoder() ? "decoder.relative.weight" : "encoder.relative.weight"; }
  /// Logits of 16 bits are widened for the loss, and what it leaves for the backward pass stays wide until there (Megatron-LM,
  /// core/tensor_parallel/cross_entropy.py; PyTorch's autocast of cross_entropy); a kernel that has the whole loss needs no copy.
  DType loss_type() const { return bits(dtypes.compute) >= 32 || fusion.one_kernel_loss ? dtypes.compute : DType::fp32; }
  /// Whether the softmax makes an fp32 copy of its score matrix, which is in 16 bits.
  bool widens_softmax() const { return fusion.softmax_widened && bits(dtypes.compute) == 16; }
  /// Elements that a norm written as single operations keeps beside its 16-bit input and output, and their type.
  std::int64_t norm_copy() const { return rms && fusion.norm_copies ? rows * hidden : 0; }
  DType norm_copy_type() const { return bits(dtypes.compute) == 16 ? DType::fp32 : dtypes.compute; }
  /// Rows of the MLP's first matrix that are kept, if any. One matrix holds gate and up here, their columns by turns; so where one
  /// of two products is kept, half of the rows of both are: as many bytes, and as many FLOPs and products to repeat.
  std::int64_t fc1_rows() const { return keep.half_fc1 ? tokens - tokens / 2 : tokens; }
  /// Whether the loss is of the whole vocabulary on every tensor rank.
  bool gathers_logits() const { return fusion.whole_logits && tensor > 1; }
  VocabDims vocab_dims() const { return {tokens, loss_columns(), vocab_size, gathers_logits()}; }
  /// Columns of the logits, and of their gradient, that a rank's loss reads and writes.
  std::int64_t loss_columns() const { return gathers_logits() ? vocab_rows * tensor : vocab_rows; }
  /// Whether rows gathered for a block's products stay: autograd keeps what a product read.
  bool keeps_gathered() const { return fusion.gathered_inputs && sequence_parallel; }
  /// Layers before the blocks of MTP modules.
  std::int64_t layers() const { return static_cast<std::int64_t>(kinds.size()) - mtp; }
  /// Targets of the global batch that module `module` (1 first) is asked for: the last positions of a sequence have none.
  std::int64_t mtp_targets(std::int64_t module) const { return global_sequences * (seq * context - module); }
  /// Of the router, dispatch and combine, which work on the rows between blocks.
  MoeDims moe_dims() const { return {rows, hidden, experts, top_k, capacity}; }
  /// Whether every rank of a stage has rows of its own: it sends and gets back only those.
  bool own_rows() const { return sequence_parallel || tensor == 1; }
  /// Tensor ranks that route shares of the tokens of a context rank.
  std::int64_t token_shares() const { return sequence_parallel ? tensor : 1; }
  /// Parts of the global batch that are routed one by one.
  std::int64_t routed_parts() const { return global_micro_batches * context * token_shares(); }
  /// Ranks whose rows the experts gather, those that share their matrices; where tensor ranks have the same rows, none.
  std::int64_t row_shares() const { return own_rows() ? expert_tensor : 1; }
  Group row_group() const { return expert_tensor == tensor ? Group::tensor : Group::expert_tensor; }
  bool unequal_rows() const { return capacity == 0 && expert_ranks > 1; }
  /// Rows that experts are planned to multiply: all that the ranks of `row_shares` send.
  std::int64_t planned_expert_rows() const { return row_shares() * moe_dims().rows(); }
  /// Rows that the experts of a rank have room for: the planned ones or, where numbers are unequal, a bound.
  std::int64_t expert_rows() const { return row_room(row_shares()); }
  /// The same of those that this rank's own exchange brings.
  std::int64_t arrived_rows() const { return row_room(1); }

 private:
  Shapes windowed() const;
  Shapes of_mixer(Mixer mixer) const;
  Shapes indexed() const;
  Shapes recurring() const;
  std::int64_t row_room(std::int64_t shares) const;
};

Shapes make_shapes(const Plan& plan);

/// Kinds that layers and blocks of MTP modules are of, by index.
std::vector<LayerKind> kinds_of(const Shapes& s);

}  // namespace tandem::lowering
