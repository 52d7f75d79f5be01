#include "tests/agree/features.hpp"
#include "topology/plan_reader.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tandem::tests {
namespace {

using nlohmann::json;

// Sizes pairwise different where tensor 4, context 2 and two heads a rank allow it. AdamW divides by the gradient's
// size plus epsilon: with the usual 1e-8 a gradient that is nothing but rounding moves its weight by a whole learning
// rate, which in single precision is 5e-5 of the next step's gradients, on one rank against fp64 too.
constexpr std::string_view kBase = R"({
  "model": {"family": "gpt", "num_layers": 4, "hidden_size": 24, "num_attention_heads": 4, "ffn_hidden_size": 40,
            "vocab_size": 37, "pad_vocab_to": 16},
  "parallel": {"bucket_bytes": "20000 B"},
  "training": {"seq_length": 8, "dropout": {"hidden": 0.1, "attention": 0.1}, "clip_grad": 0.3,
               "epsilon": 1e-4},
  "cluster": {"preset": "cpu-host"}})";

// A capacity of one even share drops choices; without a dropped one the routing could not be told from a dropless one.
Feature models() {
  return {
      Dim::model,
      "model",
      true,
      {{"gpt", "{}"},
       {"llama", R"({"model": {"family": "llama", "num_kv_heads": 2}})"},
       {"llama-mqa",
        R"({"model": {"family": "llama", "num_kv_heads": 1, "rope_scaling": {"type": "linear", "factor": 2}}})"},
       {"llama-nope", R"({"model": {"family": "llama", "num_kv_heads": 2, "window": {"layers": "wf", "full_rotary": false},
                                   "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 4, "mscale_all_dim": 1}}})"},
       {"llama-qk-norm", R"({"model": {"family": "llama", "num_kv_heads": 2, "qk_norm": "head", "rotary_fraction": 0.7}})"},
       {"wide-values", R"({"model": {"family": "llama", "num_kv_heads": 2, "value_dim": 9}})"},
       {"latent", R"({"model": {"family": "llama", "head_dim": 10, "value_dim": 7,
                               "latent": {"kv_rank": 5, "query_rank": 9, "rotary_dim": 4},
                               "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 4,
                                                "mscale_all_dim": 0.7}}})"},
       {"latent-direct", R"({"model": {"position_embedding": "rope", "qkv_bias": false, "head_dim": 5, "value_dim": 5,
                                      "latent": {"kv_rank": 6, "rotary_dim": 2}}})"},
       {"gemma", R"({"model": {"family": "llama", "num_kv_heads": 2, "activation": "geglu", "norm_placement": "sandwich",
                              "embedding_scale": 3, "residual_scale": 0.4, "qk_norm": "head", "window": {"size": 3, "layers": "wf", "rope_theta": 100}}})"},
       {"olmo2", R"({"model": {"family": "llama", "num_kv_heads": 2, "norm_placement": "behind", "qk_norm": "row"}})"},
       {"gemma2-caps", R"({"model": {"family": "llama", "num_kv_heads": 2, "norm_placement": "sandwich", "attention_soft_cap": 0.2,
                                    "logit_soft_cap": 0.1, "attention_scale": 0.6, "logit_scale": 3, "window": {"size": 3, "layers": "wf"}}})"},
       {"phi", R"({"model": {"position_embedding": "rope", "parallel_residual": "one_norm", "output_bias": true,
                            "residual_scale": 0.7, "logit_scale": 0.5}})"},
       {"neox-chunks", R"({"model": {"position_embedding": "rope", "parallel_residual": "two_norms",
                                    "window": {"size": 5, "chunked": true, "layers": "wwf", "full_rotary": false}}})"},
       {"falcon", R"({"model": {"position_embedding": "rope", "parallel_residual": "one_norm", "linear_bias": false,
                               "norm_bias": false}})"},
       {"mtp", R"({"model": {"family": "llama", "num_kv_heads": 2, "embedding_scale": 3, "mtp": {"num_layers": 2, "loss_scale": 0.6}}})"},
       {"mtp-alibi", R"({"model": {"position_embedding": "alibi", "output_bias": true, "logit_soft_cap": 0.5, "residual_scale": 0.7,
                                  "mtp": {"num_layers": 1, "loss_scale": 0.4}}})"},
       {"delta", R"({"model": {"family": "llama", "num_kv_heads": 1, "qk_norm": "head", "attention_gate": true, "qkv_bias": true,
                              "recurrence": {"heads": 8, "key_heads": 4, "key_dim": 3, "value_dim": 5, "conv_width": 3,
                                             "layers": "rrra"}}})"},
       {"mamba", R"({"model": {"family": "llama", "num_kv_heads": 2, "sublayers": "mfmf",
                              "recurrence": {"rule": "mamba2", "heads": 8, "key_heads": 4, "key_dim": 3, "value_dim": 5,
                                             "conv_width": 3, "conv_bias": true, "layers": "ra"}}})"},
       {"bloom", R"({"model": {"family": "bloom"}})"},
       {"bert", R"({"model": {"family": "bert", "vocab_size": 38}})"},
       {"bert-pre", R"({"model": {"family": "bert", "vocab_size": 38, "norm_placement": "pre"}})"},
       {"bert-post-add", R"({"model": {"family": "bert", "vocab_size": 38, "norm_placement": "post_add"}})"},
       {"t5", R"({"model": {"family": "t5"}})"},
       {"t5-learned", R"({"model": {"family": "t5", "position_embedding": "learned", "activation": "gelu",
                                    "normalization": "layernorm", "linear_bias": true}})"},
       {"squared-relu", R"({"model": {"activation": "squared_relu", "linear_bias": false}})"},
       {"geglu",
        R"({"model": {"activation": "geglu", "normalization": "rmsnorm", "qkv_bias": true, "linear_bias": false}})"},
       {"moe-top2",
        R"({"model": {"family": "llama", "moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16,
                                                            "capacity_factor": 1, "aux_loss": 0.02, "z_loss": 0.03}}})"},
       {"moe-dropless", R"({"model": {"family": "llama", "num_kv_heads": 2,
                                     "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 4},
                                     "moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16}}})"},
       {"moe-shared", R"({"model": {"moe": {"num_experts": 6, "experts_per_token": 1, "ffn_hidden_size": 20,
                                           "num_shared_experts": 1, "layer_frequency": 2, "capacity_factor": 1.5,
                                           "aux_loss": 0.01}}})"},
       {"moe-gpt-oss", R"({"model": {"family": "llama", "num_kv_heads": 2, "linear_bias": true, "activation": "clamped_swiglu",
                                    "attention_sinks": true, "window": {"size": 3, "layers": "wf"},
                                    "moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16, "router_bias": true}},
                         "training": {"flash_attention": true}})"},
       {"window-heads", R"({"model": {"family": "llama", "num_kv_heads": 2,
                                     "window": {"size": 3, "layers": "wf", "num_attention_heads": 8, "num_kv_heads": 1, "head_dim": 4,
                                                "value_dim": 5}}})"},
       {"moe-mimo", R"({"model": {"family": "llama", "num_kv_heads": 1, "head_dim": 8, "value_dim": 5, "rotary_fraction": 0.5,
                                 "attention_sinks": true,
                                 "window": {"size": 3, "layers": "fw", "rope_theta": 100, "num_kv_heads": 2, "full_sinks": false},
                                 "moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16, "first_dense_layers": 1,
                                         "router_scores": "sigmoid", "balance_rate": 0.01, "z_loss": 0.05}},
                       "training": {"flash_attention": true}})"},
       {"gemma4", R"({"model": {"family": "llama", "num_kv_heads": 2, "head_dim": 6, "activation": "geglu", "norm_placement": "sandwich",
                               "qk_norm": "head", "value_norm": true, "tie_kv": true,
                               "window": {"size": 3, "layers": "wf", "rope_theta": 100, "num_kv_heads": 4, "head_dim": 4,
                                          "own_values": true}}})"},
       {"moe-gemma4", R"({"model": {"family": "llama", "num_kv_heads": 1, "activation": "geglu", "norm_placement": "sandwich",
                                   "qk_norm": "head", "value_norm": true, "tie_kv": true,
                                   "window": {"size": 3, "layers": "wf", "num_kv_heads": 2, "head_dim": 4, "own_values": true},
                                   "moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16, "num_shared_experts": 1,
                                           "shared_ffn_hidden_size": 24, "branch_norms": true, "router_norm": true,
                                           "expert_scale": true, "aux_loss": 0.02}}})"},
       {"moe-llama4", R"({"model": {"family": "llama", "num_kv_heads": 2, "qk_norm": "turned",
                                   "window": {"size": 5, "chunked": true, "layers": "wwf", "full_rotary": false},
                                   "moe": {"num_experts": 4, "experts_per_token": 1, "ffn_hidden_size": 16, "num_shared_experts": 1,
                                           "router_scores": "sigmoid", "weigh_inputs": true, "aux_loss": 0.02}}})"},
       {"moe-qwen2", R"({"model": {"family": "llama", "qkv_bias": true, "qk_norm": "row",
                                  "moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16, "num_shared_experts": 2,
                                          "shared_gate": true, "normalize_weights": false, "aux_loss": 0.02}}})"},
       {"moe-deepseek", R"({"model": {"family": "llama", "num_kv_heads": 2,
                                     "moe": {"num_experts": 8, "experts_per_token": 3, "ffn_hidden_size": 16, "num_shared_experts": 1,
                                             "first_dense_layers": 1, "router_scores": "sigmoid", "weight_scale": 2.5,
                                             "expert_groups": 4, "groups_per_token": 2, "group_score": "top2",
                                             "balance_rate": 0.01}}})"},
       {"moe-delta", R"({"model": {"family": "llama", "num_kv_heads": 1, "qk_norm": "head", "attention_gate": true,
                                  "recurrence": {"heads": 8, "key_heads": 4, "key_dim": 3, "value_dim": 5, "conv_width": 3,
                                                 "layers": "ra"},
                                  "moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16, "num_shared_experts": 1,
                                          "shared_gate": true}}})"},
       {"moe-mtp", R"({"model": {"family": "llama", "head_dim": 10, "value_dim": 7,
                                "latent": {"kv_rank": 5, "query_rank": 9, "rotary_dim": 4}, "mtp": {"num_layers": 1, "loss_scale": 0.3},
                                "moe": {"num_experts": 8, "experts_per_token": 3, "ffn_hidden_size": 16, "num_shared_experts": 1,
                                        "first_dense_layers": 1, "router_scores": "sigmoid", "balance_rate": 0.01}}})"},
       {"moe-unscaled", R"({"model": {"family": "llama",
                                     "moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16, "capacity_factor": 1,
                                             "aux_loss": 0.02, "normalize_weights": false, "weight_scale": 1.5,
                                             "expert_groups": 2, "groups_per_token": 1, "balance_rate": 0.01}}})"}}};
}

