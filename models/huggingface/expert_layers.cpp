#include "models/huggingface/expert_layers.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace tandem::huggingface {
namespace {

using nlohmann::json;
using Layers = std::vector<bool>;

constexpr std::int64_t kMostLayers = 100'000;

bool is_expert_entry(const json& entry) {
  if (entry == "sparse" || entry == "moe" || entry == "hash_moe") return true;
  if (entry.is_string() && entry != "dense" && entry != "mlp")
    throw ConfigError(Problem{"", "mlp_layer_types", value_text(entry), "is no kind of MLP that is known here", "use sparse or dense"});
  if (entry.is_string()) return false;
  if (entry.is_boolean()) return entry.get<bool>();
  return entry.is_number() && entry.get<double>() > 0;
}

Layers layers_with_experts(Facts& f) {
  const std::int64_t n = f.whole("layers");
  if (n > kMostLayers) throw ConfigError(Problem{"", "num_hidden_layers", std::to_string(n), "is too large", "give at most 100000"});
  Layers out(static_cast<std::size_t>(n));
  if (f.whole("experts") == 0) return out;
  const json list = f.fact("moe_list"), except = f.fact("moe_except"), last = f.fact("moe_last"), places = f.fact("moe_places");
  const std::int64_t first = f.whole("moe_first"), step = std::max<std::int64_t>(1, f.whole("moe_step")), offset = f.whole("moe_offset");
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (places.is_array()) out[at] = std::find(places.begin(), places.end(), json(i)) != places.end();
    else if (list.is_array()) out[at] = at < list.size() && is_expert_entry(list[at]);
    else out[at] = i >= first && (i + offset) % step == 0 && (!last.is_number_integer() || i <= last.get<std::int64_t>());
    if (except.is_array() && std::find(except.begin(), except.end(), json(i)) != except.end()) out[at] = false;
  }
  return out;
}

/// A plan's layers: `first_dense`, and every `frequency`-th behind it (ModelSpec::has_experts).
bool says(const Layers& layers, std::int64_t first_dense, std::int64_t frequency) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto l = static_cast<std::int64_t>(i);
    if (layers[i] != (l >= first_dense && (l - first_dense) % frequency == 0)) return false;
  }
  return true;
}

}  // namespace

json expert_layer_facts(Facts& facts) {
  const Layers layers = layers_with_experts(facts);
  const auto n = static_cast<std::int64_t>(layers.size());
  const auto with = static_cast<std::int64_t>(std::count(layers.begin(), layers.end(), true));
  const std::int64_t first = std::find(layers.begin(), layers.end(), true) - layers.begin();
  json out = {{"experts", with}, {"dense", n - with}, {"first_dense", 0}, {"frequency", 1}, {"irregular", false}};
  if (with == 0) return out;
  for (std::int64_t frequency = 1; frequency <= n; ++frequency)
    for (const std::int64_t dense : {std::int64_t{0}, first})
      if (says(layers, dense, frequency)) {
        out["first_dense"] = dense;
        out["frequency"] = frequency;
        return out;
      }
  // As many layers, evenly where that comes out and behind the dense ones where it does not.
  const std::int64_t step = n / with;
  const bool even = step > 1 && (n + step - 1) / step == with;
  out["irregular"] = true;
  out["frequency"] = even ? step : 1;
  out["first_dense"] = even ? 0 : n - with;
  return out;
}

}  // namespace tandem::huggingface
