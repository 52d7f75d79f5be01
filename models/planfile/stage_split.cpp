#include "models/planfile/stage_split.hpp"

#include <algorithm>
#include <numeric>

#include "models/planfile/plan_flops.hpp"

namespace tandem {
namespace {

/// A better split saves this share of the longest stage or more: below it, products of other shapes may matter more.
constexpr double kWorthwhile = 0.03;

using Split = std::vector<std::int64_t>;

/// Layers of `parts` consecutive parts, of which none computes longer than the longest has to.
class Partition {
 public:
  Partition(const LayerCosts& costs, std::int64_t parts, bool empty_ends)
      : costs_(costs), parts_(parts), layers_(static_cast<std::int64_t>(costs.layers.size())), ends_(empty_ends ? 0 : 1),
        until_(costs.layers.size() + 1, 0.0) {
    std::partial_sum(costs.layers.begin(), costs.layers.end(), until_.begin() + 1);
  }

  /// None if there are too few layers.
  std::optional<Split> find() const {
    double low = 0, high = costs_.first + costs_.last + until_.back();
    if (!fits(high)) return std::nullopt;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (fits(middle) ? high : low) = middle;
    }
    return spread(high);
  }

 private:
  static constexpr int kHalvings = 50;

  /// The fewest layers of part `k` and of all behind it.
  std::int64_t least(std::int64_t k) const { return k == 0 || k == parts_ - 1 ? ends_ : 1; }
  std::int64_t least_behind(std::int64_t k) const {
    const std::int64_t parts = parts_ - 1 - k;
    return parts == 0 ? 0 : parts - 1 + ends_;
  }
  double extra(std::int64_t k) const { return (k == 0 ? costs_.first : 0) + (k == parts_ - 1 ? costs_.last : 0); }
  double cost(std::int64_t k, std::int64_t from, std::int64_t to) const {
    return extra(k) + until_[static_cast<std::size_t>(to)] - until_[static_cast<std::size_t>(from)];
  }

  /// The last end of part `k` that begins at layer `from` and costs `most` at most; -1: none.
  std::int64_t furthest(std::int64_t k, std::int64_t from, double most) const {
    std::int64_t to = from + least(k);
    const std::int64_t end = layers_ - least_behind(k);
    if (to > end || cost(k, from, to) > most) return -1;
    while (to < end && cost(k, from, to + 1) <= most) ++to;
    return to;
  }

  /// Whether parts from `k` on can share the layers from `from` on at `most` each: each takes as many as it can.
  bool fits(double most, std::int64_t k = 0, std::int64_t from = 0) const {
    for (; k < parts_; ++k) {
      from = furthest(k, from, most);
      if (from < 0) return false;
    }
    return from == layers_;
  }

  /// Gives every part the number of layers that comes nearest to an equal share of the rest.
  Split spread(double most) const {
    Split split;
    std::int64_t from = 0;
    for (std::int64_t k = 0; k < parts_; ++k) {
      std::int64_t to = furthest(k, from, most);
      const double share = share_from(k, from);
      const auto less = [&] { return cost(k, from, to) - share >= share - cost(k, from, to - 1) && fits(most, k + 1, to - 1); };
      while (to - 1 >= from + least(k) && less()) --to;
      split.push_back(to - from);
      from = to;
    }
    return split;
  }

  /// What the parts from `k` on cost in the mean, without a last one that costs more than the others.
  double share_from(std::int64_t k, std::int64_t from) const {
    const std::int64_t parts = parts_ - k;
    const double all = extra(k) + (parts > 1 ? costs_.last : 0) + until_.back() - until_[static_cast<std::size_t>(from)];
    const double last = cost(parts_ - 1, layers_ - ends_, layers_), mean = all / static_cast<double>(parts);
    return parts > 1 && last > mean ? (all - last) / static_cast<double>(parts - 1) : mean;
  }

  const LayerCosts& costs_;
  std::int64_t parts_, layers_, ends_;
  std::vector<double> until_;  ///< cost of the layers in front of each
};

double longest(const Plan& plan, const LayerCosts& costs, const Split& split) {
  const std::vector<double> stages = costs_of_stages(plan, costs, split);
  return *std::max_element(stages.begin(), stages.end());
}

/// Every split in which all stages but the first and the last have equal numbers of layers, and all chunks of a stage.
std::vector<Split> splits_at_ends(std::int64_t layers, std::int64_t stages, std::int64_t chunks) {
  std::vector<Split> out;
  if (layers % chunks != 0 || stages < 2) return out;
  const std::int64_t all = layers / chunks, middle = stages - 2;
  for (std::int64_t first = 1; first < all; ++first)
    for (std::int64_t last = 1; first + last + middle <= all; ++last) {
      const std::int64_t left = all - first - last;
      if (middle == 0 ? left != 0 : left % middle != 0) continue;
      Split split;
      for (std::int64_t c = 0; c < chunks; ++c) {
        split.push_back(first);
        split.insert(split.end(), static_cast<std::size_t>(middle), middle == 0 ? 0 : left / middle);
        split.push_back(last);
      }
      out.push_back(std::move(split));
    }
  return out;
}

/// The splits that come into question.
std::vector<Split> candidates(const Plan& plan, const LayerCosts& costs, const StackSplits& splits) {
  const std::int64_t stages = plan.parallel.pipeline, chunks = plan.parallel.virtual_pipeline;
  if (splits.choice == StageChoice::ends) return splits_at_ends(plan.model.total_layers(), stages, chunks);
  std::vector<Split> out;
  if (splits.choice == StageChoice::none) return out;
  for (const bool empty : {false, true})
    if (!empty || splits.empty_ends)
      if (auto split = Partition(costs, stages * chunks, empty).find()) out.push_back(std::move(*split));
  return out;
}

}  // namespace