/// Indexers, for models whose latent attention compresses queries. The second indexer chooses all keys.
Feature indexers() {
  constexpr std::string_view some = R"({"model": {"indexer": {"heads": 3, "head_dim": 6, "topk": 3}},
                                        "training": {"flash_attention": true, "dropout": {"attention": 0}}})",
                             all = R"({"model": {"indexer": {"heads": 1, "head_dim": 4, "topk": 40}},
                                       "training": {"flash_attention": true, "dropout": {"attention": 0}}})";
  return {Dim::indexer, "indexer", true, {{"none", "{}"}, {"3 keys", some}, {"all keys", all}}};
}

// Layers a schedule needs are set by the plan's writer: the plain four, or more where the chunks are more.
Feature schedules() {
  return {Dim::schedule,
          "schedule",
          false,
          {{"1f1b", "{}"},
           {"gpipe", R"({"parallel": {"schedule": "gpipe"}})"},
           {"interleaved-2", R"({"parallel": {"schedule": "interleaved", "virtual_pipeline": 2}})"},
           {"interleaved-3", R"({"parallel": {"schedule": "interleaved", "virtual_pipeline": 3}})"},
           {"zb-h1", R"({"parallel": {"schedule": "zb-h1"}})"},
           {"zb-h2", R"({"parallel": {"schedule": "zb-h2"}})"},
           {"breadth-first-2", R"({"parallel": {"schedule": "breadth-first", "virtual_pipeline": 2}})"},
           {"dualpipe-v", R"({"parallel": {"schedule": "dualpipe-v"}})"},
           {"zb-v", R"({"parallel": {"schedule": "zb-v"}})"},
           {"v-half", R"({"parallel": {"schedule": "v-half"}})"},
           {"v-min", R"({"parallel": {"schedule": "v-min"}})"}}};
}

