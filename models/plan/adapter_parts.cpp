#include "models/plan/adapter_parts.hpp"

#include "models/plan/plan.hpp"

namespace tandem {

PartColumns part_of_heads(std::string_view part, std::int64_t queries, std::int64_t keys, std::int64_t values) {
  const std::int64_t group = queries + keys + values;
  if (part == "q") return {group, 0, queries};
  return part == "k" ? PartColumns{group, queries, keys} : PartColumns{group, queries + keys, values};
}

PartColumns part_of_units(std::string_view part) { return {2, part == "up" ? 1 : 0, 1}; }

PartColumns part_columns(const ModelSpec& m, LayerKind kind, std::string_view part) {
  if (part == "gate" || part == "up") return m.gated() ? part_of_units(part) : PartColumns{};
  const AttentionHeads h = m.attention_heads(kind.mixer);
  return part_of_heads(part, h.queries / h.keys * h.head_dim, h.head_dim, h.tied ? 0 : h.value_dim);
}

AdapterName adapter_name(std::string_view parameter) {
  const std::string_view name = parameter.substr(0, parameter.rfind('.'));
  const std::size_t dot = name.rfind('.');
  const std::string_view last = name.substr(dot + 1);
  for (const AdapterPart& p : kAdapterParts)
    if (last == p.part) return {std::string(name.substr(0, dot)), std::string(last)};
  return {std::string(name), ""};
}

std::int64_t layer_of_adapter(std::string_view parameter) {
  constexpr std::string_view layer = "layer";
  return std::stoll(std::string(parameter.substr(layer.size(), parameter.find('.') - layer.size())));
}

}  // namespace tandem
