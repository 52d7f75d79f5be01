#include "models/lowering/shapes/regions.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/lowering/shapes/adapter_places.hpp"
#include "models/lowering/shapes/kept_norms.hpp"

namespace tandem::lowering {
namespace {

using Init = Param::Init;
using Specs = std::vector<ParamSpec>;

void add_norm(Specs& list, const Shapes& s, const std::string& name) {
  list.push_back({name + ".weight", s.hidden, 1, Cut::none, Init::ones, true});
  if (s.norm_bias) list.push_back({name + ".bias", s.hidden, 1, Cut::none, Init::zeros, true});
}

/// Marks the last `rows` of `p`, which are of keys, as held by several tensor ranks.
void share_keys(ParamSpec& p, const Shapes& s, std::int64_t rows) {
  if (s.kv_repeat == 1 || rows == 0) return;
  p.kv_copies = rows;
  p.kv_ranks = s.kv_repeat;
}

/// Per head: one weight vector for all query heads, one for all key heads. Per row: a weight for each column, cut as the heads are.
void add_qk_norms(Specs& list, const Shapes& s) {
  const bool row = s.qk_norm == QkNorm::row;
  if (!row && s.qk_norm != QkNorm::head) return;
  const Cut cut = row ? Cut::rows : Cut::none;
  list.push_back({"q_norm.weight", row ? s.queries() : s.head_dim, 1, cut, Init::ones, !row});
  list.push_back({"k_norm.weight", row ? s.kv_heads * s.head_dim : s.head_dim, 1, cut, Init::ones, !row});
  for (ParamSpec& p : list) p.of_heads = !row;
  if (row) share_keys(list.back(), s, list.back().rows);
}

/// A matrix whose rows, and whose bias, are cut.
void add_column(Specs& list, const Shapes& s, const std::string& name, std::int64_t rows, bool bias) {
  list.push_back({name + ".weight", rows, s.hidden, Cut::rows});
  if (bias) list.push_back({name + ".bias", rows, 1, Cut::rows, Init::zeros});
}

/// A matrix whose columns are cut; its bias is added once, after the sum.
void add_row(Specs& list, const Shapes& s, const std::string& name, std::int64_t cols) {
  list.push_back({name + ".weight", s.hidden, cols, Cut::cols, Init::normal_scaled});
  if (s.linear_bias) list.push_back({name + ".bias", s.hidden, 1, Cut::none, Init::zeros, true});
}

/// A matrix that every rank has whole.
void add_whole(Specs& list, const std::string& name, std::int64_t rows, std::int64_t cols, bool partial) {
  list.push_back({name + ".weight", rows, cols, Cut::none, Init::normal, partial});
  list.push_back({name + ".bias", rows, 1, Cut::none, Init::zeros, partial});
}

/// Parameters of latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). All tensor ranks hold the down-projections whole.
void add_latent(Specs& list, const Shapes& s) {
  const auto compressed = [&](const std::string& name, std::int64_t rank, std::int64_t rest) {
    list.push_back({name + "_down.weight", rank + rest, s.hidden, Cut::none, Init::normal, true});
    list.push_back({name + "_latent_norm.weight", rank, 1, Cut::none, Init::ones, true});
  };
  const std::int64_t queries = s.latent.query_rank;
  if (queries > 0) compressed("q", queries, 0);
  list.push_back({"q_up.weight", s.queries(), queries > 0 ? queries : s.hidden, Cut::rows});
  compressed("kv", s.latent.kv_rank, s.rotary_dim);
  list.push_back({"kv_up.weight", s.latent_kv(), s.latent.kv_rank, Cut::rows});
}

/// Parameters of a block-level indexer. Tensor ranks have their own heads, so the gradients of shared parameters are partial sums.
void add_block_indexer(Specs& list, const Shapes& s) {
  const IndexerShape& i = s.indexer;
  list.push_back({"index_q.weight", i.heads * i.head_dim, s.hidden, Cut::rows});
  const auto shared = [&](const char* name, std::int64_t cols, Init init) {
    list.push_back({name, i.head_dim, cols, Cut::none, init, true});
    list.back().of_heads = true;
  };
  shared("index_k.weight", s.hidden, Init::normal);
  if (!s.norms_qk()) return;
  shared("index_q_norm.weight", 1, Init::ones);
  shared("index_k_norm.weight", 1, Init::ones);
}

/// Parameters of a token-level indexer. All tensor ranks hold all of it, read all tokens and compute the same gradients.
void add_indexer(Specs& list, const Shapes& s) {
  const IndexerShape& i = s.indexer;
  if (i.blocks()) return add_block_indexer(list, s);
  list.push_back({"index_q.weight", i.heads * i.head_dim, s.latent.query_rank});
  list.push_back({"index_k.weight", i.head_dim, s.hidden});
  list.push_back({"index_k_norm.weight", i.head_dim, 1, Cut::none, Init::ones});
  list.push_back({"index_k_norm.bias", i.head_dim, 1, Cut::none, Init::zeros});
  list.push_back({"index_w.weight", i.heads, s.hidden});
}

/// Parameters of a recurrence, cut over tensor ranks as its heads are. A norm of each head has one weight vector for all heads.
void add_recurrence(Specs& list, const Shapes& s) {
  const RecurrenceDims d = s.recurrence_dims();
  const bool mamba = d.rule == RecurrenceRule::mamba2;
  add_column(list, s, "recurrence_in", d.width(), false);
  list.back().blocks = s.input_blocks();
  list.push_back({"recurrence_conv.weight", d.mixed(), s.recurrence.taps, Cut::rows});
  if (s.recurrence.conv_bias) list.push_back({"recurrence_conv.bias", d.mixed(), 1, Cut::rows, Init::zeros});
  list.push_back({"recurrence_decay", d.heads, 1, Cut::rows, mamba ? Init::log_index : Init::log_uniform});
  list.push_back({"recurrence_step", d.heads, 1, Cut::rows, mamba ? Init::log_step : Init::ones});
  if (mamba) list.push_back({"recurrence_skip", d.heads, 1, Cut::rows, Init::ones});
  list.push_back({"recurrence_norm.weight", mamba ? d.values() : d.value_dim, 1, mamba ? Cut::rows : Cut::none, Init::ones, !mamba});
  list.back().of_heads = !mamba;
}

void add_attention(Specs& list, const Shapes& s) {
  if (s.latent.here()) add_latent(list, s);
  else add_column(list, s, "qkv", s.input_columns(), s.qkv_bias);
  if (s.indexer.here()) add_indexer(list, s);
  for (ParamSpec& p : list)
    if (p.name.starts_with("qkv")) share_keys(p, s, s.pair_made()), p.blocks = s.input_blocks();
  if (s.sinks) list.push_back({"sinks", s.heads, 1, Cut::rows});
}

void add_experts_of(Specs& list, const Shapes& s) {
  const std::int64_t n = s.experts_here;
  list.push_back({"experts.fc1.weight", n * s.expert_fc1, s.hidden, Cut::rows, Init::normal, false, s.expert_fc1});
  if (s.linear_bias)
    list.push_back({"experts.fc1.bias", n * s.expert_fc1, 1, Cut::rows, Init::zeros, false, s.expert_fc1});
  list.push_back({"experts.fc2.weight", n * s.hidden, s.expert_ffn, Cut::cols, Init::normal_scaled, false, s.hidden});
  if (s.linear_bias) list.push_back({"experts.fc2.bias", n * s.hidden, 1, Cut::none, Init::zeros, false, s.hidden});
}

void add_mlp(Specs& list, const Shapes& s) {
  add_column(list, s, "fc1", s.fc1, s.linear_bias);
  add_row(list, s, "fc2", s.ffn);
}

/// Rows of cross_kv are ordered (group, {k, v}, dim), so a shard is a contiguous block of them.
void add_cross(Specs& list, const Shapes& s) {
  add_norm(list, s, "cross_norm");
  add_column(list, s, "cross_q", s.attention, s.qkv_bias);
  add_column(list, s, "cross_kv", s.cross_dims().kv_width(), s.qkv_bias);
  add_row(list, s, "cross_proj", s.attention);
}

/// One row for each word, cut over the tensor ranks.
ParamSpec of_words(const Shapes& s, std::string name, std::int64_t cols, Init init) {
  ParamSpec words{std::move(name), s.vocab_rows, cols, Cut::rows, init};
  words.vocabulary = true;
  return words;
}

ParamSpec positions_of(const Shapes& s) {
  return {"position.weight", s.max_positions, s.hidden, Cut::none, Init::normal, true};
}

/// Norms of a layer with experts beside an MLP: of the experts' input, of both outputs, and of the router's input.
void add_branch_norms(Specs& list, const Shapes& s) {
  if (s.branch_norms)
    for (const char* name : {"experts_ln", "shared_out", "experts_out"}) add_norm(list, s, name);
  if (s.router_norm) add_norm(list, s, "router_norm");
}

void add_router(Specs& list, const Shapes& s) {
  list.push_back({"router.weight", s.experts, s.hidden, Cut::none, Init::normal, true});
  if (s.router_bias) list.push_back({"router.bias", s.experts, 1, Cut::none, Init::zeros, true});
  if (s.routing.bias) {
    list.push_back({"router.balance", s.experts, 1, Cut::none, Init::zeros, true});
    list.back().sign_step = s.balance_rate;
  }
  if (s.routing.expert_scale) list.push_back({"expert_scale", s.experts, 1, Cut::none, Init::ones, true});
  if (s.shared_ffn == 0) return;
  add_column(list, s, "shared.fc1", s.shared_fc1, s.linear_bias);
  add_row(list, s, "shared.fc2", s.shared_ffn);
  if (!s.shared_gate) return;
  list.push_back({"shared.gate.weight", 1, s.hidden, Cut::none, Init::normal, true});
  list.back().of_heads = true;  // tensor ranks hold partial sums of the output that it scales
}

/// The adapters of a matrix whose rows are cut. Every rank has A whole, and its own rows of B.
void add_column_adapters(Specs& list, const Shapes& s, const std::string& matrix, std::int64_t rows) {
  for (const AdapterPlace& at : adapters_of(s, matrix, rows)) {
    list.push_back({at.name + std::string(kAdapterA), s.adapters.rank, s.hidden, Cut::none, Init::normal, true});
    list.back().of_heads = true;  // each rank has the gradient of its own rows of B
    list.push_back({at.name + std::string(kAdapterB), at.out, s.adapters.rank, Cut::rows, Init::zeros});
    list.back().blocks = s.blocks_of(at.name);
    share_keys(list.back(), s, at.kv_rows);
  }
}

/// The adapter of a matrix whose columns are cut. Every rank has its own columns of A, and B whole.
void add_row_adapter(Specs& list, const Shapes& s, const std::string& name, std::int64_t cols) {
  list.push_back({name + std::string(kAdapterA), s.adapters.rank, cols, Cut::cols});
  list.push_back({name + std::string(kAdapterB), s.hidden, s.adapters.rank, Cut::none, Init::zeros, true});
  list.back().of_heads = true;  // B reads a partial sum
}

/// Whether fewer ranks have the same experts than have the same block.
bool experts_apart(const Shapes& s) { return s.experts_here < s.experts || s.expert_tensor != s.tensor; }

/// Whether `name` is a norm that runs again: of the input of a sublayer, of experts or of the router.
bool is_input_norm_again(const Shapes& s, const std::string& name) {
  if (s.placement != NormPlacement::pre) return false;
  if (name.starts_with("ln1.")) return !keeps_first_norm(s);
  const bool second = name.starts_with("ln2.") || name.starts_with("experts_ln.") || name.starts_with("router_norm.");
  return second && !keeps_second_norm(s);
}

/// The matrix of a linear layer (models/plan/adapters.hpp, FrozenWeights). Queries, keys and values are one matrix here, and
/// bitsandbytes quantizes each by itself. Rows are whole blocks, so codes and scales are the same; blocks of 256 scales are not.
bool is_quantized(const ParamSpec& p) {
  return p.name == "qkv.weight" || p.name == "proj.weight" || p.name == "fc1.weight" || p.name == "fc2.weight";
}

}  // namespace

RegionLayout::RegionLayout(std::string prefix, std::vector<ParamSpec> specs, Replication replication, std::int64_t alignment)
    : prefix_(std::move(prefix)), specs_(std::move(specs)), replication_(replication) {
  const auto place = [&](const auto& is) {
    for (ParamSpec& p : specs_) {
      if (!is(p)) continue;
      p.offset = elements_;
      elements_ += (p.elements() + alignment - 1) / alignment * alignment;
    }
    return elements_;
  };
  of_heads_ = place([](const ParamSpec& p) { return p.of_heads; });
  partial_ = place([](const ParamSpec& p) { return p.partial && !p.of_heads; });
  place([](const ParamSpec& p) { return !p.partial; });
}

bool RegionLayout::has(std::string_view name) const {
  return std::any_of(specs_.begin(), specs_.end(), [&](const ParamSpec& p) { return p.name == name; });
}

const ParamSpec& RegionLayout::at(std::string_view name) const {
  const auto p = std::find_if(specs_.begin(), specs_.end(), [&](const ParamSpec& q) { return q.name == name; });
  require(p != specs_.end(), "a part of the model has no parameter of this name");
  return *p;
}

RegionLayout block_region(const Shapes& s, const std::string& prefix) {
  RegionLayout whole = whole_block_region(s, prefix);
  if (!s.adapters.quantizes) return whole;
  Specs list = whole.specs();
  std::erase_if(list, is_quantized);
  return {prefix, std::move(list)};
}

RegionLayout quantized_region(const Shapes& s, const std::string& prefix) {
  if (!s.adapters.quantizes) return {prefix, {}};
  Specs list = whole_block_region(s, prefix).specs();
  std::erase_if(list, [](const ParamSpec& p) { return !is_quantized(p); });
  return {prefix, std::move(list), Replication::data, stored_block(s.adapters.base).elements};
}

RegionLayout whole_block_region(const Shapes& s, const std::string& prefix) {
  Specs list;
  if (s.kind.has_attention()) add_qk_norms(list, s);
  if (s.kind.mixes()) {
    if (!s.bare_inputs) add_norm(list, s, "ln1");
    s.kind.has_recurrence() ? add_recurrence(list, s) : add_attention(list, s);
    add_row(list, s, "proj", s.attention);
  }
  if (s.is_decoder()) add_cross(list, s);
  if (s.sandwich) add_norm(list, s, "ln1_out");
  if (s.kind.feeds() && s.parallel != ParallelResidual::one_norm && !s.bare_inputs) add_norm(list, s, "ln2");
  if (s.has_experts()) add_branch_norms(list, s);
  if (s.sandwich) add_norm(list, s, "ln2_out");
  if (s.kind.feeds()) s.has_experts() ? add_router(list, s) : add_mlp(list, s);
  return {prefix, std::move(list)};
}

RegionLayout adapter_region(const Shapes& s, const std::string& prefix) {
  Specs list;
  if (s.kind.has_attention()) add_column_adapters(list, s, "qkv", s.input_columns());
  if (s.kind.mixes() && s.adapters.has("proj")) add_row_adapter(list, s, "proj", s.attention);
  if (!s.kind.feeds()) return {prefix, std::move(list)};
  const bool shared = s.has_experts();
  if (shared && s.shared_ffn == 0) return {prefix, std::move(list)};
  const std::string mlp = shared ? "shared." : "";
  add_column_adapters(list, s, mlp + "fc1", shared ? s.shared_fc1 : s.fc1);
  if (s.adapters.has("fc2")) add_row_adapter(list, s, mlp + "fc2", shared ? s.shared_ffn : s.ffn);
  return {prefix, std::move(list)};
}

RegionLayout expert_adapter_region(const Shapes& s, const std::string& prefix) {
  Specs list;
  const std::int64_t n = s.experts_here, rank = s.adapters.rank;
  const auto add = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    list.push_back({name + std::string(kAdapterA), n * rank, in, Cut::none, Init::normal, false, rank});
    list.push_back({name + std::string(kAdapterB), n * out, rank, Cut::none, Init::zeros, false, out});
  };
  for (const AdapterPlace& at : adapters_of(s, "experts.fc1", s.expert_fc1)) add(at.name, s.hidden, at.out);
  if (s.adapters.has("experts.fc2")) add("experts.fc2", s.expert_ffn, s.hidden);
  return {prefix, std::move(list), experts_apart(s) ? Replication::expert : Replication::data};
}

