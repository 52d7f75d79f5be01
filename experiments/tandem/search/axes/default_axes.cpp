#include "experiments/tandem/search/axes/default_axes.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "models/base/text.hpp"
#include "models/planfile/stage_split.hpp"
#include "models/stack/stack_modules.hpp"

namespace tandem::search {

namespace {

constexpr std::int64_t kMostContext = 16, kMostChunks = 12;
constexpr std::int64_t kContextTokens = 16384;  ///< of a context rank where sequences have enough for more ranks than kMostContext
constexpr std::int64_t kFewSequences = 8, kFewTokens = 64 << 10;  ///< of a micro-batch; larger ones of either kind are tried
constexpr std::size_t kFewChunkCounts = 4;    ///< fewer that divide the layers are too few to choose from

AxisRequest axis(const char* field, const std::vector<std::int64_t>& values) {
  AxisRequest out{field, {}};
  for (const std::int64_t v : values) out.values.push_back(std::to_string(v));
  return out;
}

std::vector<std::int64_t> at_most(std::vector<std::int64_t> values, std::int64_t most) {
  std::erase_if(values, [&](std::int64_t v) { return v > most; });
  return values;
}

std::vector<std::int64_t> powers_of_two(std::int64_t most) {
  std::vector<std::int64_t> out;
  for (std::int64_t n = 1; n <= most; n *= 2) out.push_back(n);
  return out;
}

/// Degrees that divide both numbers, up to `most`.
std::vector<std::int64_t> common(std::int64_t a, std::int64_t b, std::int64_t most) {
  return at_most(divisors(std::gcd(a, b)), most);
}

std::vector<std::int64_t> context_degrees(const Plan& p) {
  const std::int64_t length = p.training.seq_length;
  if (length < kLongSequence) return {1};
  return powers_of_two(std::min(std::max(kMostContext, length / kContextTokens), 2 * length / kLongSequence));
}

std::vector<std::int64_t> micro_batches(const Plan& p) {
  std::vector<std::int64_t> out = powers_of_two(std::max(kFewSequences, kFewTokens / p.training.seq_length));
  std::erase_if(out, [&](std::int64_t n) { return p.training.global_batch_size % n != 0; });
  return out;
}

/// Chunks of a stage. Counts that divide the layers, or the layers with the embedding and the head as one each, can make chunks of one
/// size. Where few divide the layers, small counts are offered too, whose chunks differ by a layer.
std::vector<std::int64_t> chunk_counts(std::int64_t layers) {
  const std::int64_t most = std::min(kMostChunks, std::max<std::int64_t>(1, layers / 2));
  std::vector<std::int64_t> out = at_most(divisors(layers), most);
  if (out.size() < kFewChunkCounts)
    for (std::int64_t n = 2; n <= static_cast<std::int64_t>(kFewChunkCounts); ++n) out.push_back(n);
  for (const std::int64_t n : divisors(layers + 2)) out.push_back(n);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return at_most(std::move(out), most);
}

using Modules = std::vector<std::string>;

/// Attention alone; norms, and experts' activations too, which are cheap to repeat; whole MLPs and experts, for least memory; all but
/// matrix products.
std::vector<Modules> module_sets(const ModelSpec& m) {
  const bool experts = m.moe.num_experts > 0, dense = !experts || m.moe.first_dense_layers > 0 || m.moe.layer_frequency > 1;
  Modules norms{"norm"};
  if (m.latent.kv_rank > 0) norms.emplace_back("mla_up_proj");
  Modules cheap = norms, whole = norms;
  if (experts) cheap.emplace_back("moe_activation"), whole.emplace_back("moe");
  if (dense) whole.emplace_back("mlp");
  return {{"core_attention"}, norms, cheap, whole, {"operations"}};
}

}  // namespace

std::vector<AxisRequest> module_axes(const Plan& p) {
  const std::set<std::string> known = stack_modules(p);
  std::vector<Modules> sets;
  for (Modules set : module_sets(p.model)) {
    std::erase_if(set, [&](const std::string& module) { return known.count(module) == 0; });
    if (!set.empty() && std::find(sets.begin(), sets.end(), set) == sets.end()) sets.push_back(std::move(set));
  }
  if (sets.empty() || sets == std::vector<Modules>{{"core_attention"}}) return {};  // as without the axis
  AxisRequest out{"training.recompute_modules", {}};
  for (const Modules& set : sets) out.values.push_back(nlohmann::json(set).dump());
  return {out};
}

std::vector<AxisRequest> split_axes(Plan p, const std::vector<AxisRequest>& axes) {
  const std::vector<AxisValue> chunks = values_in(axes, "parallel.virtual_pipeline");
  for (const AxisValue& stages : values_in(axes, "parallel.pipeline"))
    for (const AxisValue& of_stage : chunks) {
      stages.set(p), of_stage.set(p);
      if (!split_by_flops(p).empty()) return {{kSplit, {"\"auto\"", "\"balanced\""}}};
    }
  return {};
}

std::vector<AxisRequest> default_axes(const Plan& p, std::int64_t per_node) {
  const std::int64_t devices = p.cluster.devices, layers = p.model.total_layers();
  std::vector<AxisRequest> out;
  out.push_back(axis("parallel.tensor", common(devices, p.model.num_attention_heads, std::max<std::int64_t>(per_node, 1))));
  out.push_back(axis("parallel.pipeline", at_most(divisors(devices), layers)));
  out.push_back(axis("parallel.context", context_degrees(p)));
  if (p.model.moe.num_experts > 0) out.push_back(axis("parallel.expert", common(devices, p.model.moe.num_experts, devices)));
  out.push_back(axis("training.micro_batch_size", micro_batches(p)));
  out.push_back({"parallel.schedule", {"\"1f1b\"", "\"interleaved\""}});
  out.push_back(axis("parallel.virtual_pipeline", chunk_counts(layers)));
  out.push_back({"parallel.sequence_parallel", {"false", "true"}});
  out.push_back({"training.recompute", {"\"none\"", "\"selective\"", "\"full\""}});
  out.push_back(axis("parallel.zero_stage", {0, 1, 2, 3}));
  return out;
}

}  // namespace tandem::search
