// What does not divide or fit together in a completed plan. Only what no software could run is refused here; the
// limits of one framework are data in models/stacks.

#include <algorithm>
#include <array>
#include <numeric>

#include "models/base/text.hpp"
#include "models/plan/balanced_split.hpp"
#include "models/planfile/plan_flops.hpp"
#include "models/planfile/plan_steps.hpp"
#include "models/planfile/stage_split.hpp"

namespace tandem {
namespace {

std::string s(std::int64_t n) { return std::to_string(n); }

std::string layers_text(std::int64_t n) { return n == 1 ? "is only 1 layer" : "are only " + s(n) + " layers"; }

/// Heads of one kind of layer, and the fields that say how many there are.
struct NamedHeads {
  AttentionHeads of;
  const char* queries = "model.num_attention_heads";
  const char* keys = "model.num_kv_heads";
};

/// The attention heads of each kind of layer whose heads differ. No vector, because a search asks for them of millions of plans.
class KindsOfHeads {
 public:
  explicit KindsOfHeads(const ModelSpec& m) {
    add({m.attention_heads(Mixer::full)});
    if (!m.has_window_heads()) return;
    NamedHeads windowed{m.attention_heads(Mixer::windowed)};
    if (m.window.num_attention_heads > 0) windowed.queries = "model.window.num_attention_heads";
    if (m.window.num_kv_heads > 0) windowed.keys = "model.window.num_kv_heads";
    add(windowed);
  }
  const NamedHeads* begin() const { return kinds_.data(); }
  const NamedHeads* end() const { return kinds_.data() + count_; }

