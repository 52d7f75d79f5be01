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

/// The best split in which all stages but the first and the last have equal numbers of layers, and all chunks of a stage. None if no
/// longest stage is shorter than `least`. Stages that are too long by themselves end the loops.
class SplitAtEnds {
 public:
  SplitAtEnds(const Plan& plan, const LayerCosts& costs, double least)
      : plan_(plan), costs_(costs), stages_(plan.parallel.pipeline), chunks_(plan.parallel.virtual_pipeline),
        of_chunk_(static_cast<std::int64_t>(costs.layers.size()) / chunks_), until_(costs.layers.size() + 1, 0.0), least_(least) {
    std::partial_sum(costs.layers.begin(), costs.layers.end(), until_.begin() + 1);
  }

  std::optional<Split> find() {
    const auto layers = static_cast<std::int64_t>(costs_.layers.size());
    if (layers % chunks_ != 0 || stages_ < 2) return std::nullopt;
    const std::int64_t middle = stages_ - 2;
    for (std::int64_t first = 1; first + middle < of_chunk_ && costs_.first + between(0, first) < least_; ++first) {
      if (middle == 0) try_split(first, 0);
      else try_middles(first);
    }
    return std::move(best_);
  }

 private:
  double between(std::int64_t from, std::int64_t to) const {
    return until_[static_cast<std::size_t>(to)] - until_[static_cast<std::size_t>(from)];
  }

  /// Those whose second and last stage are not too long by what they have of the first chunk and of the model's ends.
  void try_middles(std::int64_t first) {
    const std::int64_t middle = stages_ - 2;
    std::int64_t low = 1, high = (of_chunk_ - first - 1) / middle;  // the second stage has from low to high layers
    while (low < high) {
      const std::int64_t each = (low + high + 1) / 2;
      if (between(first, first + each) < least_) low = each;
      else high = each - 1;
    }
    const bool last = stage_of_part(plan_.parallel.schedule, stages_, stages_ * chunks_ - 1) == stages_ - 1;
    const double end = last ? costs_.last : 0;
    const auto rest = [&](std::int64_t each) { return between(first + middle * each, of_chunk_) + end; };
    for (std::int64_t each = low; each > 0 && rest(each) < least_; --each) try_split(first, each);
  }

  Split split_of(std::int64_t first, std::int64_t each) const {
    Split split;
    for (std::int64_t c = 0; c < chunks_; ++c) {
      split.push_back(first);
      split.insert(split.end(), static_cast<std::size_t>(stages_ - 2), each);
      split.push_back(of_chunk_ - first - (stages_ - 2) * each);
    }
    return split;
  }

  void try_split(std::int64_t first, std::int64_t each) {
    Split split = split_of(first, each);
    const double then = longest(split);
    if (then < least_) best_ = std::move(split), least_ = then;
  }

  double longest(const Split& split) const {
    std::vector<double> sum(static_cast<std::size_t>(stages_), 0.0);
    std::int64_t from = 0;
    for (std::size_t part = 0; part < split.size(); ++part) {
      const auto stage = stage_of_part(plan_.parallel.schedule, stages_, static_cast<std::int64_t>(part));
      sum[static_cast<std::size_t>(stage)] += between(from, from + split[part]) + (part == 0 ? costs_.first : 0) +
                                              (part + 1 == split.size() ? costs_.last : 0);
      from += split[part];
    }
    return *std::max_element(sum.begin(), sum.end());
  }

  const Plan& plan_;
  const LayerCosts& costs_;
  std::int64_t stages_, chunks_, of_chunk_;
  std::vector<double> until_;  ///< cost of the layers in front of each
  double least_;
  std::optional<Split> best_;
};

/// The best split that any option for every chunk can say.
std::optional<Split> best_of_any(const Plan& plan, const LayerCosts& costs, bool empty_ends, double least) {
  std::optional<Split> best;
  for (const bool empty : {false, true}) {
    if (empty && !empty_ends) continue;
    std::optional<Split> split = Partition(costs, plan.parallel.pipeline * plan.parallel.virtual_pipeline, empty).find();
    if (!split) continue;
    if (const double then = longest(plan, costs, *split); then < least) best = std::move(split), least = then;
  }
  return best;
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

bool recomputes_by_place(const Plan& plan) { return plan.training.recompute_layers > 0; }

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
  const bool folded = folds(plan.parallel.schedule) && chunks != 2;  // such a plan is refused later
  if (layers == 0 || !possible || folded || recomputes_by_place(plan) || plan.model.num_decoder_layers > 0) return std::nullopt;
  const double least = (1 - kWorthwhile) * longest(plan, costs, plan.layers_per_stage());
  if (splits.choice == StageChoice::none) return std::nullopt;
  if (splits.choice == StageChoice::ends) return SplitAtEnds(plan, costs, least).find();
  return best_of_any(plan, costs, splits.empty_ends, least);
}

std::vector<std::int64_t> split_by_flops(Plan plan) {
  plan.parallel.pipeline_split.clear();
  return shorter_split(plan, flops_of_layers(plan), stack_splits(plan)).value_or(Split{});
}

}  // namespace tandem
