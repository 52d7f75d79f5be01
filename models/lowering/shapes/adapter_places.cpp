#include "models/lowering/shapes/adapter_places.hpp"

namespace tandem::lowering {
namespace {

PartColumns columns_of(const Shapes& s, std::string_view part) {
  if (part == "gate" || part == "up") return part_of_units(part);
  const std::int64_t queries = s.attention_dims().per_group() * s.head_dim;
  return part_of_heads(part, queries, s.head_dim, s.pair_made() - s.head_dim);
}

}  // namespace

std::vector<AdapterPlace> adapters_of(const Shapes& s, const std::string& name, std::int64_t out) {
  std::vector<AdapterPlace> all;
  if (s.adapters.has(name)) all.push_back({name, out, {}, name == "qkv" ? s.pair_made() : 0});
  for (const AdapterPart& p : kAdapterParts) {
    if (p.matrix != of_mlp(name) || !s.adapters.has(p.target)) continue;
    const PartColumns columns = columns_of(s, p.part);
    const std::int64_t rows = out / columns.group * columns.width;
    all.push_back({name + "." + std::string(p.part), rows, columns, p.part == "k" || p.part == "v" ? rows : 0});
  }
  return all;
}

}  // namespace tandem::lowering
