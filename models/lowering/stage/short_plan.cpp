#include "models/lowering/stage/short_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "models/lowering/stage/stage_chunks.hpp"

namespace tandem::lowering {
namespace {

/// Layers of a chunk and micro-batches of one stage that a short plan keeps at level 0. With fewer,
/// the step consists only of prefetched weights, the host's start, and the first and last micro-batch.
constexpr std::int64_t kLayers = 8, kBatches = 3;

/// Smallest number of layers in a chunk that has any.
std::int64_t fewest(const std::vector<std::int64_t>& split) {
  std::int64_t least = INT64_MAX;
  for (const std::int64_t n : split)
    if (n > 0) least = std::min(least, n);
  return least;
}

void set_split(Plan& plan, std::vector<std::int64_t> split) {
  plan.model.num_layers = std::accumulate(split.begin(), split.end(), std::int64_t{0});
  if (split.size() > 1) plan.parallel.pipeline_split = std::move(split);
}

void add_layers(Plan& plan, std::int64_t layers) {
  std::vector<std::int64_t> split = plan.layers_per_stage();
  for (std::int64_t& n : split)
    if (n > 0) n += layers;
  set_split(plan, std::move(split));
}

/// Largest number of layers in one gradient unit of the first stage: of ordinary parameters, and of experts.
std::pair<std::int64_t, std::int64_t> layers_of_units(const Plan& plan) {
  const Shapes shapes = make_shapes(plan);
  const StageUnits stage =
      stage_units(model_regions(shapes), stage_chunks(plan).front(), sharding_of(plan));
  std::map<std::int32_t, std::set<std::int64_t>> layers;  // by unit
  const auto exchanged = [&](const RegionPlace& r) { return !r.frozen || plan.parallel.zero_stage == 3; };
  for (const RegionPlace& r : stage.regions)
    if (r.layer >= 0 && r.layer < plan.model.num_layers && exchanged(r)) layers[r.unit].insert(r.layer);
  // Adapters are small: often all of a stage's are one unit, and one of experts, and so they are with fewer layers.
  std::set<Replication> replications;
  for (const auto& [unit, of] : layers) replications.insert(stage.units[static_cast<std::size_t>(unit)].replication);
  if (shapes.adapters.here() && layers.size() == replications.size()) return {1, 1};
  std::pair<std::int64_t, std::int64_t> most{1, 1};
  for (const auto& [unit, of] : layers) {
    const bool expert = stage.units[static_cast<std::size_t>(unit)].replication == Replication::expert;
    std::int64_t& m = expert ? most.second : most.first;
    m = std::max(m, static_cast<std::int64_t>(of.size()));
  }
  return most;
}

/// Period in layers after which the same sublayers recur, regardless of which layers have experts.
std::int64_t mixer_period(const ModelSpec& m) {
  const auto alike = [](LayerKind a, LayerKind b) { return a.mixer == b.mixer && a.feeds() == b.feeds(); };
  for (std::int64_t n = 1; n < m.num_layers; ++n) {
    bool repeats = true;
    for (std::int64_t l = n; repeats && l < m.num_layers; ++l) repeats = alike(m.kind(l), m.kind(l - n));
    if (repeats) return n;
  }
  return m.num_layers;
}

/// Whether data ranks own whole parameters. The one with most of them is another one for each number of layers.
bool has_owners(const Plan& plan) {
  return plan.training.optimizer.kind == OptimizerKind::muon && plan.parallel.zero_stage == 1 && sharding_of(plan).shards > 1;
}

/// Whether a fixed number of a stage's layers offload activations. Those that are left out then differ from the others.
bool offloads_some(const OffloadSpec& o) { return !o.activations.empty() && o.layers > 0; }

/// Period in a chunk's layers after which kinds of layers and gradient units recur; 0: none.
std::int64_t period(const Plan& plan, const std::vector<std::int64_t>& split) {
  const MoeSpec& moe = plan.model.moe;
  std::int64_t f = std::lcm(moe.num_experts > 0 ? moe.layer_frequency : 1, mixer_period(plan.model));
  const bool even = split.size() == 1 || std::all_of(split.begin(), split.end(), [&](std::int64_t n) { return n % f == 0; });
  if (!even || plan.model.num_decoder_layers > 0 || has_owners(plan) || offloads_some(plan.parallel.offload)) return 0;
  if (plan.parallel.data * plan.parallel.context == 1) return f;
  const std::int64_t chunks = plan.parallel.virtual_pipeline;
  const auto [dense, expert] = layers_of_units(plan);
  for (const std::int64_t n : {dense, expert}) f = std::lcm(f, n / std::gcd(n, chunks));
  return f;
}

/// Number of layers at the start of the first chunk that differ from the later ones.
std::int64_t other_layers(const Plan& plan) {
  return plan.model.moe.num_experts > 0 ? plan.model.moe.first_dense_layers : 0;
}

class Shortener {
 public:
  Shortener(const Plan& plan, int level) : level_(level) { short_.plan = plan; }