Feature recomputes() {
  return {
      Dim::recompute,
      "recompute",
      false,
      {{"none", "{}"},
       {"full", R"({"training": {"recompute": "full"}})"},
       {"full-1-layer", R"({"training": {"recompute": "full", "recompute_layers": 1}})"},
       {"core_attention", R"({"training": {"recompute": "selective", "recompute_modules": ["core_attention"]}})"},
       {"core_attention-1-layer",
        R"({"training": {"recompute": "selective", "recompute_modules": ["core_attention"], "recompute_layers": 1}})"},
       {"norm", R"({"training": {"recompute": "selective", "recompute_modules": ["norm"]}})"},
       {"mlp", R"({"training": {"recompute": "selective", "recompute_modules": ["mlp"]}})"},
       {"mla_up_proj", R"({"training": {"recompute": "selective", "recompute_modules": ["mla_up_proj", "norm"]}})"},
       {"operations", R"({"training": {"recompute": "selective", "recompute_modules": ["operations"]}})"},
       {"operations and mla_up_proj",
        R"({"training": {"recompute": "selective", "recompute_modules": ["operations", "mla_up_proj"]}})"},
       {"operations and products",
        R"({"training": {"recompute": "selective", "recompute_modules": ["operations"], "recompute_products": true}})"},
       {"operations, products and attention",
        R"({"training": {"recompute": "selective", "recompute_modules": ["operations", "core_attention"],)"
        R"( "recompute_products": true}})"},
       {"moe", R"({"training": {"recompute": "selective", "recompute_modules": ["moe"]}})"},
       {"whole modules",
        R"({"training": {"recompute": "selective", "recompute_modules": ["mlp", "moe"], "recompute_early_stop": false}})"},
       {"moe_activation", R"({"training": {"recompute": "selective", "recompute_modules": ["moe_activation"]}})"}}};
}

