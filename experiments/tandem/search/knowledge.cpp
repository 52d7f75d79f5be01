#include "experiments/tandem/search/knowledge.hpp"

#include <algorithm>

namespace tandem::search {

namespace {

std::int64_t scaled(std::int64_t n, double factor) { return static_cast<std::int64_t>(static_cast<double>(n) * factor); }

}  // namespace

std::int64_t Found::least_ps() const { return rough ? floor_ps : std::max(floor_ps, scaled(estimate_ps, 1 - kTimeError)); }

std::int64_t Found::most_ps(std::int64_t room) const {
  return outside == sim::Outside::nothing && !rough && most_memory() <= room ? scaled(estimate_ps, 1 + kTimeBelow) : kNoLimit;
}

std::int64_t Found::least_memory() const { return std::max(memory_floor, scaled(memory, 1 - kMemoryError)); }

std::int64_t Found::most_memory() const { return scaled(memory, 1 + kMemoryError); }

std::optional<Found> Knowledge::whole(const Found& found) const {
  const auto r = refined.find(found.id);
  if (!found.rough || r == refined.end()) return found;
  if (r->second.too_large) return std::nullopt;
  Found out = found;
  out.rough = false;
  out.estimate_ps = r->second.estimate_ps, out.memory = r->second.memory, out.outside = r->second.outside;
  return out;
}

void Knowledge::take(Knowledge other, std::int64_t members) {
  if (facts.empty()) facts.resize(other.facts.size());
  for (std::size_t g = 0; g < other.facts.size(); ++g)
    if (!facts[g].known || (other.facts[g].sharp && !facts[g].sharp)) facts[g] = other.facts[g];
  for (const Found& f : other.found)
    if (groups.count(f.id / members) == 0) found.push_back(f);
  groups.merge(other.groups);
  refined.merge(other.refined);
  simulated.merge(other.simulated);
}

}  // namespace tandem::search
