#include "models/plan/plan_words.hpp"

#include <bit>
#include <concepts>
#include <string_view>
#include <type_traits>

namespace tandem {
namespace {

using Words = std::vector<std::int64_t>;

template <class T>
  requires std::is_enum_v<T> || std::integral<T>
std::int64_t word(T value) { return static_cast<std::int64_t>(value); }
std::int64_t word(double value) { return std::bit_cast<std::int64_t>(value); }
std::int64_t word(Bytes value) { return value.count(); }
std::int64_t word(std::string_view text) { return static_cast<std::int64_t>(std::hash<std::string_view>()(text)); }
std::int64_t word(const std::string& text) { return word(std::string_view(text)); }

template <class T>
  requires requires(const T& value) { word(value); }
void append(Words& words, const T& value) { words.push_back(word(value)); }
template <class T>
void append(Words& words, const std::vector<T>& list);
// Each lists all members of its struct: a structured binding requires it.
void append(Words& words, const MoeSpec& x);
void append(Words& words, const MtpSpec& x);
void append(Words& words, const RopeScaling& x);
void append(Words& words, const LatentSpec& x);
void append(Words& words, const IndexerSpec& x);
void append(Words& words, const WindowSpec& x);
void append(Words& words, const RecurrenceSpec& x);
void append(Words& words, const OffloadSpec& x);
void append(Words& words, const DTypes& x);
void append(Words& words, const Dropout& x);
void append(Words& words, const LearningRate& x);
void append(Words& words, const AdapterSpec& x);
void append(Words& words, const MuonSpec& x);
void append(Words& words, const OptimizerSpec& x);
void append(Words& words, const BatchRampup& x);
void append(Words& words, const LossScale& x);
void append(Words& words, const FusionSet& x) { append(words, x.name); }

template <class... T>
void all(Words& words, const T&... values) { (append(words, values), ...); }

template <class T>
void append(Words& words, const std::vector<T>& list) {
  append(words, list.size());
  for (const T& value : list) append(words, value);
}

void append(Words& words, const MoeSpec& x) {
  const auto& [experts, per_token, ffn, shared, first_dense, frequency, capacity, aux_loss, z_loss, router_bias, scores,
               normalize, scale, groups, kept_groups, group_score, weigh_inputs, shared_gate, shared_ffn, branch_norms,
               router_norm, expert_scale, balance_rate, balance_bias, rows_bound] = x;
  all(words, experts, per_token, ffn, shared, first_dense, frequency, capacity, aux_loss, z_loss, router_bias, scores,
      normalize, scale, groups, kept_groups, group_score, weigh_inputs, shared_gate, shared_ffn, branch_norms,
      router_norm, expert_scale, balance_rate, balance_bias, rows_bound);
}

void append(Words& words, const MtpSpec& x) {
  const auto& [modules, loss_scale] = x;
  all(words, modules, loss_scale);
}

void append(Words& words, const RopeScaling& x) {
  const auto& [type, factor, original, fast, slow, truncate, mscale] = x;
  all(words, type, factor, original, fast, slow, truncate, mscale);
}

void append(Words& words, const LatentSpec& x) {
  const auto& [kv_rank, query_rank, rotary_dim] = x;
  all(words, kv_rank, query_rank, rotary_dim);
}

void append(Words& words, const IndexerSpec& x) {
  const auto& [heads, head_dim, topk, block_size, layers] = x;
  all(words, heads, head_dim, topk, block_size, layers);
}

void append(Words& words, const WindowSpec& x) {
  const auto& [size, chunked, layers, theta, full_rotary, full_sinks, heads, kv_heads, head_dim, value_dim, own_values] = x;
  all(words, size, chunked, layers, theta, full_rotary, full_sinks, heads, kv_heads, head_dim, value_dim, own_values);
}

void append(Words& words, const RecurrenceSpec& x) {
  const auto& [rule, heads, key_heads, key_dim, value_dim, conv_width, conv_bias, layers] = x;
  all(words, rule, heads, key_heads, key_dim, value_dim, conv_width, conv_bias, layers);
}

void append(Words& words, const OffloadSpec& x) {
  const auto& [optimizer, parameters, ratio, activations, layers] = x;
  all(words, optimizer, parameters, ratio, activations, layers);
}

void append(Words& words, const DTypes& x) {
  const auto& [compute, weights, gradients, reduce, master, state, dispatch] = x;
  all(words, compute, weights, gradients, reduce, master, state, dispatch);
}

void append(Words& words, const Dropout& x) {
  const auto& [hidden, attention] = x;
  all(words, hidden, attention);
}

void append(Words& words, const LearningRate& x) {
  const auto& [peak, minimum, decay, unit, warmup, decay_over, decay_start, power] = x;
  all(words, peak, minimum, decay, unit, warmup, decay_over, decay_start, power);
}

void append(Words& words, const AdapterSpec& x) {
  const auto& [rank, alpha, dropout, targets, base, double_quantization] = x;
  all(words, rank, alpha, dropout, targets, base, double_quantization);
}

void append(Words& words, const MuonSpec& x) {
  const auto& [steps, nesterov, scale_mode, scale] = x;
  all(words, steps, nesterov, scale_mode, scale);
}

void append(Words& words, const OptimizerSpec& x) {
  const auto& [kind, rate, beta1, beta2, epsilon, decay, momentum, muon] = x;
  all(words, kind, rate, beta1, beta2, epsilon, decay, momentum, muon);
}

void append(Words& words, const BatchRampup& x) {
  const auto& [start, increment, samples] = x;
  all(words, start, increment, samples);
}

void append(Words& words, const LossScale& x) {
  const auto& [initial, minimum, window, hysteresis] = x;
  all(words, initial, minimum, window, hysteresis);
}

}  // namespace

void append_words(Words& words, const ModelSpec& x) {
  const auto& [name, family, layers, decoders, hidden, heads, kv_heads, head_dim, value_dim, ffn, vocabulary, pad, positions, types,
               activation, normalization, placement, parallel, norm_bias, epsilon, embedding, theta, rotary, scaling, tied,
               linear_bias, qkv_bias, output_bias, qk_norm, value_norm, tied_kv, latent, indexer, window, recurrence, sublayers,
               attention_gate, sinks, score_scale, score_cap, logit_cap, embedding_scale, residual_scale, logit_scale,
               embedding_norm, init_std, moe, mtp, notes] = x;
  all(words, family, layers, decoders, hidden, heads, kv_heads, head_dim, value_dim, ffn,
      vocabulary, pad, positions, types, activation,
      normalization, placement, parallel, norm_bias, epsilon, embedding, theta, rotary, scaling, tied, linear_bias, qkv_bias,
      output_bias, qk_norm, value_norm, tied_kv, latent, indexer, window, recurrence, sublayers, attention_gate, sinks, score_scale,
      score_cap, logit_cap, embedding_scale, residual_scale, logit_scale, embedding_norm, init_std, moe, mtp);
}

void append_words(Words& words, const ParallelSpec& x) {
  const auto& [tensor, pipeline, data, context, expert, expert_tensor, chunks, schedule, sequence, context_mode, ulysses, zero,
               zero_group, sync, scatters, overlap_reduce, overlap_gather, tensor_overlap, tensor_sum, overlap_p2p, overlap_experts,
               dispatcher, scatter_p2p, bucket, prefetch, reuse, copies, root, split, order, offload, name, notes] = x;
  all(words, tensor, pipeline, data, context, expert, expert_tensor, chunks, schedule, sequence, context_mode, ulysses, zero,
      zero_group, sync, scatters, overlap_reduce, overlap_gather, tensor_overlap, tensor_sum, overlap_p2p, overlap_experts,
      dispatcher, scatter_p2p, bucket, prefetch, reuse, copies, root, split, order, offload);
}

void append_words(Words& words, const TrainingSpec& x) {
  const auto& [sequence, decoder_sequence, micro_batch, batch, precision, dtypes, loss_scale, stochastic, recompute, layers,
               modules, products, narrow_inputs, early_stop, flash, kernel, fusion, graphs, deterministic, fill, blocking,
               expandable, loss_chunks, dropout, lora, optimizer, rampup, documents, clip, seed, steps, name, notes] = x;
  all(words, sequence, decoder_sequence, micro_batch, batch, precision, dtypes, loss_scale, stochastic, recompute, layers, modules,
      products, narrow_inputs, early_stop, flash, kernel, fusion, graphs, deterministic, fill, blocking, expandable, loss_chunks,
      dropout, lora, optimizer, rampup, documents, clip, seed, steps);
}

void append_words(Words& words, const PlanStack& x) {
  const auto& [name, as_of, refuses, facts] = x;
  all(words, name, as_of.year, as_of.month);
}

std::size_t WordsHash::operator()(const Words& words) const {
  std::uint64_t h = 0;
  for (const std::int64_t w : words) {
    h = (h ^ static_cast<std::uint64_t>(w)) * 0x9e3779b97f4a7c15;
    h ^= h >> 29;
  }
  return h;
}

}  // namespace tandem