Feature optimizers() {
  return {Dim::optimizer,
          "optimizer",
          true,
          {{"adamw", "{}"},
           {"lamb", R"({"training": {"optimizer": "lamb"}})"},
           {"lans", R"({"training": {"optimizer": "lans"}})"},
           {"sgd", R"({"training": {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.05}})"},
           {"muon", R"({"training": {"optimizer": "muon"}})"}}};
}

Feature contexts() {
  return {Dim::context,
          "context",
          false,
          {{"1", "{}"},
           {"ring", R"({"parallel": {"context": 2, "context_mode": "ring"}})"},
           {"all_gather", R"({"parallel": {"context": 2, "context_mode": "all_gather"}})"},
           {"ulysses", R"({"parallel": {"context": 2, "context_mode": "ulysses"}})"}}};
}

Feature degrees(Dim dim, std::string_view name, std::vector<Value> values) {
  return {dim, name, false, std::move(values)};
}

/// A switch that is off or absent unless `on` is merged in.
Feature flag(Dim dim, std::string_view name, std::string_view on) {
  return {dim, name, false, {{"off", "{}"}, {"on", on}}};
}

std::vector<Feature> parallel_features() {
  return {degrees(Dim::tensor, "tensor",
                  {{"1", "{}"}, {"2", R"({"parallel": {"tensor": 2}})"}, {"4", R"({"parallel": {"tensor": 4}})"}}),
          flag(Dim::sequence, "sequence_parallel", R"({"parallel": {"sequence_parallel": true}})"),
          degrees(Dim::pipeline, "pipeline",
                  {{"1", "{}"}, {"2", R"({"parallel": {"pipeline": 2}})"}, {"4", R"({"parallel": {"pipeline": 4}})"}}),
          schedules(),
          degrees(Dim::data, "data",
                  {{"1", "{}"},
                   {"2", R"({"parallel": {"data": 2}})"},
                   {"3", R"({"parallel": {"data": 3}})"},
                   {"4", R"({"parallel": {"data": 4}})"}}),
          degrees(Dim::zero, "zero_stage",
                  {{"0", "{}"},
                   {"1", R"({"parallel": {"zero_stage": 1}})"},
                   {"2", R"({"parallel": {"zero_stage": 2}})"},
                   {"3", R"({"parallel": {"zero_stage": 3}})"}}),
          degrees(Dim::zero_group, "zero_group", {{"all", "{}"}, {"2", R"({"parallel": {"zero_group": 2}})"}}),
          contexts(),
          degrees(Dim::expert, "expert", {{"1", "{}"}, {"2", R"({"parallel": {"expert": 2}})"}}),
          degrees(Dim::expert_tensor, "expert_tensor",
                  {{"tensor", "{}"},
                   {"1", R"({"parallel": {"expert_tensor": 1}})"},
                   {"2", R"({"parallel": {"expert_tensor": 2}})"}}),
          degrees(Dim::dispatcher, "token_dispatcher",
                  {{"alltoall", "{}"}, {"allgather", R"({"parallel": {"token_dispatcher": "allgather"}})"}})};
}

