#include "models/graph/owners.hpp"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::int64_t kNormBlock = 64;  ///< elements that gradient norms sum at once

/// Whether the stacked matrices of a parameter begin at whole blocks of the flat buffers.
bool divisible(const Param& p) {
  return p.matrices.stacked > 1 && p.offset % kNormBlock == 0 && p.elements() / p.matrices.stacked % kNormBlock == 0;
}

void add_parts(std::vector<OwnedPart>& out, const Param& p, const OwnedPart& whole) {
  const std::int64_t n = divisible(p) ? p.matrices.stacked : 1, each = p.elements() / n;
  for (std::int64_t i = 0; i < n; ++i) {
    out.push_back(whole);
    out.back().first = i * each, out.back().count = each;
  }
}

std::vector<OwnedPart> parts_of(std::span<const Param> params, std::span<const ShardUnit> units) {
  std::vector<OwnedPart> all;
  std::size_t p = 0;
  for (std::size_t u = 0; u < units.size(); ++u)
    for (; p < params.size() && params[p].offset < units[u].offset + units[u].elements; ++p)
      if (!params[p].frozen) add_parts(all, params[p], {static_cast<std::int32_t>(p), static_cast<std::int32_t>(u)});
  return all;
}

/// Owner of the i-th smallest part among n ranks: 0 .. n-1, n-1 .. 0, and so on.
std::int32_t owner_of(std::int64_t i, std::int64_t n) {
  const std::int64_t at = i % (2 * n);
  return static_cast<std::int32_t>(at < n ? at : 2 * n - 1 - at);
}

/// Sets the owners of the parts of one sharding group, by size.
void deal(std::vector<OwnedPart*>& parts, std::int64_t ranks) {
  std::stable_sort(parts.begin(), parts.end(), [](const OwnedPart* a, const OwnedPart* b) { return a->count < b->count; });
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i]->owner = owner_of(static_cast<std::int64_t>(i), ranks);
}

/// Elements of states that a group's ranks have placed so far.
struct Filled {
  std::vector<std::int64_t> states, seconds;

  Filled(std::int64_t ranks, const Ownership& before)
      : states(static_cast<std::size_t>(ranks), before.states), seconds(static_cast<std::size_t>(ranks), before.seconds) {}
};

/// Places the states of a group's parts, in their order in the flat buffers, behind those that `out` counts.
void place(Ownership& out, std::span<const Param> params, std::span<const ShardUnit> units, Replication group) {
  const auto of_group = [&](const OwnedPart& part) { return units[static_cast<std::size_t>(part.unit)].replication == group; };
  std::vector<OwnedPart*> mine;
  for (OwnedPart& part : out.parts)
    if (of_group(part)) mine.push_back(&part);
  if (mine.empty()) return;
  const std::int64_t ranks = units[static_cast<std::size_t>(mine.front()->unit)].shards;
  deal(mine, ranks);
  Filled filled(ranks, out);
  for (OwnedPart& part : out.parts) {
    if (!of_group(part)) continue;
    const auto owner = static_cast<std::size_t>(part.owner);
    part.state = filled.states[owner], part.second = filled.seconds[owner];
    filled.states[owner] += part.count;
    if (!params[static_cast<std::size_t>(part.param)].matrices.any()) filled.seconds[owner] += part.count;
  }
  out.states = *std::max_element(filled.states.begin(), filled.states.end());
  out.seconds = *std::max_element(filled.seconds.begin(), filled.seconds.end());
}

}  // namespace

Ownership ownership(std::span<const Param> params, std::span<const ShardUnit> units) {
  const bool matrices = std::any_of(params.begin(), params.end(), [](const Param& p) { return p.matrices.any(); });
  const bool shards = std::any_of(units.begin(), units.end(), [](const ShardUnit& u) { return u.shards > 1; });
  Ownership out;
  if (!matrices || !shards) return out;
  out.parts = parts_of(params, units);
  for (const Replication group : {Replication::data, Replication::expert}) place(out, params, units, group);
  return out;
}

}  // namespace tandem