RegionLayout early_region(const RegionLayout& block) {
  Specs list;
  for (const ParamSpec& p : block.specs())
    if ((p.partial && !p.name.starts_with("router.") && !p.name.ends_with("_down.weight") && p.name != "index_k.weight") ||
        p.name == "sinks" || p.name == "q_norm.weight" || p.name == "k_norm.weight" || p.name.starts_with("index_k_norm.") ||
        (p.name.starts_with("recurrence_") && p.name != "recurrence_in.weight"))
      list.push_back(p);
  return {block.prefix(), std::move(list)};
}

RegionLayout again_region(const Shapes& s, const RegionLayout& block) {
  const bool latent = !keeps_latent_norms(s);
  const bool biases = s.fusion.bias_activation && !s.gated;
  const auto bias = [&](std::string_view name) {
    return biases && ((name == "fc1.bias" && !s.keep.activated) || (name == "experts.fc1.bias" && !s.keep.expert_activated) ||
                      (name == "shared.fc1.bias" && !s.keep.shared_activated));
  };
  Specs list;
  for (const ParamSpec& p : block.specs())
    if (is_input_norm_again(s, p.name) || bias(p.name) ||
        (latent && p.name.ends_with("_latent_norm.weight")))
      list.push_back(p);
  return {block.prefix(), std::move(list)};
}