std::vector<Feature> manner_features() {
  return {recomputes(),
          flag(Dim::flash, "flash_attention", R"({"training": {"flash_attention": true}})"),
          flag(Dim::overlap_reduce, "overlap_grad_reduce", R"({"parallel": {"overlap_grad_reduce": true}})"),
          flag(Dim::overlap_gather, "overlap_param_gather", R"({"parallel": {"overlap_param_gather": true}})"),
          degrees(Dim::tensor_overlap, "tensor_overlap",
                  {{"none", "{}"},
                   {"in pieces", R"({"parallel": {"tensor_overlap": true}})"},
                   {"sums beside weights", R"({"parallel": {"overlap_tensor_sum": true}})"}}),
          degrees(Dim::bucket, "bucket_bytes",
                  {{"20000", "{}"},
                   {"1", R"({"parallel": {"bucket_bytes": 1}})"},
                   {"all", R"({"parallel": {"bucket_bytes": "1 GB"}})"}}),
          degrees(Dim::reduce_type, "gradient_reduce",
                  {{"own", "{}"}, {"fp64", R"({"training": {"dtypes": {"gradient_reduce": "fp64"}}})"}}),
          degrees(Dim::prefetch, "prefetch_layers",
                  {{"1", "{}"},
                   {"0", R"({"parallel": {"prefetch_layers": 0}})"},
                   {"2", R"({"parallel": {"prefetch_layers": 2}})"},
                   {"kept", R"({"parallel": {"reuse_distance": 20000}})"}}),
          degrees(Dim::unit_copies, "unit_copies",
                  {{"none", "{}"},
                   {"flat", R"({"parallel": {"unit_copies": "flat"}})"},
                   {"per_parameter", R"({"parallel": {"unit_copies": "per_parameter"}})"},
                   {"root", R"({"parallel": {"unit_copies": "per_parameter", "root_unit": true}})"}}),
          degrees(Dim::order, "rank_order",
                  {{"tp-cp-ep-dp-pp", "{}"},
                   {"tp-dp-pp-cp-ep", R"({"parallel": {"rank_order": "tp-dp-pp-cp-ep"}})"},
                   {"pp-dp-cp-tp-ep", R"({"parallel": {"rank_order": "pp-dp-cp-tp-ep"}})"}})};
}