  ShortPlan shorten() {
    take_layers();
    take_batches();
    return std::move(short_);
  }

 private:
  void take_layers() {
    Plan& plan = short_.plan;
    std::vector<std::int64_t> split = plan.layers_per_stage();
    const std::int64_t each = period(plan, split);
    if (each == 0 || other_layers(plan) > split.front()) return;
    const std::int64_t chunks = plan.parallel.virtual_pipeline * std::min<std::int64_t>(plan.parallel.pipeline, 2);
    const std::int64_t kept = std::max({(kLayers << level_) / chunks, 2 * each, std::int64_t{2}}) + other_layers(plan);
    const std::int64_t times = (fewest(split) - kept) / each;
    if (times < 2) return;
    const std::int64_t again = taken_again(split, times, each);
    if (again < 0) return;
    if (again > 0) short_.growths.push_back({Growth::Of::recomputed, each, again});
    if (times > again) short_.growths.push_back({Growth::Of::layers, each, times - again});
    plan.training.recompute_layers -= again * each;
    for (std::int64_t& n : split)
      if (n > 0) n -= times * each;
    set_split(plan, std::move(split));
  }

  /// Number of omitted layers, per `each`, with recomputation, if only
  /// the first layers of a stage have it; -1: stages would differ.
  std::int64_t taken_again(const std::vector<std::int64_t>& split, std::int64_t times, std::int64_t each) {
    Plan& plan = short_.plan;
    const std::int64_t again = plan.training.recompute_layers;
    if (again == 0) return 0;
    if (plan.parallel.virtual_pipeline > 1 || plan.model.moe.num_experts > 0) return -1;
    if (again >= *std::max_element(split.begin(), split.end())) return plan.training.recompute_layers = 0;  // all
    const std::int64_t least = fewest(split), once = (least - again) / each, take = times * again / least;
    return least < again || times - take > once || take * each >= again ? -1 : take;
  }

  void take_batches() {
    Plan& plan = short_.plan;
    const std::int64_t stages = plan.parallel.pipeline, m = plan.micro_batches();
    const std::int64_t turns = folds(plan.parallel.schedule) ? 3 : 2;  // after these turns all micro-batches behave alike
    const std::int64_t kept = stages == 1 ? kBatches + level_ : (turns + level_) * stages + m % stages;
    const std::int64_t times = (m - kept) / stages;
    if (times < 1) return;
    short_.growths.push_back({Growth::Of::micro_batches, stages, times});
    plan.training.global_batch_size -= times * stages * plan.training.micro_batch_size * plan.parallel.data;
  }

  const int level_;
  ShortPlan short_;
};

}  // namespace

Plan ShortPlan::grown(const Growth& growth, std::int64_t times) const {
  Plan out = plan;
  const std::int64_t n = growth.each * times;
  switch (growth.of) {
    case Growth::Of::layers: add_layers(out, n); break;
    case Growth::Of::recomputed:
      add_layers(out, n);
      out.training.recompute_layers += n;
      break;
    case Growth::Of::micro_batches: out.training.global_batch_size += n * out.training.micro_batch_size * out.parallel.data; break;
  }
  return out;
}

ShortPlan shorten(const Plan& plan, int level) { return Shortener(plan, level).shorten(); }

}  // namespace tandem::lowering
