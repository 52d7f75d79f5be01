// What a completed plan may not say on any machine: contradictions, and sizes whose products leave 64 bits.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/fields/plan_fields.hpp"
#include "models/planfile/plan_steps.hpp"
#include "models/fields/plan_values.hpp"
#include "models/stack/stack_file.hpp"

namespace tandem {
namespace {

void check_decoder(const Plan& p, const Reporter& fail) {
  if (p.model.family == Family::t5) {
    const std::string remedy = "leave it out, or use at least 1";
    if (p.model.num_decoder_layers < 1) fail("model.num_decoder_layers", "the t5 family has a decoder", remedy);
    if (p.training.decoder_seq_length < 1) fail("training.decoder_seq_length", "the t5 family has a decoder", remedy);
    return;
  }
  const std::string remedy = "leave it out, or set model.family to t5";
  if (p.model.num_decoder_layers > 0) fail("model.num_decoder_layers", "only the t5 family has a decoder", remedy);
  if (p.training.decoder_seq_length > 0)
    fail("training.decoder_seq_length", "only the t5 family has a decoder", remedy);
}

void check_window(const Plan& p, const Reporter& fail) {
  const ModelSpec& m = p.model;
  const WindowSpec& w = m.window;
  if (w.layers.empty() || w.layers.find_first_not_of("wf") != std::string::npos)
    fail("model.window.layers", "is not made of the letters w and f", "use w for a layer with the window and f for one without: \"wf\"");
  if (w.size == 0 && w.full_rotary) return;
  if (m.family == Family::bert || m.family == Family::t5)
    fail(w.size > 0 ? "model.window.size" : "model.window.full_rotary",
         w.size > 0 ? "only causal models have windows" : "only causal models have layers of the letters w and f", "leave it out, or set model.family to gpt");
  if (w.size == 0 && m.attention_heads(Mixer::windowed) != m.attention_heads(Mixer::full))
    fail("model.window.size", "is 0, and layers without a window have the model's heads", "leave the heads of model.window out");
  if (w.layers.find('w') == std::string::npos)
    fail("model.window.layers", "gives no layer the window", "use w for each layer that has it, or model.window.size 0");
}

void check_layers(const Plan& p, const Reporter& fail) {
  const ModelSpec& m = p.model;
  if (m.sublayers.empty() || m.sublayers.find_first_not_of("bmf") != std::string::npos)
    fail("model.sublayers", "is not made of the letters b, m and f", "use b for a layer with both sublayers, m for a mixer and f for an MLP alone");
  const RecurrenceSpec& r = m.recurrence;
  if (r.layers.empty() || r.layers.find_first_not_of("ra") != std::string::npos)
    fail("model.recurrence.layers", "is not made of the letters r and a", "use r for a layer with the recurrence and a for attention: \"rrra\"");
  if (r.heads == 0) return;
  if (r.layers.find('r') == std::string::npos)
    fail("model.recurrence.layers", "gives no layer the recurrence", "use r for each layer that has it, or model.recurrence.heads 0");
  if (r.key_heads == 0 || r.heads % r.key_heads != 0)
    fail("model.recurrence.key_heads", "does not divide model.recurrence.heads " + std::to_string(r.heads), "use a divisor of it");
}

void check_indexer(const Plan& p, const Reporter& fail) {
  const IndexerSpec& i = p.model.indexer;
  if (i.layers.empty() || i.layers.find_first_not_of("if") != std::string::npos)
    fail("model.indexer.layers", "is not made of the letters i and f", "use i for a layer with the indexer and f for one without: \"fi\"");
  if (i.heads == 0) return;
  if (i.layers.find('i') == std::string::npos)
    fail("model.indexer.layers", "gives no layer the indexer", "use i for each layer that has it, or model.indexer.heads 0");
  if (!i.blocks()) return;
  const std::string blocks = "model.indexer.block_size " + std::to_string(i.block_size);
  if (i.topk % i.block_size != 0)
    fail("model.indexer.topk", "is no multiple of " + blocks + ", and keys are chosen in whole blocks", "use a multiple of it");
  if (i.heads != p.model.num_kv_heads)
    fail("model.indexer.heads", "differs from model.num_kv_heads " + std::to_string(p.model.num_kv_heads) +
             ", and with " + blocks + " a head chooses for every key head", "use " + std::to_string(p.model.num_kv_heads));
}

/// Products with other factors would be rounded.
void check_loss_scale(const Plan& p, const Reporter& fail) {
  const LossScale& s = p.training.loss_scale;
  int exponent = 0;
  const auto power = [&](double v) { return std::frexp(v, &exponent) == 0.5; };
  if (!power(s.initial)) fail("training.loss_scale.initial", "is no power of two", "use one, such as 65536");
  if (!power(s.minimum)) fail("training.loss_scale.minimum", "is no power of two", "use one, such as 1");
  if (s.minimum > s.initial)
    fail("training.loss_scale.minimum", "is above training.loss_scale.initial " + number_text(s.initial), "use at most that");
}

void check_learning_rate(const Plan& p, const Reporter& fail) {
  const LearningRate& r = p.training.optimizer.learning_rate;
  if (r.minimum > r.peak) {
    fail("training.min_learning_rate", "is above training.learning_rate " + number_text(r.peak),
         "use at most " + number_text(r.peak));
  }
  if (r.decay_over > 0 && r.decay_over < r.warmup) {
    fail("training.decay_over", "the decay would end inside the warm-up of " + std::to_string(r.warmup) + " " + r.unit,
         "use at least " + std::to_string(r.warmup) + ", or 0 for the run's length");
  }
  if (r.decay_start > 0 && r.decay_start < r.warmup) {
    fail("training.decay_start", "the decay would begin inside the warm-up of " + std::to_string(r.warmup) + " " + r.unit,
         "use at least " + std::to_string(r.warmup) + ", or 0 for the warm-up's end");
  }
  if (r.decay_over > 0 && r.decay_start > r.decay_over) {
    fail("training.decay_start", "is behind the end of the decay, training.decay_over " + std::to_string(r.decay_over),
         "use at most that");
  }
}

void check_rampup(const Plan& p, const Reporter& fail) {
  const BatchRampup& r = p.training.batch_rampup;
  const bool any = r.start > 0 || r.increment > 0 || r.samples > 0;
  const bool all = r.start > 0 && r.increment > 0 && r.samples > 0;
  if (any && !all) {
    fail("training.batch_rampup", "a ramp-up needs start, increment and samples, all above 0",
         "give all three, e.g. {\"start\": 16, \"increment\": 16, \"samples\": 5859375}");
  }
}

/// A matrix has one adapter, or its parts have their own.
void check_adapter_parts(const Plan& p, const Reporter& fail) {
  const AdapterSpec& lora = p.training.lora;
  for (const std::string matrix : {"qkv", "fc1", "experts.fc1"})
    if (lora.on(matrix) && lora.on_part_of(matrix))
      fail("training.lora.targets", "names " + matrix + " and a part of it, which it adapts already",
           "name " + matrix + ", or its parts alone");
  const bool units = lora.on_part_of("fc1") || lora.on_part_of("experts.fc1");
  if (units && !p.model.gated())
    fail("training.lora.targets", "names gate or up, and this model's MLP has no gate", "name fc1");
}

void check_adapters(const Plan& p, const Reporter& fail) {
  const AdapterSpec& lora = p.training.lora;
  const MoeSpec& moe = p.model.moe;
  if (!lora.here()) return;
  if (lora.targets.empty())
    return fail("training.lora.targets", "names no matrix, so nothing is trained", "leave it out for qkv, proj, fc1 and fc2, or name some");
  if (lora.on_experts() && moe.num_experts == 0)
    fail("training.lora.targets", "names matrices of routed experts, and the model has none", "name qkv, proj, fc1 or fc2");
  check_adapter_parts(p, fail);
  const bool all_routed = moe.num_experts > 0 && moe.shared_ffn() == 0 && moe.first_dense_layers == 0 && moe.layer_frequency == 1;
  const auto of_mlp = [](const std::string& t) { return t.starts_with("fc") || t == "gate" || t == "up"; };
  if (all_routed && std::all_of(lora.targets.begin(), lora.targets.end(), of_mlp))
    fail("training.lora.targets", "names matrices of MLPs alone, and every layer has routed experts in its place",
         "name qkv, proj, experts.fc1 or experts.fc2");
}

void check_stack_name(const Plan& p, Problems& problems) {
  if (is_stack(p.stack.name)) return;
  Problem unknown = unknown_preset("models/stacks", p.stack.name, "stack");
  unknown.file = p.file;
  unknown.field = "stack";
  problems.push_back(std::move(unknown));
}

// ---- products ----

constexpr double kCountable = 4.6e18;  // 2^62: the exact 64-bit books keep a factor of two in reserve

/// Upper bounds in doubles, which do not overflow.
struct Estimates {
  double parameters, world, tokens;
  double scores;       ///< bytes of the attention scores of one micro-batch
  double activations;  ///< bytes of a micro-batch's widest tensors over all layers
  double flops;        ///< of one rank in one step
};

double d(std::int64_t n) { return static_cast<double>(n); }

/// Weights of the layers' MLPs if each had `experts` routed experts.
double mlp_weights(const ModelSpec& m, double experts) {
  const double routed = (experts + d(m.moe.num_shared_experts)) * d(m.moe.ffn_hidden_size);
  return d(m.total_layers()) * 3 * d(m.hidden_size) * (d(m.ffn_hidden_size) + routed + d(m.moe.shared_ffn_hidden_size));
}

/// Experts that compute a token's row on the rank with the most rows, on average: capacities beyond an even share are computed too.
double busy_experts(const MoeSpec& moe) {
  return d(moe.experts_per_token) * std::max({1.0, moe.capacity_factor, moe.capacity_factor > 0 ? 0 : moe.rows_bound});
}

Estimates estimate(const Plan& p) {
  const ModelSpec& m = p.model;
  const TrainingSpec& t = p.training;
  const double sequence = d(std::max(t.seq_length, t.decoder_seq_length)), layers = d(m.total_layers());
  const AttentionHeads full = m.attention_heads(Mixer::full), local = m.attention_heads(Mixer::windowed);
  const double queries = d(std::max(full.queries, local.queries)), keys = d(std::max(full.keys, local.keys));
  const double head = d(std::max({full.head_dim, full.value_dim, local.head_dim, local.value_dim}));
  const double attention = 2 * d(m.hidden_size) * head * (queries + keys);
  const double vocabulary = d(m.vocab_size) + d(m.pad_vocab_to);
  Estimates e{};
  const double others = layers * 2 * attention + (2 * vocabulary + d(m.max_position_embeddings)) * d(m.hidden_size);
  e.parameters = others + mlp_weights(m, d(m.moe.num_experts));
  const double active = others + mlp_weights(m, m.moe.num_experts > 0 ? busy_experts(m.moe) : 0);
  e.world = d(p.parallel.tensor) * d(p.parallel.pipeline) * d(p.parallel.data) * d(p.parallel.context);
  e.tokens = d(t.global_batch_size) * sequence;
  e.scores = 8 * d(t.micro_batch_size) * queries * sequence * sequence;
  const double width = 3 * queries * head + 2 * d(m.ffn_hidden_size) + 4 * d(m.hidden_size);
  e.activations = 8 * d(t.micro_batch_size) * sequence * (layers * width + vocabulary);
  const double pairs = 16 * layers * e.tokens * sequence * queries * head;
  e.flops = (8 * active * e.tokens + pairs) / e.world;
  return e;
}

void check_products(const Plan& p, const Reporter& fail) {
  const Estimates e = estimate(p);
  const ParallelSpec& q = p.parallel;
  const std::string degrees = product_text({q.tensor, q.pipeline, q.data, q.context});
  const std::string limit = " than 64-bit numbers can count (4.6e18)";
  if (e.world > 2147483647.0)
    fail("parallel",
         "tensor x pipeline x data x context = " + degrees + " is more ranks than can be counted (2147483647)",
         "use smaller degrees");
  if (8 * e.parameters > kCountable)
    fail("model", "too large: more bytes of weights" + limit, "use fewer or narrower layers");
  if (e.scores > kCountable)
    fail("training.seq_length", "too large: more bytes of attention scores" + limit,
         "use a shorter sequence or a smaller micro-batch");
  if (e.activations > kCountable)
    fail("training.micro_batch_size", "too large: more bytes of activations" + limit,
         "use a smaller micro-batch or a shorter sequence");
  // Only if the degrees fill the cluster; otherwise another check reports the degrees.
  if (e.flops > kCountable && e.world == d(p.cluster.devices) * d(p.cluster.ranks_per_device))
    fail("training.global_batch_size", "too large: more operations of one rank in one step" + limit,
         "use more ranks or a smaller batch");
}

}  // namespace

void Reporter::operator()(std::string_view field, std::string reason, std::string remedy) const {
  const PlanField* f = find_field(field);
  const std::string value = f == nullptr ? "" : value_text(f->write(plan_));
  // Kinds of layers may have the same problem.
  const auto known = [&](const Problem& p) { return p.field == field && p.reason == reason; };
  if (std::any_of(problems_.begin(), problems_.end(), known)) return;
  problems_.push_back(
      {plan_.file, std::string(field), value == "null" ? "" : value, std::move(reason), std::move(remedy)});
}

void check_values(const Plan& p, Problems& problems) {
  const Reporter fail(p, problems);
  if (p.cluster.preset.empty()) fail("cluster.preset", "is empty", "name a machine, e.g. \"dgx-a100-80gb\"");
  check_decoder(p, fail);
  check_window(p, fail);
  check_layers(p, fail);
  check_indexer(p, fail);
  check_loss_scale(p, fail);
  check_learning_rate(p, fail);
  check_rampup(p, fail);
  check_adapters(p, fail);
  check_stack_name(p, problems);
}

void check_limits(const Plan& p, Problems& problems) { check_products(p, Reporter(p, problems)); }

}  // namespace tandem