std::vector<Feature> training_features() {
  return {optimizers(),
          {Dim::dropout,
           "dropout",
           true,
           {{"on", "{}"}, {"off", R"({"training": {"dropout": {"hidden": 0, "attention": 0}}})"}}},
          degrees(Dim::micro_batches, "micro_batches", {{"3", "{}"}, {"1", "{}"}, {"4", "{}"}, {"5", "{}"}}),
          {Dim::micro_batch_size,
           "micro_batch_size",
           true,
           {{"1", R"({"training": {"micro_batch_size": 1}})"}, {"2", R"({"training": {"micro_batch_size": 2}})"}}},
          degrees(Dim::fusion, "fusion",
                  {{"reference", "{}"},
                   {"eager", R"({"training": {"fusion": "eager"}})"},
                   {"megatron", R"({"training": {"fusion": "megatron"}})"},
                   {"transformer-engine", R"({"training": {"fusion": "transformer-engine"}})"},
                   {"compiled", R"({"training": {"fusion": "compiled"}})"},
                   {"llm.c", R"({"training": {"fusion": "llm.c"}})"},
                   {"tandem-cuda", R"({"training": {"fusion": "tandem-cuda"}})"},
                   {"llm-foundry", R"({"training": {"fusion": "llm-foundry"}})"},
                   {"megatron-bridge", R"({"training": {"fusion": "megatron-bridge"}})"},
                   {"internevo", R"({"training": {"fusion": "internevo"}})"},
                   {"megatron-wide-softmax", R"({"training": {"fusion": "megatron-wide-softmax"}})"},
                   {"eager-fused-rmsnorm", R"({"training": {"fusion": "eager-fused-rmsnorm"}})"},
                   {"eager-loss-parallel", R"({"training": {"fusion": "eager-loss-parallel"}})"}}),
          flag(Dim::fill, "fill_uninitialized_memory", R"({"training": {"deterministic": true, "fill_uninitialized_memory": true}})"),
          degrees(Dim::transfers, "transfers",
                  {{"overlapped", "{}"},
                   {"waited", R"({"parallel": {"overlap_p2p": false}})"},
                   {"in shares", R"({"parallel": {"scatter_p2p": true}})"},
                   {"waited, in shares", R"({"parallel": {"overlap_p2p": false, "scatter_p2p": true}})"}})};
}

std::vector<Feature> build_features() {
  std::vector<Feature> all{
      models(),
      indexers(),
      {Dim::tied,
       "tie_embeddings",
       true,
       {{"true", R"({"model": {"tie_embeddings": true}})"}, {"false", R"({"model": {"tie_embeddings": false}})"}}}};
  for (auto part : {parallel_features, manner_features, training_features})
    for (Feature& f : part()) all.push_back(std::move(f));
  return all;
}

// ---- numbers of a case ----

const Feature& feature(Dim d) { return features()[static_cast<std::size_t>(d)]; }
int number(const Case& c, Dim d) { return std::stoi(std::string(label(c, d))); }
int value(const Case& c, Dim d) { return c[static_cast<std::size_t>(d)]; }
bool plain(const Case& c, Dim d) { return value(c, d) == 0; }
int context(const Case& c) { return plain(c, Dim::context) ? 1 : 2; }

/// At least one a chunk; with pipeline x chunks - 2 the embedding and the head are chunks of their own.
int layers(const Case& c) {
  const int stages = number(c, Dim::pipeline);
  const std::string_view schedule = label(c, Dim::schedule);
  const bool two_chunks = schedule.ends_with("-v") || schedule.starts_with("v-") || schedule == "interleaved-2" || schedule == "breadth-first-2";
  if (two_chunks) return std::max(4, 2 * stages);
  return schedule == "interleaved-3" ? std::max(4, 3 * stages - 2) : 4;
}

/// Every value's patch, by Dim and value.
const std::vector<std::vector<json>>& patches() {
  static const std::vector<std::vector<json>> all = [] {
    std::vector<std::vector<json>> parsed;
    for (const Feature& f : features()) {
      auto& mine = parsed.emplace_back();
      for (const Value& v : f.values) mine.push_back(json::parse(v.patch));
    }
    return parsed;
  }();
  return all;
}

/// Whether the one-rank reference has a dimension's value too. A fusion set computes the same to rounding: in fp64 every set is
/// held to the plainest one, in narrower types, where other places of rounding are a good part of the tolerance, to itself.
bool is_shared(const Feature& f, std::string_view precision) {
  return f.numerics || (f.dim == Dim::fusion && precision != "fp64");
}

