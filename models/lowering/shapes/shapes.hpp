#pragma once
// Sizes of tensors on one rank, computed from the plan once. Later lowering passes read these sizes instead of the plan.

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/lowering/shapes/adapter_shape.hpp"
#include "models/lowering/shapes/fusion.hpp"
#include "models/lowering/shapes/numerics.hpp"
#include "models/ops/op.hpp"
#include "models/plan/plan.hpp"
#include "models/plan/stack_facts.hpp"

namespace tandem::lowering {

/// Which tensors of its forward pass a block stores for the backward pass. The other ones are recomputed.
struct Keep {
  bool norms = true;       ///< outputs of the norms
  bool separate_norms = true;  ///< those of norms that are modules of their own, where others belong to products (norm_in_product_module)
  bool mlp_norm = true;        ///< that of the norm before a dense MLP
  bool latent_norms = true;    ///< those of the norms of compressed queries, keys and values
  bool scores = false;     ///< the score matrix
  bool up = true;          ///< latent attention's queries, keys and values after the up-projection
  bool core = true;        ///< softmax probabilities; with flash attention, its row statistics
  bool context = true;     ///< attention's output, before the projection
  bool fc1 = true, activated = true;                ///< outputs of a dense MLP's first matrix and of its activation
  bool expert_fc1 = true, expert_activated = true;  ///< the same two outputs of routed experts
  bool shared_fc1 = true, shared_activated = true;  ///< the same two outputs of shared experts
  bool dispatched = true;  ///< the experts' input rows, after dispatch
  bool routed = true;      ///< the router's logits, probabilities and weights, and rows that come back from experts
  bool state = true;       ///< the hidden state after attention's residual sum
  bool half_fc1 = false;   ///< gated MLP: only one half of fc1's output, gate or up
  bool by_products = false;  ///< only the outputs of every second matrix product
};

/// Which tensors that a block keeps wait for its backward pass in host memory: all of them, the block's input, or what modules read.
struct KeptOnHost {
  bool all = false;
  bool input = false, qkv = false, core = false, projection = false, mlp_norm = false;
  bool dispatched = false, expert_fc1 = false, expert_activated = false;

