#include <nlohmann/json.hpp>

#include "models/fields/plan_field_makers.hpp"

#define AT(member) ([](auto& p) -> auto& { return p.member; })

namespace tandem {
namespace {

constexpr std::array<std::string_view, 6> kRopeScalings{"none", "linear", "dynamic", "yarn", "llama3", "longrope"};

/// A number that is printed only where it is not 0, since plans in older checkpoints do not have it.
PlanField unless_zero(PlanField field) {
  field.write = [write = field.write](const Plan& p) {
    const nlohmann::json value = write(p);
    return value == 0 ? nlohmann::json() : value;
  };
  return std::move(field).otherwise("0");
}

std::vector<PlanField> expert_fields() {
  return {
      integer({"model.moe.num_experts", "Routed experts of a layer; 0 is a dense model."}, AT(model.moe.num_experts),
              {0, kMaxExperts}),
      integer({"model.moe.experts_per_token", "Experts that each token visits."}, AT(model.moe.experts_per_token),
              {1, kMaxExperts}),
      integer({"model.moe.ffn_hidden_size", "Inner width of one expert."}, AT(model.moe.ffn_hidden_size), {0, kMaxFfn})
          .otherwise("model.ffn_hidden_size"),
      integer({"model.moe.num_shared_experts", "Further experts that every token visits."},
              AT(model.moe.num_shared_experts), {0, kMaxExperts}),
      integer({"model.moe.first_dense_layers", "Layers at the front that stay dense."},
              AT(model.moe.first_dense_layers), {0, kMaxLayers}),
      integer({"model.moe.layer_frequency", "One layer in this many has experts, beginning with the first one after model.moe.first_dense_layers."}, AT(model.moe.layer_frequency),
              {1, kMaxLayers}),
      number({"model.moe.capacity_factor", "Largest number of tokens that an expert takes, as a multiple of an even share; 0: no token is dropped."},
             AT(model.moe.capacity_factor), {0, 1e6}),
      number({"model.moe.aux_loss", "Weight of the load-balancing loss."}, AT(model.moe.aux_loss), {0, 1e6}),
      unless_zero(number({"model.moe.z_loss", "Weight of the z-loss: the mean square of the logarithm of a token's summed exponentials of router logits (ST-MoE)."},
                         AT(model.moe.z_loss), {0, 1e6})),
      flag({"model.moe.router_bias", "The router's matrix has a bias."}, AT(model.moe.router_bias)),
      choice({"model.moe.router_scores", "Score of an expert: a softmax over all experts, or a sigmoid of its own logit."},
             AT(model.moe.router_scores)),
      flag({"model.moe.normalize_weights", "If a token visits several experts, their scores are divided by their sum."},
           AT(model.moe.normalize_weights)),
      number({"model.moe.weight_scale", "Factor of the weights of a token's experts."}, AT(model.moe.weight_scale),
             {0, 1e6, true, false}),
      integer({"model.moe.expert_groups", "Number of equal groups of neighbouring experts."}, AT(model.moe.expert_groups), {1, kMaxExperts}),
      integer({"model.moe.groups_per_token", "Number of groups from which a token's experts are chosen: those with the best scores; 0: all."},
              AT(model.moe.groups_per_token), {0, kMaxExperts}),
      choice({"model.moe.group_score", "A group's score: that of its best expert (max), or the sum of its two best (top2)."},
             AT(model.moe.group_score)),
      flag({"model.moe.weigh_inputs", "The scores of a token's experts multiply the experts' inputs, not their outputs (Llama 4)."},
           AT(model.moe.weigh_inputs)),
      integer({"model.moe.shared_ffn_hidden_size",
               "Inner width of all shared experts together; 0: model.moe.num_shared_experts times model.moe.ffn_hidden_size."},
              AT(model.moe.shared_ffn_hidden_size), {0, kMaxFfn}),
      flag({"model.moe.branch_norms",
            "Shared experts and routed experts each have norms of their own, before and behind, inside those of norm_placement sandwich (Gemma 4)."},
           AT(model.moe.branch_norms)),
      flag({"model.moe.router_norm", "The router reads the state through a norm of its own (Gemma 4)."}, AT(model.moe.router_norm)),
      flag({"model.moe.expert_scale", "Weights of a token's experts are multiplied by a learned number of each expert (Gemma 4)."},
           AT(model.moe.expert_scale)),
      flag({"model.moe.shared_gate", "A learned sigmoid of each token scales the shared experts' output."},
           AT(model.moe.shared_gate)),
      number({"model.moe.balance_rate",
              "Step by which each expert's bias moves towards equal load; only the choice of experts uses the bias; 0: no bias, unless model.moe.balance_bias."},
             AT(model.moe.balance_rate), {0, 1e6}),
      unless(false, flag({"model.moe.balance_bias", "Experts have that bias although model.moe.balance_rate is 0; it stays where it is."},
                         AT(model.moe.balance_bias))),
      number({"model.moe.rows_bound",
              "Dropless experts on several ranks: capacity of a rank in rows, as a multiple of an even share. A run ends where rows have no room; the number of expert ranks is always enough; default: the stack's."},
             AT(model.moe.rows_bound), {1, 1e6}),
  };
}

std::vector<PlanField> window_fields() {
  return {
      integer({"model.window.size", "Largest number of keys that a query sees, its own included; 0: all keys before it."},
              AT(model.window.size), {0, kMaxSequence}),
      flag({"model.window.chunked", "A query sees the keys of its own chunk of model.window.size positions, not the last ones."},
           AT(model.window.chunked)),
      letters({"model.window.layers",
               "One letter per layer, repeated from the first: w has the window, f sees all keys. wwwwwf: every sixth layer sees all."},
              AT(model.window.layers), "wf"),
      number({"model.window.rope_theta",
              "Base of the rotary frequencies of layers with the window, whose positions are then not stretched; 0: as in other layers."},
             AT(model.window.rope_theta), {0, 1e12}),
      flag({"model.window.full_rotary", "Layers of the letter f have rotary positions, whether those of the letter w have a window or not."}, AT(model.window.full_rotary)),
      flag({"model.window.full_sinks", "Layers without the window have sinks, too, where model.attention_sinks is true."},
           AT(model.window.full_sinks)),
      integer({"model.window.num_attention_heads", "Query heads of layers with the window; 0: as in other layers."},
              AT(model.window.num_attention_heads), {0, kMaxHeads}),
      integer({"model.window.num_kv_heads", "Key and value heads of layers with the window; 0: as in other layers."}, AT(model.window.num_kv_heads), {0, kMaxHeads}),
      integer({"model.window.head_dim", "Width of a head of layers with the window; 0: as in other layers."}, AT(model.window.head_dim), {0, kMaxHeads}),
      integer({"model.window.value_dim",
               "Width of a head's values in layers with the window; 0: model.window.head_dim if given, else as in other layers."},
              AT(model.window.value_dim), {0, kMaxHeads}),
      flag({"model.window.own_values", "Layers with the window have values of their own although model.tie_kv is true."},
           AT(model.window.own_values)),
  };
}

std::vector<PlanField> latent_fields() {
  return {
      integer({"model.latent.kv_rank",
               "Latent attention (MLA): width of the compressed row from which keys and values of all heads are computed; 0: they come from the state."},
              AT(model.latent.kv_rank), {0, kMaxHidden}),
      integer({"model.latent.query_rank", "Width of the compressed row from which queries are computed; 0: they come from the state."},
              AT(model.latent.query_rank), {0, kMaxHidden}),
      integer({"model.latent.rotary_dim", "Dimensions of model.head_dim that are rotated by position (RoPE); all heads share those of the keys."},
              AT(model.latent.rotary_dim), {2, kMaxHeads}),
  };
}

std::vector<PlanField> indexer_fields() {
  return {
      integer({"model.indexer.heads",
               "Sparse attention: query heads of an indexer; 0: no indexer. It chooses single keys of latent attention (DeepSeek-V3.2, GLM-5), or blocks of keys of grouped-query attention, with one head for each of model.num_kv_heads (MiniMax-M3; simulated only). Counted: its "
               "matrices, a score of every pair in the type of activations, attention over the chosen keys, and gradients of the divergence "
               "from attention's distribution over these, into its own weights alone. Not counted: the warm-up, scores in 8 bits, "
               "score matrices in memory, slower access to chosen keys, and kernels that attend to compressed rows instead, whose "
               "products are (2 kv_rank + rotary_dim) / (head_dim + value_dim) times as large."},
              AT(model.indexer.heads), {0, kMaxHeads}),
      integer({"model.indexer.head_dim", "Width of the indexer's query heads and of its key. As many of their dimensions are rotated by position as of attention's heads."},
              AT(model.indexer.head_dim), {1, kMaxHeads}),
      integer({"model.indexer.topk", "Largest number of keys that a query of attention sees: those with the best scores."}, AT(model.indexer.topk),
              {1, kMaxSequence}),
      integer({"model.indexer.block_size",
               "Above 1: neighbouring keys that are chosen together, by the best score among them (MiniMax-M3). A query's own block is always chosen."},
              AT(model.indexer.block_size), {1, kMaxSequence}),
      letters({"model.indexer.layers",
               "One letter per layer, repeated from the first: i has the indexer, f sees all keys. A module of multi-token prediction is like the last layer."},
              AT(model.indexer.layers), "if"),
  };
}

std::vector<PlanField> recurrence_fields() {
  return {
      choice({"model.recurrence.rule",
              "How a head's state changes: gated_delta replaces what it held for a key (Qwen3-Next, Qwen3.5), mamba2 adds to it (Nemotron-H)."},
             AT(model.recurrence.rule)),
      integer({"model.recurrence.heads",
               "Linear attention or state spaces: heads of values in layers that have a recurrence in place of attention; 0: no such layers. Predictions assume that its kernels are as fast as attention's, because no source measures them."},
              AT(model.recurrence.heads), {0, kMaxHeads}),
      integer({"model.recurrence.key_heads", "Heads of queries and keys, each for equally many heads of values."},
              AT(model.recurrence.key_heads), {0, kMaxHeads})
          .otherwise("model.recurrence.heads"),
      integer({"model.recurrence.key_dim", "Width of a query and a key; for a state space, the size of its state."}, AT(model.recurrence.key_dim),
              {1, kMaxHeads}),
      integer({"model.recurrence.value_dim", "Width of a head's values."}, AT(model.recurrence.value_dim), {1, kMaxHeads}),
      integer({"model.recurrence.conv_width", "Positions that the convolution of queries, keys and values covers, the current one included."},
              AT(model.recurrence.conv_width), {1, 64}),
      flag({"model.recurrence.conv_bias", "The convolution of model.recurrence.conv_width has a bias."}, AT(model.recurrence.conv_bias)),
      letters({"model.recurrence.layers",
               "One letter per layer, repeated from the first: r has the recurrence, a has attention. rrra: every fourth layer has attention."},
              AT(model.recurrence.layers), "ra"),
  };
}

std::vector<PlanField> mtp_fields() {
  return {
      integer({"model.mtp.num_layers",
               "Modules of multi-token prediction (DeepSeek-V3) on the last stage: module k reads token i + k and the states of the module before it, and predicts token i + k + 1; 0: none."},
              AT(model.mtp.num_layers), {0, kMaxLayers}),
      number({"model.mtp.loss_scale", "Weight of the mean of their losses beside the model's own loss."}, AT(model.mtp.loss_scale),
             {0, 1e6}),
  };
}

std::vector<PlanField> shape_fields() {
  return {
      choice({"model.family", "Architecture family; it only sets defaults."}, AT(model.family)),
      integer({"model.num_layers", "Transformer layers; of the encoder for t5."}, AT(model.num_layers), {1, kMaxLayers})
          .must(),
      integer({"model.num_decoder_layers", "Layers of the decoder; t5 only, at least 1."}, AT(model.num_decoder_layers),
              {0, kMaxLayers})
          .otherwise("0; t5: model.num_layers"),
      integer({"model.hidden_size", "Width of the residual stream."}, AT(model.hidden_size), {1, kMaxHidden}).must(),
      integer({"model.num_attention_heads", "Query heads."}, AT(model.num_attention_heads), {1, kMaxHeads}).must(),
      integer({"model.num_kv_heads", "Key and value heads; fewer than query heads is grouped-query attention."},
              AT(model.num_kv_heads), {1, kMaxHeads})
          .otherwise("model.num_attention_heads"),
      integer({"model.head_dim", "Width of one head."}, AT(model.head_dim), {1, kMaxHeads})
          .otherwise("model.hidden_size / model.num_attention_heads"),
      integer({"model.value_dim", "Width of one head's values."}, AT(model.value_dim), {1, kMaxHeads})
          .otherwise("model.head_dim; latent attention: head_dim - rotary_dim"),
      integer({"model.ffn_hidden_size", "Inner width of the MLP."}, AT(model.ffn_hidden_size), {1, kMaxFfn})
          .otherwise("4 x hidden_size; swiglu and geglu: 8/3 x hidden_size rounded up to 64"),
      integer({"model.vocab_size", "Entries of the vocabulary, without padding."}, AT(model.vocab_size), {1, kMaxVocab})
          .must(),
      integer({"model.pad_vocab_to", "The stored vocabulary is padded to a multiple of this."}, AT(model.pad_vocab_to),
              {1, kMaxVocab})
          .otherwise("128 x parallel.tensor"),
      integer({"model.max_position_embeddings", "Longest sequence; rows of a learned position table."},
              AT(model.max_position_embeddings), {1, kMaxSequence})
          .otherwise("training.seq_length"),
      integer({"model.token_types", "Rows of the token-type table."}, AT(model.token_types), {0, 1024})
          .otherwise("0; bert: 2"),
  };
}

std::vector<PlanField> style_fields() {
  return {
      choice({"model.activation", "Non-linearity of the MLP; swiglu, geglu and clamped_swiglu (gpt-oss) have a gate."}, AT(model.activation))
          .otherwise("gelu; llama: swiglu; t5: relu"),
      choice({"model.normalization", "Kind of normalization."}, AT(model.normalization))
          .otherwise("layernorm; llama, t5: rmsnorm"),
      choice({"model.norm_placement",
              "Where norms stand: before attention and MLP (pre), after the residual addition (post), after it with a residual that skips the norm (post_add), before and behind attention and MLP (sandwich), or only behind them (behind)."},
             AT(model.norm_placement))
          .otherwise("pre; bert: post"),
      choice({"model.parallel_residual", "Attention and MLP read the same state, and their outputs are added together: no (none), with one norm for both (one_norm), or with a norm each (two_norms)."},
             AT(model.parallel_residual)),
      flag({"model.norm_bias", "Layer norms have a bias."}, AT(model.norm_bias)),
      number({"model.norm_epsilon", "Added to the variance."}, AT(model.norm_epsilon), {0, 1, true, false})
          .otherwise("1e-5; bert: 1e-12; t5: 1e-6"),
      choice({"model.position_embedding", "How positions enter the model; none: not at all."}, AT(model.position_embedding))
          .otherwise("learned; llama: rope; bloom: alibi; t5: relative"),
      number({"model.rope_theta", "Base of the rotary frequencies."}, AT(model.rope_theta), {0, 1e12, true, false}),
      number({"model.rotary_fraction", "Share of a head's dimensions that are rotated by position (RoPE), from the first one on."}, AT(model.rotary_fraction),
             {0, 1, true, false}),
      word({"model.rope_scaling.type", "Stretching of rotary positions."}, AT(model.rope_scaling.type), kRopeScalings,
           "none"),
      number({"model.rope_scaling.factor", "Factor of the stretching."}, AT(model.rope_scaling.factor),
             {0, 1e6, true, false}),
      integer({"model.rope_scaling.original_max_position_embeddings", "Longest sequence before the stretching; llama3 and yarn."},
              AT(model.rope_scaling.original_max_position_embeddings), {1, kMaxSequence})
          .otherwise("4096; llama3: 8192"),
      number({"model.rope_scaling.beta_fast", "yarn: pairs with more rotations than this in the original length keep their angles."},
             AT(model.rope_scaling.beta_fast), {0, 1e6, true, false}),
      number({"model.rope_scaling.beta_slow", "yarn: pairs with fewer rotations than this in the original length are interpolated fully."},
             AT(model.rope_scaling.beta_slow), {0, 1e6, true, false}),
      unless_true(flag({"model.rope_scaling.truncate", "yarn: the range of partly interpolated pairs is rounded outwards to whole pairs."},
                       AT(model.rope_scaling.truncate))),
      number({"model.rope_scaling.mscale_all_dim",
              "yarn in latent attention: scores are multiplied by (1 + 0.1 mscale_all_dim ln factor)^2; 0: by nothing. In other attention, 1: "
              "queries and keys keep their length, 0: yarn multiplies them by 1 + 0.1 ln factor."},
             AT(model.rope_scaling.mscale_all_dim), {0, 1e6}),
      flag({"model.tie_embeddings", "The output matrix is the embedding table."}, AT(model.tie_embeddings))
          .otherwise("true; llama: false"),
      flag({"model.linear_bias", "Linear layers have a bias."}, AT(model.linear_bias))
          .otherwise("true; llama, t5: false"),
      flag({"model.qkv_bias", "The query, key and value projections have a bias."}, AT(model.qkv_bias))
          .otherwise("model.linear_bias"),
      flag({"model.output_bias", "Logits have a bias."}, AT(model.output_bias)),
      choice({"model.qk_norm",
              "RMS norm of queries and keys: none; of each head (head), as Qwen3, or of all heads together (full), as OLMo 2, before rotary positions; or of each head after them, without a weight (l2), as Llama 4."},
             AT(model.qk_norm)),
      flag({"model.value_norm", "RMS norm of every head of values, without a weight."}, AT(model.value_norm)),
      flag({"model.tie_kv", "A head's values are its keys, normalized like the keys, but without the norm's weight and without positions."},
           AT(model.tie_kv)),
      unless(0.0, number({"model.attention_scale", "Factor of attention scores; 0: 1 / sqrt(head_dim)."}, AT(model.attention_scale), {0, 1e6})),
      number({"model.attention_soft_cap", "c: an attention score x becomes c tanh(x / c) before masking; 0: no cap."},
             AT(model.attention_soft_cap), {0, 1e6}),
      number({"model.logit_soft_cap", "c: a logit x becomes c tanh(x / c); 0: no cap."}, AT(model.logit_soft_cap), {0, 1e6}),
      flag({"model.attention_sinks", "Each query head has a learned score that takes part in its softmax but has no value."},
           AT(model.attention_sinks)),
      flag({"model.attention_gate",
            "A sigmoid of the layer's input scales attention's output, column by column (Qwen3-Next)."},
           AT(model.attention_gate)),
      letters({"model.sublayers",
               "One letter per layer, repeated from the first: b has a mixer (attention or a recurrence) and an MLP or experts, m the mixer alone, f "
               "the MLP or experts alone (Nemotron-H)."},
              AT(model.sublayers), "bmf"),
      unless(1.0, number({"model.embedding_scale", "Factor of a token's embedding (Gemma: the root of the hidden size)."},
                         AT(model.embedding_scale), {0, 1e6, true, false})),
      unless(1.0, number({"model.residual_scale",
                          "Factor of what attention, MLP or experts add to the residual stream (Granite: residual_multiplier)."},
                         AT(model.residual_scale), {0, 1e6, true, false})),
      unless(1.0, number({"model.logit_scale", "Factor of logits, before their soft cap (Cohere: logit_scale)."},
                         AT(model.logit_scale), {0, 1e6, true, false})),
      flag({"model.embedding_norm", "The embedding's output is normalized."}, AT(model.embedding_norm))
          .otherwise("false; bloom, bert: true"),
      number({"model.init_std", "Standard deviation of initial weights; of those whose products attention and MLP add to the residual stream, it is divided by sqrt(2 num_layers)."}, AT(model.init_std), {0, 100, true, false}),
  };
}

void append(std::vector<PlanField>& to, std::vector<PlanField> more) {
  for (PlanField& f : more) to.push_back(std::move(f));
}

}  // namespace

std::vector<PlanField> model_fields() {
  std::vector<PlanField> all{
      directive({"model.preset", "A model of models/presets that the other fields override."}),
      text({"model.name", "For people."}, AT(model.name)),
      text({"model.notes", "For people."}, AT(model.notes)),
  };
  append(all, shape_fields());
  append(all, style_fields());
  append(all, latent_fields());
  append(all, indexer_fields());
  append(all, window_fields());
  append(all, recurrence_fields());
  append(all, expert_fields());
  append(all, mtp_fields());
  return all;
}

}  // namespace tandem