json merged(const Case& c, std::string_view precision, bool reference) {
  static const json base = json::parse(kBase);
  json plan = base;
  for (std::size_t d = 0; d < kDims; ++d)
    if (!reference || is_shared(features()[d], precision)) plan.merge_patch(patches()[d][c[d]]);
  return plan;
}

/// What experts drop depends on the tokens that one rank routes: a context rank's and, sequence-parallel, a tensor rank's share.
/// How even a load is to the auxiliary loss depends on a context rank's. So with such shares nothing is dropped, and on several
/// context ranks there is no such loss.
void part_experts(json& moe, bool context, bool sequence) {
  if (context) moe["aux_loss"] = 0;
  if (moe.contains("capacity_factor") && (context || sequence))
    moe["capacity_factor"] = moe["num_experts"].get<double>() / moe["experts_per_token"].get<double>();
}

std::int64_t degree(const json& plan, const char* axis) { return plan["parallel"].value(axis, std::int64_t{1}); }

/// Devices and batch as they follow from the rest.
std::string finished(json plan, std::int64_t sequences) {
  std::int64_t devices = 1;
  for (const char* axis : {"tensor", "pipeline", "data", "context"}) devices *= degree(plan, axis);
  plan["cluster"]["devices"] = devices;
  plan["training"]["global_batch_size"] = sequences;
  return plan.dump();
}

std::string written(const Case& c, std::string_view precision, bool reference) {
  json plan = merged(c, precision, reference);
  json& model = plan["model"];
  model["num_layers"] = model["family"] == "t5" ? layers(c) / 2 : layers(c);
  if (model.contains("moe")) part_experts(model["moe"], context(c) > 1, !plain(c, Dim::sequence));
  plan["training"]["precision"] = precision;
  return finished(std::move(plan),
                  number(c, Dim::micro_batch_size) * number(c, Dim::micro_batches) * number(c, Dim::data));
}

// ---- what is not worth a case ----

// Cheap, for millions of cases are asked about: degrees from the places of their labels.
int tensor(const Case& c) { return 1 << value(c, Dim::tensor); }
int stages(const Case& c) { return 1 << value(c, Dim::pipeline); }
int data(const Case& c) { return 1 + value(c, Dim::data); }
int zero(const Case& c) { return value(c, Dim::zero); }
int shares(const Case& c) { return data(c) * context(c); }
int axes(const Case& c) { return (tensor(c) > 1) + (stages(c) > 1) + (data(c) > 1) + (context(c) > 1); }
int ranks(const Case& c) { return tensor(c) * stages(c) * shares(c); }
bool chosen(const Case& c, Dim d) { return !plain(c, d); }
bool of_experts(const Case& c, Dim d) { return label(c, d).starts_with("moe"); }
bool dualpipe(const Case& c) { return label(c, Dim::schedule) == "dualpipe-v"; }