  /// Whether tensors beside the block's input may.
  bool kept() const { return all || qkv || core || projection || mlp_norm || dispatched || expert_fc1 || expert_activated; }
};

/// How keys reach the context ranks that have the same heads. none: all context ranks divide the heads among themselves.
enum class ContextPath : std::uint8_t { none, all_gather, ring };

/// Widths of latent attention's compressed tensors. kv_rank 0: no latent attention. query_rank 0: queries are not compressed.
struct LatentShape {
  std::int64_t kv_rank = 0, query_rank = 0;
  double query_scale = 1;       ///< factor of the queries: YaRN scales all attention scores
  bool here() const { return kv_rank > 0; }
};

/// The indexer of sparse attention. It reads all tokens. 0 heads: none. A token-level indexer is replicated on tensor ranks
/// (Megatron-Core: megatron/core/transformer/experimental_attention_variant/dsa.py, parallel_mode duplicated). In a block-level
/// one a tensor rank has the index heads of its own key heads (vllm-project/vllm: vllm/models/minimax_m3/nvidia/model.py).
struct IndexerShape {
  std::int64_t heads = 0, head_dim = 0, topk = 0;
  std::int64_t block = 0;       ///< keys of a block that is chosen as a whole; 0: keys are chosen singly
  bool here() const { return heads > 0; }
  bool blocks() const { return block > 0; }
};

/// One rank's heads and widths of a recurrence, which replaces attention. 0 heads: the model has none.
struct RecurrenceShape {
  RecurrenceRule rule = RecurrenceRule::gated_delta;
  std::int64_t heads = 0, key_heads = 0, key_dim = 0, value_dim = 0, taps = 0;
  bool conv_bias = false;
};

/// One rank's attention heads.
struct HeadShape {
  std::int64_t heads, kv_heads, head_dim;
  std::int64_t kv_repeat;       ///< number of tensor ranks that hold the same key and value heads
  Group kv_group;               ///< group of the tensor ranks with the same key heads
  std::int64_t value_dim;       ///< width of one head's value
  std::int64_t attention;       ///< heads * value_dim: columns of attention's output
  bool keys_are_values;
  std::int64_t rotary_dim;      ///< dimensions of a head that the rotary embedding rotates
  bool sinks;                   ///< each query head has a learned sink logit in its softmax
};

/// Attention of the layers that see only a window of keys.
struct WindowShape {
  std::int64_t size = 0;        ///< most keys that a query sees
  bool chunked = false, rotary = false;
  double theta = 0;             ///< base of the rotary frequencies, without scaling; 0: same as other layers
  HeadShape heads{};
};

/// Sizes on one rank, for layers of one kind.
struct Shapes : HeadShape {
  LayerKind kind;               ///< set by `of()`; by default full attention and an MLP
  std::int64_t batch, seq;      ///< batch: sequences of a micro-batch; seq: positions of each on this context rank
  std::int64_t tokens;          ///< batch * seq
  std::int64_t rows;            ///< rows of the hidden state between blocks: tokens, or this rank's sequence shard
  std::int64_t loss_chunks;     ///< parts of the tokens that have logits one after the other, in the head's backward pass if above 1
  std::int64_t hidden;
  std::int64_t ffn;             ///< columns on this rank
  std::int64_t fc1;             ///< columns of the MLP's first matrix on this rank: ffn, or 2 * ffn when gated
  std::int64_t vocab_rows;      ///< on this rank, padding included
  std::int64_t vocab_size;      ///< of the whole model, without padding
  std::int64_t max_positions, token_types;
  std::int64_t global_targets;  ///< targets in the global batch: divisor of the loss
  std::int64_t global_sequences, global_micro_batches;
  std::int64_t tensor;          ///< tensor-parallel degree
  std::int64_t context;         ///< context-parallel degree
  std::int64_t head_ranks;      ///< neighbouring context ranks that divide the heads among themselves
  ContextPath path;
  PointwiseKind activation;     ///< if the MLP is not gated
  GateKind gate;                ///< if the MLP is gated
  NormPlacement placement;      ///< `pre` for the placements `sandwich` and `behind`, too
  bool sandwich;                ///< norms after attention and MLP as well
  bool bare_inputs;             ///< no norms before attention and MLP, only after them
  ParallelResidual parallel;
  bool gated, rms, norm_bias, rotary, linear_bias, qkv_bias;
  bool output_bias;
  QkNorm qk_norm;
  bool value_norm;              ///< values have an RMS norm without weights, too
  bool muon;                    ///< Muon updates the hidden matrices
  double attention_soft_cap, logit_soft_cap;  ///< 0: no cap
  double attention_scale;       ///< factor of attention scores; 0: 1 / sqrt(head_dim)
  double embedding_scale, residual_scale, logit_scale;  ///< factors of embeddings, of sums to the residual, of logits
  bool router_bias;
  RouterRule routing;              ///< how the router chooses experts
  TokenCopies copies;           ///< DeepEP's copies of tokens; 0 experts: a row for each expert travels
  double balance_rate;          ///< step of the router's balancing bias
  bool causal;                  ///< false in BERT and in T5's encoder
  bool documents;               ///< tokens see only their own document
  bool bert;
  bool sequence_parallel;
  bool flash;
  double rope_theta;
  RopeScalingKind rope_scaling;
  double rope_factor;
  std::int64_t rope_original;  ///< longest sequence in training before the scaling
  double rope_fast, rope_slow;  ///< YaRN blends frequencies between these turns in rope_original positions
  bool rope_fractional;         ///< YaRN's blend begins and ends between pairs
  bool rope_keeps_length;       ///< YaRN does not lengthen queries and keys
  LatentShape latent;           ///< latent attention; each head has its own keys
  IndexerShape indexer;         ///< set by `of()`; `window` then counts the keys that a query chooses
  RecurrenceShape recurrence;   ///< set if any layer has a recurrence
  bool attention_gate;          ///< the qkv product also gives a sigmoid gate for attention's output
  bool alibi, learned_positions, embedding_norm, tied;
  bool tensor_overlap;          ///< tensor-parallel collectives run in chunks beside their products
  bool sum_beside_weights;      ///< weight gradients run while tensor ranks sum the input gradient
  bool defer_weights;           ///< zero-bubble schedule: weight gradients are a separate pass
  bool sharded_gradients;       ///< ZeRO 2 and 3: a micro-batch's gradients have their own buffers until reduced
  bool early_stop;              ///< recomputation of a layer stops at the last tensor that its backward pass reads
  bool whole_modules;           ///< a recomputed MLP or mixture of experts runs to its end, though nothing reads what it gives
  bool sharded_weights;         ///< ZeRO 3: weights are gathered before use
  double norm_epsilon, hidden_dropout, attention_dropout;
  Keep keep;
  KeptOnHost on_host;
  // Mixture of experts; experts == 0: none.
  std::int64_t experts, experts_here, top_k, capacity, expert_ffn, expert_fc1, shared_ffn, shared_fc1, expert_ranks, expert_tensor;
  double rows_bound, aux_loss, z_loss;
  TokenDispatcher token_dispatcher = TokenDispatcher::alltoall;
  bool weigh_inputs;            ///< router weights multiply the experts' input, not their output
  bool shared_gate;             ///< a sigmoid of each token scales the shared experts' output
  bool branch_norms;            ///< shared and routed experts have their own norms, before and after
  bool router_norm;             ///< the router has its own norm
  std::vector<LayerKind> kinds; ///< by global layer, then MTP module; `of()` gives the sizes of a kind
  std::int64_t window;          ///< most keys that a query sees; 0: all earlier ones
  IndexerShape layer_indexer;   ///< `indexer` of the layers with Mixer::indexed
  WindowShape own_window;       ///< sizes of the layers with Mixer::windowed
  std::int64_t mtp;             ///< number of modules for multi-token prediction
  double mtp_loss;              ///< weight of one module's loss
  // Encoder and decoder. These sizes are the encoder's; `decoder()` returns the decoder's. decoder_layers == 0: one stack.
  std::int64_t encoder_layers, decoder_layers, decoder_seq;
  std::int64_t memory_seq, memory_rows;   ///< in a decoder: positions and rows of the encoder's output; else 0
  std::int64_t relative_buckets;          ///< buckets of the relative position bias; 0: no such bias
  DTypes dtypes;   ///< `compute` is the activations' type
  Numerics numerics;
  UnitCopies unit_copies;  ///< none unless weights are sharded
  bool scatter_p2p;  ///< stages send boundary tensors in tensor-parallel shares
  bool host_receives;  ///< the host blocks on receives, so they overlap nothing
  DType product;   ///< type of linear layers' products; narrower than activations in 8- or 4-bit recipes
  NarrowProducts narrow;                  ///< what is stored of those products in that type
  bool fp8_activation_inputs;             ///< the input of the MLP's activation function is stored in fp8
  AdapterShape adapters;                  ///< what is trained where the model's own parameters are frozen
  Fusion fusion;                          ///< which operations the framework fuses into one kernel