std::vector<std::int64_t> even_split(std::int64_t layers, std::int64_t parts) {
  Split split(static_cast<std::size_t>(parts), layers / parts);
  const std::int64_t extra = layers % parts;
  const std::int64_t first = (parts - extra) / 2;
  for (std::int64_t s = first; s < first + extra; ++s) ++split[static_cast<std::size_t>(s)];
  return split;
}

std::vector<std::int64_t> balanced_split(std::int64_t layers, std::int64_t parts, double extra) {
  const auto longest = [&](std::int64_t last) {
    const std::int64_t most = (layers - last + parts - 2) / (parts - 1);
    return std::max(static_cast<double>(most), static_cast<double>(last) + extra);
  };
  std::int64_t best = std::max<std::int64_t>(1, layers / parts);
  for (std::int64_t last = best - 1; last > 0; --last)
    if (longest(last) < longest(best)) best = last;
  Split split = even_split(layers - best, parts - 1);
  split.push_back(best);
  return split;
}

double layers_of_last_end(const Plan& plan) {
  ModelSpec plain = plan.model;
  plain.mtp = {};
  const std::int64_t length = plan.training.seq_length;
  const double head = 2 * static_cast<double>(plain.hidden_size) * static_cast<double>(plain.vocab_size);
  const double layers = forward_flops(plain, length) - head;
  return (forward_flops(plan.model, length) - layers) / layers * static_cast<double>(plain.num_layers);
}

Plan without_modules(const Plan& plan) {
  Plan plain = plan;
  if (plan.parallel.pipeline > 1) plain.parallel.pipeline_split = plan.layers_per_stage();
  plain.model.mtp = {};
  return plain;
}

LayerCosts flops_of_layers(const Plan& plan) {
  LayerCosts out;
  if (!has_forward_flops(plan.model.family) || plan.model.num_decoder_layers > 0) return out;
  const double passes = plan.training.recompute == Recompute::full ? 4 : 3;
  const std::int64_t length = plan.training.seq_length;
  for (std::int64_t l = 0; l < plan.model.num_layers; ++l) out.layers.push_back(passes * layer_flops(plan.model, l, length));
  out.last = 3 * forward_flops(plan.model, length);
  for (std::int64_t l = 0; l < plan.model.num_layers; ++l) out.last -= 3 * layer_flops(plan.model, l, length);
  return out;
}

std::vector<double> costs_of_stages(const Plan& plan, const LayerCosts& costs, const std::vector<std::int64_t>& split) {
  const std::int64_t stages = plan.parallel.pipeline;
  std::vector<double> sum(static_cast<std::size_t>(stages), 0.0);
  auto layer = costs.layers.begin();
  for (std::size_t part = 0; part < split.size(); ++part) {
    double& stage = sum[static_cast<std::size_t>(stage_of_part(plan.parallel.schedule, stages, static_cast<std::int64_t>(part)))];
    stage += (part == 0 ? costs.first : 0) + (part + 1 == split.size() ? costs.last : 0);
    stage = std::accumulate(layer, layer + split[part], stage);
    layer += split[part];
  }
  return sum;
}

std::optional<std::vector<std::int64_t>> shorter_split(const Plan& plan, const LayerCosts& costs, const StackSplits& splits) {
  const auto layers = static_cast<std::int64_t>(costs.layers.size());
  const std::int64_t stages = plan.parallel.pipeline, chunks = plan.parallel.virtual_pipeline;
  const bool possible = stages > 1 && chunks > 0 && stages <= layers + 2 && chunks <= layers + 2 && stages * chunks <= layers + 2;
  if (layers == 0 || !possible || plan.training.recompute_layers > 0 || plan.model.num_decoder_layers > 0) return std::nullopt;
  const double now = longest(plan, costs, plan.layers_per_stage());
  std::optional<Split> best;
  double least = (1 - kWorthwhile) * now;
  for (Split& split : candidates(plan, costs, splits))
    if (const double then = longest(plan, costs, split); then < least) best = std::move(split), least = then;
  return best;
}

std::vector<std::int64_t> split_by_flops(Plan plan) {
  plan.parallel.pipeline_split.clear();
  return shorter_split(plan, flops_of_layers(plan), stack_splits(plan)).value_or(Split{});
}

}  // namespace tandem
