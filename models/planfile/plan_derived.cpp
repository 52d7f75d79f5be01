#include <algorithm>
#include <cmath>

#include "models/planfile/plan_steps.hpp"
#include "models/planfile/stage_split.hpp"

namespace tandem {
namespace {

std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

/// Every stage the same, the embedding and the head counting as a layer of the first and last.
std::vector<std::int64_t> with_ends_counted(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> split(static_cast<std::size_t>(stages), (layers + 2) / stages);
  --split.front();
  --split.back();
  return split;
}

}  // namespace

std::int64_t Plan::world_size() const { return parallel.tensor * parallel.pipeline * parallel.data * parallel.context; }

std::int64_t Plan::micro_batches() const {
  return training.global_batch_size / (training.micro_batch_size * parallel.data);
}

std::int64_t Plan::micro_batch_tokens() const { return training.micro_batch_size * training.seq_length; }

std::int64_t Plan::global_batch_tokens() const { return training.global_batch_size * training.seq_length; }

std::int64_t Plan::padded_vocab_size() const { return rounded_up(model.vocab_size, model.pad_vocab_to); }

std::int64_t Plan::masked_positions() const {
  return std::max<std::int64_t>(1, std::llround(0.15 * static_cast<double>(training.seq_length)));
}

std::int64_t Plan::loss_targets() const {
  if (model.family == Family::bert) return training.global_batch_size * masked_positions();
  if (model.family == Family::t5) return training.global_batch_size * training.decoder_seq_length;
  return global_batch_tokens();
}

std::int64_t Plan::sequence_tokens() const { return training.seq_length + training.decoder_seq_length; }

std::int64_t Plan::layer_seq_length(std::int64_t layer) const {
  const bool decoder = model.num_decoder_layers > 0 && layer >= model.num_layers;
  return decoder ? training.decoder_seq_length : training.seq_length;
}

std::int64_t Plan::expert_capacity() const {
  const MoeSpec& e = model.moe;
  if (e.num_experts == 0 || e.capacity_factor == 0) return 0;
  const std::int64_t shares = parallel.context * (parallel.sequence_parallel ? parallel.tensor : 1);
  const auto choices = static_cast<double>(micro_batch_tokens() / shares * e.experts_per_token);
  return static_cast<std::int64_t>(std::ceil(e.capacity_factor * choices / static_cast<double>(e.num_experts)));
}

std::vector<std::int64_t> Plan::layers_per_stage() const {
  if (!parallel.pipeline_split.empty()) return parallel.pipeline_split;
  const std::int64_t layers = model.total_layers();
  const std::int64_t stages = parallel.pipeline * parallel.virtual_pipeline;
  if (layers % stages == 0) return even_split(layers, stages);
  if (model.mtp.num_layers > 0 && layers > stages) return balanced_split(layers, stages, layers_of_last_end(*this));
  return (layers + 2) % stages == 0 ? with_ends_counted(layers, stages) : even_split(layers, stages);
}

bool ModelSpec::has_experts(std::int64_t layer) const {
  if (mtp.num_layers > 0) layer = std::min(layer, num_layers - 1);
  return moe.num_experts > 0 && layer >= moe.first_dense_layers && (layer - moe.first_dense_layers) % moe.layer_frequency == 0;
}

bool ModelSpec::has_window(std::int64_t layer) const {
  if ((window.size == 0 && window.full_rotary) || window.layers.empty()) return false;
  if (mtp.num_layers > 0) layer = std::min(layer, num_layers - 1);
  return window.layers[static_cast<std::size_t>(layer) % window.layers.size()] == 'w';
}

bool ModelSpec::has_indexer(std::int64_t layer) const {
  if (indexer.heads == 0 || indexer.layers.empty()) return false;
  if (mtp.num_layers > 0) layer = std::min(layer, num_layers - 1);
  return indexer.layers[static_cast<std::size_t>(layer) % indexer.layers.size()] == 'i';
}

LayerKind ModelSpec::kind(std::int64_t layer) const {
  const Mixer attention = has_window(layer) ? Mixer::windowed : has_indexer(layer) ? Mixer::indexed : Mixer::full;
  LayerKind kind{attention, has_experts(layer) ? FeedForward::experts : FeedForward::mlp};
  const std::int64_t like = mtp.num_layers > 0 ? std::min(layer, num_layers - 1) : layer;
  const auto letter = [&](const std::string& letters) { return letters[static_cast<std::size_t>(like) % letters.size()]; };
  if (recurrence.heads > 0 && letter(recurrence.layers) == 'r') kind.mixer = Mixer::recurrence;
  if (letter(sublayers) == 'f') kind.mixer = Mixer::none;
  if (letter(sublayers) == 'm') kind.feed = FeedForward::none;
  return kind;
}

AttentionHeads ModelSpec::attention_heads(Mixer mixer) const {
  const AttentionHeads all{num_attention_heads, num_kv_heads, head_dim, value_dim, tie_kv};
  if (mixer != Mixer::windowed) return all;
  const auto own = [](std::int64_t said, std::int64_t otherwise) { return said > 0 ? said : otherwise; };
  return {own(window.num_attention_heads, all.queries), own(window.num_kv_heads, all.keys), own(window.head_dim, all.head_dim),
          own(window.value_dim, window.head_dim > 0 ? window.head_dim : all.value_dim), tie_kv && !window.own_values};
}

std::string product_text(std::initializer_list<std::int64_t> factors) {
  std::string text;
  for (const std::int64_t f : factors) text += (text.empty() ? "" : " x ") + std::to_string(f);
  return text;
}

}  // namespace tandem