  /// Type of a rank's stored weights. ZeRO 3 with unit copies stores only the optimizer's master weights.
  DType stored_weights() const { return unit_copies == UnitCopies::none ? dtypes.weights : dtypes.master; }
  /// Type in which the backward pass writes gradients. With unit copies it is the weights' type.
  DType written_gradients() const { return unit_copies == UnitCopies::none ? dtypes.gradients : dtypes.weights; }

  /// Type in which the input of an MLP's or expert's activation function is stored.
  DType kept_activation_input() const { return fp8_activation_inputs ? DType::fp8 : dtypes.compute; }
  /// Type in which a product's input is stored for its weight gradient.
  DType kept_input() const { return narrow.inputs ? product : dtypes.compute; }
  /// Bytes of scale factors: of a product's input, and of one copy of its weights, in the products' type.
  std::int64_t scales(std::int64_t elements) const { return scales(elements, narrow.scale_block); }
  std::int64_t weight_scales(std::int64_t elements) const { return scales(elements, narrow.weight_scale_block); }
  static std::int64_t scales(std::int64_t elements, std::int64_t block) { return block == 0 ? 0 : (elements + block - 1) / block; }

  /// The kernel of attention without a score matrix (flash attention).
  AttentionKernel flash_kernel(bool backward) const;
  /// Whether context ranks exchange heads for positions before and after attention (Ulysses), and the ranks that do.
  bool exchanges_heads() const { return head_ranks > 1; }
  Group heads_group() const { return head_ranks == context ? Group::context : Group::context_heads; }
  /// Number of context ranks with the same heads, and their group.
  std::int64_t key_ranks() const { return context / head_ranks; }
  Group keys_group() const { return head_ranks == 1 ? Group::context : Group::context_keys; }
  /// Attention before context parallelism: packed qkv, positions of this context rank.
  AttentionDims attention_dims() const;
  /// Rotary embedding of queries and keys, or (`inverse`) its gradient.
  Rotary rotation(bool inverse) const;
  std::int64_t qkv() const { return attention_dims().qkv_width(); }
  /// Number of columns of qkv that the matrix product writes. Values that equal keys are copied later.
  std::int64_t qkv_made() const { return keys_are_values ? (heads + kv_heads) * head_dim : qkv(); }
  /// Columns of one key head and its value head among `qkv_made()`.
  std::int64_t pair_made() const { return keys_are_values ? head_dim : attention_dims().pair_width(); }
  NormedValues normed_values() const {
    return keys_are_values ? NormedValues::of_keys : value_norm ? NormedValues::own : NormedValues::none;
  }
  /// Up-projected latent queries, keys and values joined into qkv; `latent_kv`: columns of the up-projected keys and values.
  LatentHeads latent_heads() const { return {attention_dims(), rotary_dim, latent.query_scale}; }
  std::int64_t latent_kv() const { return latent_heads().kv_width(); }
  std::int64_t queries() const { return heads * head_dim; }
  /// The indexer's sizes. Under all-gather context parallelism it reads the keys of all context ranks.
  IndexDims index_dims() const;
  /// Rotary embedding of `of_heads` index heads on this rank's positions, or (`inverse`) its gradient.
  Rotary index_rotation(bool inverse, std::int64_t of_heads) const;
  /// Whether queries and keys have norms in this layer. QkNorm::turned has one only in layers with rotary embedding.
  bool norms_qk() const { return qk_norm != QkNorm::none && (qk_norm != QkNorm::turned || rotary); }
  RecurrenceDims recurrence_dims() const {
    const RecurrenceShape& r = recurrence;
    return {r.rule, batch, r.heads, seq, r.key_heads, r.key_dim, r.value_dim};
  }
  /// First matrix of attention or of a recurrence, and its columns on this rank.
  const char* input_matrix() const { return kind.has_recurrence() ? "recurrence_in" : "qkv"; }
  std::int64_t input_columns() const {
    return kind.has_recurrence() ? recurrence_dims().width() : qkv_made() + (attention_gate ? attention : 0);
  }
  /// The matrices that the product gives: queries, keys and values of a recurrence, its gate, its scalars; or a gate and qkv.
  ColumnBlocks input_blocks() const {
    if (kind.has_recurrence()) return {recurrence_dims().mixed(), recurrence_dims().values()};
    return {attention_gate ? attention : 0, 0};
  }
  /// The same for a matrix by its name.
  ColumnBlocks blocks_of(std::string_view name) const { return name == input_matrix() ? input_blocks() : ColumnBlocks{}; }
  /// Elements of queries, keys and normed values before their norms. 0: they have no norms.
  std::int64_t unnormed() const { return norms_qk() ? head_norm().elements() : 0; }
  HeadNorm head_norm() const { return {attention_dims(), norm_epsilon, qk_norm == QkNorm::turned, normed_values()}; }
  /// Elements of the tensor between blocks. With norms after the
  /// residual sum (post_add) it holds the normed state and then the sum.
  std::int64_t hidden_elements() const { return rows * hidden * (placement == NormPlacement::post_add ? 2 : 1); }
  /// Elements that enter a decoder's chunk: the hidden state, then the encoder's output.
  std::int64_t boundary_elements() const { return hidden_elements() + memory_rows * hidden; }
  bool is_decoder() const { return memory_rows > 0; }
  /// Whether encoder and decoder share one table of learned positions (NVIDIA/Megatron-LM:
  /// megatron/core/models/T5/t5_model.py, both stacks call the same LanguageModelEmbedding).
  bool shared_positions() const { return learned_positions && decoder_layers > 0; }
  bool is_decoder_layer(std::int64_t layer) const { return decoder_layers > 0 && layer >= encoder_layers; }
  /// Whether this kind of layer has experts in place of an MLP.
  bool has_experts() const { return kind.has_experts(); }
  /// Sizes of layers of kind `layers`.
  Shapes of(LayerKind layers) const;
  /// Sizes of the decoder that follows this encoder.
  Shapes decoder() const;
  std::int64_t memory_tokens() const { return batch * memory_seq; }
  /// Attention of a decoder to the encoder's output.
  AttentionDims cross_dims() const;
  const char* relative_table() const { return is_decoder() ? "decoder.relative.weight" : "encoder.relative.weight"; }
  /// Type of logits in the loss. 16-bit logits become fp32 until the backward pass has read them (Megatron-LM,
  /// core/tensor_parallel/cross_entropy.py; PyTorch's autocast of cross_entropy). A fused loss kernel makes no fp32 copy.
  DType loss_type() const { return bits(dtypes.compute) >= 32 || fusion.one_kernel_loss ? dtypes.compute : DType::fp32; }
  /// Whether the softmax of a 16-bit score matrix makes an fp32 copy of it.
  bool widens_softmax() const { return fusion.softmax_widened && bits(dtypes.compute) == 16; }
  /// Elements, and type, of the extra copy that an unfused RMSNorm stores beside its input and output.
  std::int64_t norm_copy() const { return rms && fusion.norm_copies ? rows * hidden : 0; }
  DType norm_copy_type() const { return bits(dtypes.compute) == 16 ? DType::fp32 : dtypes.compute; }
  /// Rows of fc1's output that are stored. fc1 computes gate and up with interleaved columns. Storing one
  /// of the two is modelled as half of the rows of both: the bytes and the repeated FLOPs are the same.
  std::int64_t fc1_rows() const { return keep.half_fc1 ? tokens - tokens / 2 : tokens; }
  /// Whether each tensor rank computes the loss over the whole vocabulary.
  bool gathers_logits() const { return fusion.whole_logits && tensor > 1; }
  VocabDims vocab_dims() const { return {tokens, loss_columns(), vocab_size, gathers_logits()}; }
  /// Columns of the logits and of their gradient in a rank's loss.
  std::int64_t loss_columns() const { return gathers_logits() ? vocab_rows * tensor : vocab_rows; }
  /// Whether rows gathered under sequence parallelism stay stored: autograd saves a product's input.
  bool keeps_gathered() const { return fusion.gathered_inputs && sequence_parallel; }
  /// Number of layers without the blocks of MTP modules.
  std::int64_t layers() const { return static_cast<std::int64_t>(kinds.size()) - mtp; }
  /// Targets in the global batch of MTP module `module` (first: 1). The last `module` positions of a sequence have none.
  std::int64_t mtp_targets(std::int64_t module) const { return global_sequences * (seq * context - module); }
  /// Sizes for router, dispatch and combine, which work on the rows between blocks.
  MoeDims moe_dims() const { return {rows, hidden, experts, top_k, capacity}; }
  /// Sizes for dispatch and combine: of all members' tokens where a rank gathers these, with rows for its own experts alone.
  MoeDims dispatch_dims() const;
  /// Number of ranks whose tokens may reach this rank's experts, and whether it gathers all of these tokens.
  std::int64_t members() const { return expert_ranks * row_shares(); }
  bool gathers_tokens() const { return token_dispatcher == TokenDispatcher::allgather && members() > 1; }
  /// Whether each rank of a stage has its own rows. It then sends and receives only these.
  bool own_rows() const { return sequence_parallel || tensor == 1; }
  /// Number of tensor ranks that split the routing of a context rank's tokens.
  std::int64_t token_shares() const { return sequence_parallel ? tensor : 1; }
  /// Number of separately routed parts of the global batch.
  std::int64_t routed_parts() const { return global_micro_batches * context * token_shares(); }
  /// Number of ranks that share the experts' matrices and gather each other's rows. 1 where all tensor ranks have the same rows.
  std::int64_t row_shares() const { return own_rows() ? expert_tensor : 1; }
  Group row_group() const { return expert_tensor == tensor ? Group::tensor : Group::expert_tensor; }
  bool unequal_rows() const { return capacity == 0 && expert_ranks > 1; }
  /// Rows that the plan expects a rank's experts to multiply: all rows from the `row_shares()` ranks.
  std::int64_t planned_expert_rows() const { return row_shares() * moe_dims().rows(); }
  /// Row capacity of a rank's experts: the planned rows or, for dropless experts on several ranks, an upper bound.
  std::int64_t expert_rows() const { return row_room(row_shares()); }
  /// Row capacity of what this rank's own all-to-all receives.
  std::int64_t arrived_rows() const { return row_room(1); }

 private:
  Shapes windowed() const;
  Shapes of_mixer(Mixer mixer) const;
  Shapes indexed() const;
  Shapes recurring() const;
  std::int64_t row_room(std::int64_t shares) const;
};

Shapes make_shapes(const Plan& plan);

/// Kinds of the layers and MTP blocks, each once, ascending index.
std::vector<LayerKind> kinds_of(const Shapes& s);

}  // namespace tandem::lowering