std::vector<Neighbours> neighbours(const RegionLayout& part, const RegionLayout& whole) {
  std::vector<Neighbours> found;
  for (const ParamSpec& p : part.specs()) {
    const std::int64_t at = whole.at(p.name).offset;
    const bool follows = !found.empty() && found.back().in_part + found.back().elements == p.offset &&
                         found.back().in_whole + found.back().elements == at;
    if (follows) found.back().elements += p.elements();
    else found.push_back({p.offset, at, p.elements()});
  }
  return found;
}

RegionLayout relative_region(const Shapes& s) {
  if (s.relative_buckets == 0) return {"", {}};
  return {"", {{"encoder.relative.weight", s.heads, s.relative_buckets, Cut::rows},
               {"decoder.relative.weight", s.heads, s.relative_buckets, Cut::rows}}};
}

RegionLayout bridge_region(const Shapes& s) {
  Specs list;
  add_norm(list, s, "final_norm");
  return {"encoder.", std::move(list)};
}

RegionLayout experts_region(const Shapes& s, const std::string& prefix) {
  Specs list;
  add_experts_of(list, s);
  return {prefix, std::move(list), experts_apart(s) ? Replication::expert : Replication::data};
}

RegionLayout position_region(const Shapes& s) {
  return s.shared_positions() ? RegionLayout{"embedding.", {positions_of(s)}} : RegionLayout{"", {}};
}