 private:
  void add(const NamedHeads& heads) { kinds_[count_++] = heads; }
  std::array<NamedHeads, 2> kinds_;
  std::size_t count_ = 0;
};

/// Kv heads are shared out, or replicated when there are more tensor ranks than heads.
bool kv_heads_fit(const AttentionHeads& h, std::int64_t tensor) {
  return h.keys == h.queries || h.keys % tensor == 0 || tensor % h.keys == 0;
}

std::string tensor_remedy(const Plan& p) {
  const KindsOfHeads kinds(p.model);
  const auto fits = [&](std::int64_t t) {
    const auto shared = [&](const NamedHeads& h) { return h.of.queries % t == 0 && kv_heads_fit(h.of, t); };
    return std::all_of(kinds.begin(), kinds.end(), shared);
  };
  std::vector<std::int64_t> fitting = divisors(p.model.ffn_hidden_size);
  std::erase_if(fitting, [&](std::int64_t t) { return !fits(t); });
  return use_one_of(std::move(fitting), p.parallel.tensor);
}

std::string multiples_remedy(std::int64_t value, std::int64_t unit) {
  const std::int64_t below = value / unit * unit;
  return below > 0 ? "use " + s(below) + " or " + s(below + unit) : "use " + s(unit);
}

std::string ranks_text(const ClusterSpec& c) {
  const std::string product = c.ranks_per_device == 1 ? "" : product_text({c.devices, c.ranks_per_device}) + " = ";
  const std::int64_t ranks = c.devices * c.ranks_per_device;
  return "gives " + product + s(ranks) + (ranks == 1 ? " rank" : " ranks");
}

void check_world(const Plan& p, const Reporter& fail) {
  const ParallelSpec& q = p.parallel;
  const std::int64_t ranks = p.cluster.devices * p.cluster.ranks_per_device, others = q.tensor * q.pipeline * q.context;
  const std::int64_t world = p.world_size();
  if (world == ranks) return;
  std::string remedy = ranks % others == 0 ? "set parallel.data to " + s(ranks / others) : "";
  if (world % p.cluster.ranks_per_device == 0) {
    remedy += (remedy.empty() ? "set " : ", or ") + ("cluster.devices to " + s(world / p.cluster.ranks_per_device));
  }
  fail("cluster.devices",
       ranks_text(p.cluster) + ", but tensor x pipeline x data x context = " + product_text({q.tensor, q.pipeline, q.data, q.context}) +
           " = " + s(world),
       remedy);
}

/// Devices whose ranks the other degrees divide, next to those that the plan has.
std::string devices_remedy(const ClusterSpec& c, std::int64_t others) {
  return multiples_remedy(c.devices, others / std::gcd(others, c.ranks_per_device));
}

/// As many dimensions of an indexer's heads turn by position as of attention's: `what` names them.
void check_index_heads(const ModelSpec& m, const std::string& what, const Reporter& fail) {
  if (m.indexer.heads > 0 && m.position_embedding == PositionEmbedding::rope && m.indexer.head_dim < m.rotary_dim(m.head_dim))
    fail("model.indexer.head_dim", "is less than " + what + ", which turn by position", "use at least " + s(m.rotary_dim(m.head_dim)));
}

/// Latent attention has keys of its own for every head, of which one part is common and turns.
void check_latent(const ModelSpec& m, const Reporter& fail) {
  const std::int64_t turned = m.latent.rotary_dim;
  if (turned % 2 != 0) fail("model.latent.rotary_dim", "is odd, and dimensions turn in pairs", "use an even number");
  if (m.head_dim > 0 && m.head_dim <= turned)
    fail("model.head_dim", "is the width of a query and a key, and model.latent.rotary_dim " + s(turned) + " of it are common to all heads",
         "use " + s(turned) + " and the width of a head's own part, e.g. " + s(turned + 128));
  if (m.num_kv_heads != m.num_attention_heads)
    fail("model.num_kv_heads", "differs from model.num_attention_heads " + s(m.num_attention_heads) +
             ": latent attention (model.latent.kv_rank) has a key for every query head",
         "use " + s(m.num_attention_heads) + ", or leave it out");
  check_index_heads(m, "model.latent.rotary_dim " + s(turned), fail);
}

void check_heads(const Plan& p, const Reporter& fail) {
  const ModelSpec& m = p.model;
  if (m.head_dim == 0) {
    fail("model.num_attention_heads", "does not divide model.hidden_size " + s(m.hidden_size),
         use_one_of(divisors(m.hidden_size), m.num_attention_heads) + ", or give model.head_dim");
  }
  for (const NamedHeads& h : KindsOfHeads(m))
    if (h.of.queries % h.of.keys != 0)
      fail(h.keys, "does not divide " + std::string(h.queries) + " " + s(h.of.queries), use_one_of(divisors(h.of.queries), h.of.keys));
  if (m.latent.kv_rank > 0) return check_latent(m, fail);
  check_index_heads(m, s(m.rotary_dim(m.head_dim)) + " dimensions of model.head_dim " + s(m.head_dim), fail);
  for (const NamedHeads& h : KindsOfHeads(m))
    if (h.of.tied && h.of.value_dim != h.of.head_dim)
      fail("model.tie_kv", "makes values of keys, and values are " + s(h.of.value_dim) + " wide, keys " + s(h.of.head_dim),
           "use values as wide as keys (model.value_dim), or tie_kv false");
  if (m.position_embedding != PositionEmbedding::rope) return;
  for (const NamedHeads& h : KindsOfHeads(m))
    if (const std::int64_t turned = m.rotary_dim(h.of.head_dim); h.of.head_dim > 0 && (turned < 2 || turned % 2 != 0))
      fail("model.rotary_fraction", "turns " + s(turned) + " of a head's " + s(h.of.head_dim) + " dimensions, which turn in pairs",
           "use a share that gives an even number of dimensions");
  if (const double said = m.rope_scaling.mscale_all_dim; m.latent.kv_rank == 0 && said != 0 && said != 1)
    fail("model.rope_scaling.mscale_all_dim", "is a factor of scores only in latent attention (model.latent.kv_rank)",
         "use 1: queries and keys keep their length, or 0: yarn multiplies them by 1 + 0.1 ln(factor)");
}

void check_tensor(const Plan& p, const Reporter& fail) {
  const ModelSpec& m = p.model;
  const std::int64_t t = p.parallel.tensor;
  const auto share = [&](std::string_view name, std::int64_t n) {
    if (n % t != 0) fail("parallel.tensor", "does not divide " + std::string(name) + " " + s(n), tensor_remedy(p));
  };
  const KindsOfHeads kinds(m);
  for (const NamedHeads& h : kinds) share(h.queries, h.of.queries);
  share("model.ffn_hidden_size", m.ffn_hidden_size);
  if (m.recurrence.heads > 0) share("model.recurrence.key_heads", m.recurrence.key_heads);
  for (const NamedHeads& h : kinds)
    if (!kv_heads_fit(h.of, t))
      fail("parallel.tensor", "neither divides " + std::string(h.keys) + " " + s(h.of.keys) + " nor is a multiple of it", tensor_remedy(p));
  if (p.padded_vocab_size() % t != 0) {
    fail("model.pad_vocab_to",
         "pads the vocabulary to " + s(p.padded_vocab_size()) + ", which " + s(t) + " tensor ranks cannot share",
         "use " + s(std::lcm(m.pad_vocab_to, t)) + " or another multiple of " + s(t));
  }
}

/// Ranks that exchange heads for positions each get as many heads. Key heads are shared out, or copied where they are fewer.
void check_ulysses(const AttentionHeads& h, const ParallelSpec& q, const Reporter& fail) {
  const std::int64_t heads = h.queries / q.tensor, kv = std::max<std::int64_t>(1, h.keys / q.tensor), ranks = head_ranks(q);
  const bool all = q.context_mode == ContextMode::ulysses;
  const char* field = all ? "parallel.context" : "parallel.ulysses";
  const auto remedy = [&](std::vector<std::int64_t> fitting) {
    if (all) return use_one_of(std::move(fitting), ranks) + ", or context_mode ring";
    std::erase_if(fitting, [&](std::int64_t n) { return q.context % n != 0; });
    return use_one_of(std::move(fitting), ranks);
  };
  if (heads == 0 || heads % ranks != 0) {
    fail(field, "ulysses shares heads, and " + s(heads) + " heads of a tensor rank do not divide by it",
         heads == 0 ? "use ring" : remedy(divisors(heads)));
  } else if (kv % ranks != 0 && ranks % kv != 0) {
    std::vector<std::int64_t> fitting = divisors(heads);
    std::erase_if(fitting, [&](std::int64_t n) { return kv % n != 0 && n % kv != 0; });
    fail(field, "ulysses shares heads, and " + s(kv) + " key and value heads of a tensor rank neither divide by it nor it by them",
         remedy(std::move(fitting)));
  }
}

/// Context ranks that exchange heads are neighbours; groups of them go on as context_mode says.
void check_context_heads(const Plan& p, const Reporter& fail) {
  const ParallelSpec& q = p.parallel;
  if (q.context_mode != ContextMode::ulysses && q.context % q.ulysses != 0)
    return fail("parallel.ulysses", "does not divide parallel.context " + s(q.context), use_one_of(divisors(q.context), q.ulysses));
  if (head_ranks(q) == 1) return;
  for (const NamedHeads& h : KindsOfHeads(p.model)) check_ulysses(h.of, q, fail);
}

/// Context ranks share the heads of a recurrence, in any context_mode: each needs whole sequences.
void check_shared_scan(const RecurrenceSpec& r, const ParallelSpec& q, const Reporter& fail) {
  const std::int64_t heads = r.heads / q.tensor, keys = r.key_heads / q.tensor;
  if (r.heads == 0 || q.context == 1 || r.key_heads % q.tensor != 0) return;
  if (heads % q.context == 0 && (keys % q.context == 0 || q.context % keys == 0)) return;
  std::vector<std::int64_t> fitting = divisors(heads);
  std::erase_if(fitting, [&](std::int64_t c) { return keys % c != 0 && c % keys != 0; });
  const bool heads_fit = heads % q.context == 0;
  fail("parallel.context",
       "context ranks share the heads of a recurrence, and " +
           (heads_fit ? s(keys) + " key heads of a tensor rank (model.recurrence.key_heads) neither divide by it nor it by them"
                      : s(heads) + " heads of a tensor rank (model.recurrence.heads) do not divide by it"),
       use_one_of(std::move(fitting), q.context));
}

void check_sequence(const Plan& p, const Reporter& fail) {
  const ParallelSpec& q = p.parallel;
  const std::int64_t length = p.training.seq_length, decoder = p.training.decoder_seq_length;
  const auto fits_table = [&](std::string_view field, std::int64_t positions) {
    if (p.model.position_embedding != PositionEmbedding::learned || positions <= p.model.max_position_embeddings) return;
    fail(field, "is longer than the position table: model.max_position_embeddings is " + s(p.model.max_position_embeddings),
         "use at most " + s(p.model.max_position_embeddings) + ", or enlarge the table");
  };
  fits_table("training.seq_length", length);
  fits_table("training.decoder_seq_length", decoder);
  if (length % q.context != 0) {
    fail("parallel.context", "does not divide training.seq_length " + s(length),
         use_one_of(divisors(length), q.context));
  } else if (q.context > 1 && length % (2 * q.context) != 0) {
    fail("parallel.context",
         "gives every rank two pieces of the sequence, so that causal attention is as much work on all of them, and "
         "training.seq_length " + s(length) + " is not a multiple of " + s(2 * q.context),
         multiples_remedy(length, 2 * q.context) + " as seq_length");
  }
  if (q.sequence_parallel && q.tensor == 1) {
    fail("parallel.sequence_parallel",
         "shares the sequence among tensor ranks, and parallel.tensor is 1 (Megatron-LM silently switches it off)",
         "set it to false, or parallel.tensor to 2 or more");
  } else if (q.sequence_parallel && length % (q.context * q.tensor) != 0) {
    fail("parallel.sequence_parallel",
         "training.seq_length " + s(length) + " is not a multiple of tensor x context = " +
             product_text({q.tensor, q.context}) + " = " + s(q.tensor * q.context),
         multiples_remedy(length, q.tensor * q.context) + " as seq_length");
  }
  if (q.sequence_parallel && decoder % q.tensor != 0) {
    fail("parallel.sequence_parallel",
         "training.decoder_seq_length " + s(decoder) + " is not a multiple of tensor " + s(q.tensor),
         multiples_remedy(decoder, q.tensor) + " as decoder_seq_length");
  }
  check_shared_scan(p.model.recurrence, q, fail);
  check_context_heads(p, fail);
}

void check_loss_chunks(const Plan& p, const Reporter& fail) {
  const TrainingSpec& t = p.training;
  const std::int64_t length = t.decoder_seq_length > 0 ? t.decoder_seq_length : t.seq_length, chunks = t.loss_chunks;
  const std::int64_t tokens = t.micro_batch_size * (length / p.parallel.context);
  if (tokens % chunks != 0)
    fail("training.loss_chunks", "does not divide the " + s(tokens) + " tokens of a micro-batch on a rank", use_one_of(divisors(tokens), chunks));
}

void check_split(const Plan& p, const Reporter& fail) {
  const std::vector<std::int64_t>& split = p.parallel.pipeline_split;
  const std::int64_t stages = p.parallel.pipeline * p.parallel.virtual_pipeline, layers = p.model.total_layers();
  if (split.empty()) return;
  if (asks_balance(p.parallel) && !has_forward_flops(p.model.family))
    return fail("parallel.pipeline_split", "a balanced split needs the FLOPs of each layer, which are not known of this model.family",
                "use \"auto\", or a list of layers");
  if (asks_balance(p.parallel) && recomputes_by_place(p))
    return fail("parallel.pipeline_split", "a balanced split needs layers that cost the same on any stage, and training.recompute_layers " +
                s(p.training.recompute_layers) + " repeats the first ones of each",
                "use \"auto\", or a list of layers");
  if (asks_balance(p.parallel))
    return fail("parallel.pipeline_split", "stack " + p.stack.name + " has no option for the layers of stages at " + text_of(p.stack.as_of),
                "use \"auto\"");
  const auto entries = static_cast<std::int64_t>(split.size());
  const std::int64_t sum = std::accumulate(split.begin(), split.end(), std::int64_t{0});
  if (entries != stages) {
    fail("parallel.pipeline_split",
         "has " + s(entries) + " entries for pipeline x virtual_pipeline = " +
             product_text({p.parallel.pipeline, p.parallel.virtual_pipeline}) + " = " + s(stages) + " chunks",
         "give " + s(stages) + " entries, or \"auto\"");
  } else if (sum != layers) {
    fail("parallel.pipeline_split", "sums to " + s(sum) + ", but the model has " + s(layers) + " layers",
         "make it sum to " + s(layers) + ", or use \"auto\"");
  } else if (entries > 2 && std::find(split.begin() + 1, split.end() - 1, 0) != split.end() - 1) {
    fail("parallel.pipeline_split", "gives a chunk between the first and the last no layer",
         "use 0 only for the first chunk, which has the embedding, and for the last, which has the head");
  }
}

void check_mtp(const Plan& p, const Reporter& fail) {
  const std::int64_t modules = p.model.mtp.num_layers, length = p.training.seq_length;
  if (modules > 0 && modules >= length)
    fail("model.mtp.num_layers", "the last module has no target in a sequence of training.seq_length " + s(length),
         "use at most " + s(length - 1));
}

void check_chunks(const Plan& p, const Reporter& fail) {
  const ParallelSpec& q = p.parallel;
  const std::int64_t layers = p.model.total_layers();
  const bool said = !q.pipeline_split.empty();  // ends may have no layer
  if (!has_chunks(q.schedule) && q.virtual_pipeline > 1) {
    fail("parallel.virtual_pipeline", "only the interleaved, breadth-first, dualpipe-v, zb-v, v-half and v-min schedules run several chunks a stage",
         "use 1, or schedule interleaved");
  }
  if (folds(q.schedule) && q.virtual_pipeline != 2)
    fail("parallel.virtual_pipeline", std::string(name(q.schedule)) + " has two chunks a stage, one on the way there and one back", "use 2");
  if (q.virtual_pipeline == 0) {
    fail("parallel.schedule",
         std::string(name(q.schedule)) + " without virtual_pipeline means layers / pipeline chunks, and " + s(layers) +
             " layers do not divide by " + s(q.pipeline),
         "give parallel.virtual_pipeline, at most " + s(std::max<std::int64_t>(1, layers / q.pipeline)));
  } else if (q.pipeline > layers && !said) {
    fail("parallel.pipeline", "there " + layers_text(layers), "use at most " + s(layers));
  } else if (q.pipeline * q.virtual_pipeline > layers && !said && q.pipeline * q.virtual_pipeline != layers + 2) {
    // layers + 2 chunks: the first holds the embedding alone and the last the head alone, as the zero-bubble paper ran.
    fail("parallel.virtual_pipeline",
         "pipeline x virtual_pipeline = " + product_text({q.pipeline, q.virtual_pipeline}) +
             " chunks are more than the " + s(layers) + " layers",
         folds(q.schedule) ? "use at most " + s(layers / 2) + " stages" : "use at most " + s(layers / q.pipeline));
  }
}

/// Micro-batches of the smallest global batch, which is the first one of a ramp-up.
std::int64_t least_micro_batches(const Plan& p) {
  const std::int64_t start = p.training.batch_rampup.start;
  return start == 0 ? p.micro_batches() : std::min(p.micro_batches(), start / (p.training.micro_batch_size * p.parallel.data));
}

void check_interleaved(const Plan& p, const Reporter& fail) {
  const ParallelSpec& q = p.parallel;
  const std::int64_t least = least_micro_batches(p);
  const std::string batch = p.training.batch_rampup.start == 0 ? "global_batch_size" : "batch_rampup.start";
  if (has_chunks(q.schedule) && q.pipeline == 1)
    fail("parallel.schedule", std::string(name(q.schedule)) + " needs at least two stages, and parallel.pipeline is 1", "use 1f1b");
  if (q.schedule == ScheduleKind::dualpipe_v && least < 2 * q.pipeline) {
    const std::int64_t enough = 2 * q.pipeline * p.training.micro_batch_size * q.data;
    fail("parallel.schedule",
         std::string(name(q.schedule)) + " needs two micro-batches for each of parallel.pipeline " + s(q.pipeline) + " stages, and there are " +
             s(least),
         "use a " + batch + " of at least " + s(enough) + ", or schedule 1f1b");
  }
  if (q.schedule != ScheduleKind::interleaved || q.pipeline == 1) return;
  if (q.virtual_pipeline == 1) fail("parallel.virtual_pipeline", "interleaved with one chunk a stage is 1F1B", "use at least 2, or schedule 1f1b");
  if (least < q.pipeline) {
    const std::int64_t enough = q.pipeline * p.training.micro_batch_size * q.data;
    fail("parallel.schedule",
         "interleaved passes micro-batches in groups of parallel.pipeline " + s(q.pipeline) + ", and there are " +
             s(least),
         "use a " + batch + " of at least " + s(enough) + ", or schedule 1f1b");
  }
}

void check_experts(const Plan& p, const Reporter& fail) {
  const MoeSpec& e = p.model.moe;
  const ParallelSpec& q = p.parallel;
  const std::int64_t ranks = q.data * q.context * q.tensor;
  if (e.num_experts == 0) {
    if (q.expert > 1)
      fail("parallel.expert", "a model without experts has nothing to share", "use 1, or give model.moe.num_experts");
    return;
  }
  if (e.experts_per_token > e.num_experts) {
    fail("model.moe.experts_per_token", "is more than model.moe.num_experts " + s(e.num_experts),
         "use at most " + s(e.num_experts));
  }
  const std::int64_t both = std::gcd(e.num_experts, ranks);
  if (e.num_experts % q.expert != 0) {
    fail("parallel.expert", "does not divide model.moe.num_experts " + s(e.num_experts),
         use_one_of(divisors(both), q.expert));
  }
  if (ranks % q.expert != 0) {
    fail("parallel.expert",
         "does not divide data x context x tensor = " + product_text({q.data, q.context, q.tensor}) + " = " + s(ranks),
         use_one_of(divisors(both), q.expert));
  } else if (ranks % (q.expert * q.expert_tensor) != 0) {
    fail("parallel.expert_tensor",
         "does not divide data x context x tensor / expert = " + product_text({q.data, q.context, q.tensor}) + " / " + s(q.expert) +
             " = " + s(ranks / q.expert),
         use_one_of(divisors(std::gcd(e.ffn_hidden_size, ranks / q.expert)), q.expert_tensor));
  }
  if (e.ffn_hidden_size % q.expert_tensor != 0) {
    fail(q.expert_tensor == q.tensor ? "parallel.tensor" : "parallel.expert_tensor",
         "does not divide model.moe.ffn_hidden_size " + s(e.ffn_hidden_size),
         use_one_of(divisors(e.ffn_hidden_size), q.expert_tensor));
  }
  if (e.shared_ffn_hidden_size > 0 && e.num_shared_experts > 0) {
    if (e.shared_ffn_hidden_size % q.tensor != 0)
      fail("parallel.tensor", "does not divide model.moe.shared_ffn_hidden_size " + s(e.shared_ffn_hidden_size),
           use_one_of(divisors(e.shared_ffn_hidden_size), q.tensor));
  } else if (e.num_shared_experts > 0 && q.expert_tensor != q.tensor && e.ffn_hidden_size % q.tensor != 0) {
    fail("parallel.tensor", "does not divide model.moe.ffn_hidden_size " + s(e.ffn_hidden_size) + ", of which shared experts are",
         use_one_of(divisors(e.ffn_hidden_size), q.tensor));
  }
}

void check_routing(const Plan& p, const Reporter& fail) {
  const MoeSpec& e = p.model.moe;
  if (e.num_experts == 0) return;
  if (e.num_experts % e.expert_groups != 0) {
    fail("model.moe.expert_groups", "does not divide model.moe.num_experts " + s(e.num_experts),
         use_one_of(divisors(e.num_experts), e.expert_groups));
    return;
  }
  const std::int64_t size = e.num_experts / e.expert_groups, least = (e.experts_per_token + size - 1) / size;
  if (e.groups_per_token > e.expert_groups)
    fail("model.moe.groups_per_token", "is more than model.moe.expert_groups " + s(e.expert_groups),
         "use at most " + s(e.expert_groups) + ", or 0 for all");
  else if (e.groups_per_token > 0 && e.groups_per_token < least && least <= e.expert_groups)
    fail("model.moe.groups_per_token",
         "these groups have " + s(e.groups_per_token * size) + " experts, fewer than model.moe.experts_per_token " + s(e.experts_per_token),
         "use at least " + s(least) + ", or 0 for all");
  if (e.group_score == GroupScore::top2 && e.groups_per_token > 0 && e.groups_per_token < e.expert_groups && size < 2)
    fail("model.moe.group_score", "sums the two best experts of a group, and groups have one (model.moe.expert_groups)",
         "use max, or at most " + s(e.num_experts / 2) + " groups");
}

void check_zero(const Plan& p, const Reporter& fail) {
  const ParallelSpec& q = p.parallel;
  if (q.zero_group > 0 && q.data % q.zero_group != 0) {
    fail("parallel.zero_group", "does not divide parallel.data " + s(q.data),
         use_one_of(divisors(q.data), q.zero_group));
  }
}

void check_recompute(const Plan& p, const Reporter& fail) {
  const std::int64_t most = p.model.total_layers();
  if (p.training.recompute_layers > most) {
    fail("training.recompute_layers", "there " + layers_text(most), "use at most " + s(most) + ", or 0 for all");
  }
}

/// The batch of every ramp step must divide, which it does when the first and the increment do.
void check_rampup(const Plan& p, std::int64_t unit, const Reporter& fail) {
  const BatchRampup& r = p.training.batch_rampup;
  const std::int64_t global = p.training.global_batch_size;
  if (r.start == 0) return;
  const std::string of_unit =
      "is not a multiple of micro_batch_size x data = " + product_text({p.training.micro_batch_size, p.parallel.data}) +
      " = " + s(unit);
  if (r.start > global) {
    fail("training.batch_rampup.start", "is above training.global_batch_size " + s(global), "use at most " + s(global));
  } else if ((global - r.start) % r.increment != 0) {
    std::vector<std::int64_t> fitting = divisors(global - r.start);
    std::erase_if(fitting, [&](std::int64_t i) { return i % unit != 0; });
    fail("training.batch_rampup.increment", "does not lead from " + s(r.start) + " to global_batch_size " + s(global),
         use_one_of(std::move(fitting), r.increment));
  }
  if (r.start % unit != 0) fail("training.batch_rampup.start", of_unit, multiples_remedy(r.start, unit));
  if (r.start < global && r.increment % unit != 0) {
    fail("training.batch_rampup.increment", of_unit + ", so not every ramp step divides",
         multiples_remedy(r.increment, unit));
  }
}

}  // namespace

void check_derived_ranks(const Plan& p, const Given& given, Problems& problems) {
  const Reporter fail(p, problems);
  const ParallelSpec& q = p.parallel;
  const ClusterSpec& c = p.cluster;
  const std::int64_t others = q.tensor * q.pipeline * q.context, ranks = p.world_size();
  if (ranks == c.devices * c.ranks_per_device) return;
  if (!given.contains("parallel.data"))
    fail("cluster.devices",
         ranks_text(c) + ", which tensor x pipeline x context = " + product_text({q.tensor, q.pipeline, q.context}) + " = " + s(others) +
             " does not divide, so that parallel.data, left out, cannot follow",
         devices_remedy(c, others) + ", or degrees whose product divides " + s(c.devices * c.ranks_per_device));
  else if (!given.contains("cluster.devices"))
    fail("parallel.data",
         "gives tensor x pipeline x data x context = " + product_text({q.tensor, q.pipeline, q.data, q.context}) + " = " + s(ranks) +
             " ranks, from which cluster.devices, left out, cannot follow: there are " + s(c.ranks_per_device) +
             " ranks on a device (cluster.override.ranks_per_device), and at most " + s(kMaxDevices) + " devices",
         "use a multiple of the ranks on a device, or give cluster.devices");
}

void check_layout(const Plan& p, Problems& problems) {
  const Reporter fail(p, problems);
  check_world(p, fail);
  check_heads(p, fail);
  check_tensor(p, fail);
  check_sequence(p, fail);
  check_loss_chunks(p, fail);
  check_split(p, fail);
  check_mtp(p, fail);
  check_chunks(p, fail);
  check_interleaved(p, fail);
  check_experts(p, fail);
  check_routing(p, fail);
  check_zero(p, fail);
  check_recompute(p, fail);
}

void check_batch(const Plan& p, Problems& problems) {
  const Reporter fail(p, problems);
  const std::int64_t unit = p.training.micro_batch_size * p.parallel.data, global = p.training.global_batch_size;
  if (global % unit != 0) {
    fail("training.global_batch_size",
         "is not a multiple of micro_batch_size x data = " +
             product_text({p.training.micro_batch_size, p.parallel.data}) + " = " + s(unit),
         multiples_remedy(global, unit));
  }
  check_rampup(p, unit, fail);
}

}  // namespace tandem
