#include "exec/run/owned_ranges.hpp"

#include "models/graph/owners.hpp"

namespace tandem::exec {

std::map<std::int32_t, std::vector<OwnedRange>> owned_ranges(const Program& program) {
  std::map<std::int32_t, std::vector<OwnedRange>> all;
  for (const OwnedPart& part : ownership(program.params, program.units).parts) {
    std::vector<OwnedRange>& ranges = all[part.unit];
    const std::int64_t first = program.params[static_cast<std::size_t>(part.param)].offset + part.first -
                               program.units[static_cast<std::size_t>(part.unit)].offset;
    const auto owner = static_cast<std::size_t>(part.owner);
    const bool follows = !ranges.empty() && ranges.back().member == owner && ranges.back().first + ranges.back().elements == first;
    if (follows) ranges.back().elements += part.count;
    else ranges.push_back({owner, first, part.count});
  }
  return all;
}

}  // namespace tandem::exec
