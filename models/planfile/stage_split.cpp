#include "models/planfile/stage_split.hpp"

#include <algorithm>

#include "models/planfile/plan_flops.hpp"

namespace tandem {
namespace {

/// A stage is much longer from this share of the median stage on. A better split saves this share of the longest stage or more:
/// below it, layers that differ or products of other shapes may matter more.
constexpr double kMuchLonger = 1.10, kWorthwhile = 0.03;

using Split = std::vector<std::int64_t>;

/// The lower one of two in the middle.
double median(std::vector<double> values) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Layers by stage; part k belongs to stage k mod stages.
std::vector<double> layers_of_stages(const Split& split, std::size_t stages) {
  std::vector<double> sum(stages, 0.0);
  for (std::size_t k = 0; k < split.size(); ++k) sum[k % stages] += static_cast<double>(split[k]);
  return sum;
}

/// Time of one layer in the median stage.
double layer_time(const std::vector<double>& layers, const std::vector<double>& computing) {
  std::vector<double> each;
  for (std::size_t s = 0; s < layers.size(); ++s)
    if (layers[s] > 0) each.push_back(computing[s] / layers[s]);
  return median(std::move(each));
}

double longest_stage(const Split& split, std::size_t stages, double extra) {
  std::vector<double> layers = layers_of_stages(split, stages);
  layers.back() += extra;
  return *std::max_element(layers.begin(), layers.end());
}

/// Whether all layers take the same time, as far as the plan says.
bool has_equal_layers(const Plan& plan) {
  for (std::int64_t l = 1; l < plan.model.num_layers; ++l)
    if (plan.model.kind(l).index() != plan.model.kind(0).index()) return false;
  return plan.training.recompute_layers == 0;
}

/// Whether parts and stages are as better_split reads them.
bool has_plain_stages(const Plan& plan, const Split& split, std::size_t stages) {
  const auto layers = static_cast<std::size_t>(plan.model.total_layers());
  return stages > 1 && plan.model.num_decoder_layers == 0 && !folds(plan.parallel.schedule) && split.size() <= layers &&
         has_equal_layers(plan);
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

std::optional<BetterSplit> better_split(const Plan& plan, const std::vector<double>& computing) {
  const Split now = plan.layers_per_stage();
  if (!has_plain_stages(plan, now, computing.size())) return std::nullopt;
  const auto longest = std::max_element(computing.begin(), computing.end());
  const double usual = median(computing);
  if (usual <= 0 || *longest < kMuchLonger * usual) return std::nullopt;
  const std::vector<double> layers = layers_of_stages(now, computing.size());
  const double layer = layer_time(layers, computing);
  const double extra = std::max(0.0, computing.back() / layer - layers.back());
  Split split = balanced_split(plan.model.total_layers(), static_cast<std::int64_t>(now.size()), extra);
  const double then = layer * longest_stage(split, computing.size(), extra);
  if (split == now || then > (1 - kWorthwhile) * *longest) return std::nullopt;
  return BetterSplit{longest - computing.begin(), *longest / usual - 1, std::move(split), then};
}

}  // namespace tandem