RegionLayout tables_region(const Shapes& s) {
  return s.relative_buckets > 0 ? relative_region(s) : position_region(s);
}

RegionLayout embedding_region(const Shapes& s) {
  Specs list;
  if (s.learned_positions && !s.shared_positions()) list.push_back(positions_of(s));
  if (s.token_types > 0) list.push_back({"type.weight", s.token_types, s.hidden, Cut::none, Init::normal, true});
  if (s.embedding_norm) add_norm(list, s, "norm");
  return {"embedding.", std::move(list)};
}

RegionLayout word_region(const Shapes& s) {
  return {"embedding.", {of_words(s, "word.weight", s.hidden, Init::normal)}};
}

RegionLayout head_region(const Shapes& s) {
  Specs list;
  if (s.placement == NormPlacement::pre) add_norm(list, s, "final_norm");
  if (s.output_bias) list.push_back(of_words(s, "output.bias", 1, Init::zeros));
  if (!s.bert) return {"", std::move(list)};
  add_whole(list, "head.transform", s.hidden, s.hidden, true);
  add_norm(list, s, "head.norm");
  list.push_back(of_words(s, "head.output_bias", 1, Init::zeros));
  add_whole(list, "pooler", s.hidden, s.hidden, false);
  add_whole(list, "nsp", 2, s.hidden, false);
  return {"", std::move(list)};
}

/// Replicated on all tensor ranks, as latent attention's down-projections. Megatron-Core cuts the matrix and gathers its output
/// (megatron/core/transformer/multi_token_prediction.py, _concat_embeddings). Under sequence parallelism the FLOPs are equal.
RegionLayout mtp_region(const Shapes& s, const std::string& prefix) {
  Specs list;
  if (s.mtp == 0) return {prefix, std::move(list)};
  add_norm(list, s, "word_norm");
  add_norm(list, s, "state_norm");
  list.push_back({"join.weight", 2 * s.hidden, s.hidden, Cut::none, Init::normal, true});
  add_norm(list, s, "final_norm");
  return {prefix, std::move(list)};
}

RegionLayout output_region(const Shapes& s) {
  return {"", {of_words(s, s.tied ? "embedding.word.weight" : "output.weight", s.hidden, Init::normal)}};
}

}  // namespace tandem::lowering