struct Rule {
  std::string_view reason;
  bool (*broken)(const Case&);
};
constexpr std::array kRules{
    Rule{"more than 8 ranks, or 16 on four axes", [](const Case& c) { return ranks(c) > (axes(c) == 4 ? 16 : 8); }},
    Rule{"no compressed queries that choose keys",
         [](const Case& c) { return chosen(c, Dim::indexer) && label(c, Dim::model) != "latent" && label(c, Dim::model) != "moe-mtp"; }},
    Rule{"zero_group 2 parts nothing but ZeRO over four data ranks",
         [](const Case& c) { return chosen(c, Dim::zero_group) && (zero(c) == 0 || data(c) != 4); }},
    Rule{"only ZeRO 3 gathers ahead", [](const Case& c) { return chosen(c, Dim::prefetch) && zero(c) != 3; }},
    Rule{"only ZeRO 3 copies units", [](const Case& c) { return chosen(c, Dim::unit_copies) && zero(c) != 3; }},
    Rule{"no gradient is reduced", [](const Case& c) { return chosen(c, Dim::overlap_reduce) && shares(c) == 1; }},
    Rule{"no gradient is in a bucket", [](const Case& c) { return chosen(c, Dim::bucket) && shares(c) == 1; }},
    Rule{"no weight is gathered",
         [](const Case& c) { return chosen(c, Dim::overlap_gather) && (zero(c) == 0 || shares(c) == 1); }},
    Rule{"DualPipeV has two stages, and two micro-batches for each",
         [](const Case& c) { return dualpipe(c) && (stages(c) == 1 || number(c, Dim::micro_batches) < 2 * stages(c)); }},
    Rule{"a V has two stages",
         [](const Case& c) {
           const std::string_view schedule = label(c, Dim::schedule);
           return (schedule == "zb-v" || schedule.starts_with("v-")) && stages(c) == 1;
         }},
    Rule{"DualPipeV shards no gradients", [](const Case& c) { return dualpipe(c) && zero(c) > 1; }},
    Rule{"each tensor rank makes its own share orthogonal",
         [](const Case& c) { return label(c, Dim::optimizer) == "muon" && (tensor(c) > 1 || label(c, Dim::expert_tensor) == "2"); }},
    Rule{"no tensor ranks", [](const Case& c) { return chosen(c, Dim::tensor_overlap) && tensor(c) == 1; }},
    Rule{"nothing goes from stage to stage", [](const Case& c) { return chosen(c, Dim::transfers) && stages(c) == 1; }},
    Rule{"no tensor ranks hold the same boundary",
         [](const Case& c) { return value(c, Dim::transfers) > 1 && (tensor(c) == 1 || chosen(c, Dim::sequence)); }},
    Rule{"an order needs two axes", [](const Case& c) { return chosen(c, Dim::order) && axes(c) < 2; }},
    Rule{"no gradient is reduced in any type",
         [](const Case& c) { return chosen(c, Dim::reduce_type) && shares(c) == 1; }},
    Rule{"experts are cut so anyway",
         [](const Case& c) {
           return chosen(c, Dim::expert_tensor) &&
                  (!of_experts(c, Dim::model) || value(c, Dim::expert_tensor) == tensor(c));
         }},
    Rule{"no tokens go to experts", [](const Case& c) { return chosen(c, Dim::dispatcher) && !of_experts(c, Dim::model); }},
    Rule{"no tensor is allocated by calls that fill it",
         [](const Case& c) { return chosen(c, Dim::fill) && (label(c, Dim::fusion) == "compiled" || label(c, Dim::fusion) == "llm.c"); }},
    Rule{"no experts to recompute",
         [](const Case& c) { return of_experts(c, Dim::recompute) && !of_experts(c, Dim::model); }}};

}  // namespace

const std::vector<Feature>& features() {
  static const std::vector<Feature> all = build_features();
  return all;
}

std::string_view label(const Case& c, Dim d) { return feature(d).values[c[static_cast<std::size_t>(d)]].label; }

std::string text(const Case& c) {
  std::string t(label(c, Dim::model));
  for (const Feature& f : features())
    if (f.dim != Dim::model && !plain(c, f.dim)) t += " " + std::string(f.name) + "=" + std::string(label(c, f.dim));
  return t;
}

std::string plan_json(const Case& c, std::string_view precision) { return written(c, precision, false); }
std::string reference_json(const Case& c, std::string_view precision) { return written(c, precision, true); }

std::string small_json(const std::vector<std::string>& patches, std::int64_t micro_batches) {
  json plan = json::parse(kBase);
  for (const std::string& p : patches) plan.merge_patch(json::parse(p));
  const std::int64_t sequences =
      plan["training"].value("micro_batch_size", std::int64_t{1}) * micro_batches * degree(plan, "data");
  plan["training"]["micro_batch_size"] = plan["training"].value("micro_batch_size", std::int64_t{1});
  return finished(std::move(plan), sequences);
}

bool pointless(const Case& c) {
  return std::any_of(kRules.begin(), kRules.end(), [&](const Rule& r) { return r.broken(c); });
}

std::vector<std::string> reasons_against(const Case& c) {
  std::vector<std::string> reasons;
  for (const Rule& r : kRules)
    if (r.broken(c)) reasons.emplace_back(r.reason);
  try {
    require_lowerable(parse_plan(plan_json(c, "fp64"), ""));
  } catch (const InfeasibleError& e) {
    for (const Problem& p : e.problems()) reasons.push_back(p.message());
  }
  return reasons;
}

}  // namespace tandem::tests
