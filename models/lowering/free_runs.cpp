#include "models/lowering/free_runs.hpp"

#include <algorithm>

namespace tandem::lowering {
namespace {

void merge(Frontier& into, const Frontier& other) {
  for (std::size_t s = 0; s < kStreams; ++s) into[s] = std::max(into[s], other[s]);
}

}  // namespace

bool FreeRuns::first_fit(std::int64_t bytes, std::int64_t end, Place& place) const {
  for (std::size_t l = 0; l < leaves_.size(); ++l) {
    const std::vector<Run>& runs = leaves_[l].runs;
    if (leaves_[l].longest < bytes && runs.back().end() != end) continue;
    const auto fits = [&](const Run& r) { return r.bytes >= bytes || r.end() == end; };
    place = {l, static_cast<std::size_t>(std::find_if(runs.begin(), runs.end(), fits) - runs.begin())};
    return true;
  }
  return false;
}

FreeRuns::Taken FreeRuns::take(Place place, std::int64_t bytes) {
  Run& run = *at(place);
  const bool longest = run.bytes == leaves_[place.leaf].longest;
  Taken taken{run.offset, std::min(bytes, run.bytes), {}};
  for (std::int64_t left = taken.bytes; left > 0;) {
    const Holes::iterator hole = run.first;
    const std::int64_t part = std::min(left, hole->bytes);
    merge(taken.prior, hole->last);
    left -= part;
    hole->offset += part;
    hole->bytes -= part;
    if (hole->bytes > 0) continue;
    ++run.first;
    spare_.splice(spare_.begin(), holes_, hole);
  }
  run.offset += taken.bytes;
  run.bytes -= taken.bytes;
  if (run.bytes == 0) erase(place);
  else if (longest) measure(place.leaf);
  return taken;
}

FreeRuns::Holes::iterator FreeRuns::put(Holes::iterator before, const Hole& hole) {
  if (spare_.empty()) return holes_.insert(before, hole);
  const Holes::iterator node = spare_.begin();
  *node = hole;
  holes_.splice(before, spare_, node);
  return node;
}

/// The first run behind `offset`, which no run holds. Where it is the first of a leaf, the end of the leaf before stands for it.
FreeRuns::Place FreeRuns::after(std::int64_t offset) const {
  const auto leaf = std::upper_bound(leaves_.begin(), leaves_.end(), offset,
                                     [](std::int64_t o, const Leaf& l) { return o < l.runs.front().offset; });
  if (leaf == leaves_.begin()) return {};
  const std::vector<Run>& runs = (leaf - 1)->runs;
  const auto run =
      std::upper_bound(runs.begin(), runs.end(), offset, [](std::int64_t o, const Run& r) { return o < r.offset; });
  return {static_cast<std::size_t>(leaf - 1 - leaves_.begin()), static_cast<std::size_t>(run - runs.begin())};
}

void FreeRuns::add(const Hole& hole) {
  const Place here = after(hole.offset);
  Run* const before = here.index > 0 ? at({here.leaf, here.index - 1}) : nullptr;
  const bool last_of_leaf = here.leaf < leaves_.size() && here.index == leaves_[here.leaf].runs.size();
  const Place next = last_of_leaf ? Place{here.leaf + 1, 0} : here;
  Run* const behind = at(next);
  const Holes::iterator it = put(behind != nullptr ? behind->first : holes_.end(), hole);
  const std::int64_t end = hole.offset + hole.bytes;
  const bool joins_before = before != nullptr && before->end() == hole.offset;
  const bool joins_behind = behind != nullptr && behind->offset == end;
  if (joins_before) {
    before->bytes += hole.bytes + (joins_behind ? behind->bytes : 0);
    leaves_[here.leaf].longest = std::max(leaves_[here.leaf].longest, before->bytes);
    if (joins_behind) erase(next);
  } else if (joins_behind) {
    *behind = {hole.offset, hole.bytes + behind->bytes, it};
    leaves_[next.leaf].longest = std::max(leaves_[next.leaf].longest, behind->bytes);
  } else {
    insert(here, {hole.offset, hole.bytes, it});
  }
}

void FreeRuns::insert(Place place, const Run& run) {
  if (leaves_.empty()) leaves_.emplace_back();
  Leaf& leaf = leaves_[place.leaf];
  leaf.runs.insert(leaf.runs.begin() + static_cast<std::ptrdiff_t>(place.index), run);
  leaf.longest = std::max(leaf.longest, run.bytes);
  if (leaf.runs.size() <= kLeaf) return;
  const auto half = leaf.runs.begin() + static_cast<std::ptrdiff_t>(kLeaf / 2);
  Leaf upper{{half, leaf.runs.end()}, 0};
  leaf.runs.erase(half, leaf.runs.end());
  leaves_.insert(leaves_.begin() + static_cast<std::ptrdiff_t>(place.leaf) + 1, std::move(upper));
  measure(place.leaf);
  measure(place.leaf + 1);
}

void FreeRuns::erase(Place place) {
  std::vector<Run>& runs = leaves_[place.leaf].runs;
  runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(place.index));
  if (runs.empty()) leaves_.erase(leaves_.begin() + static_cast<std::ptrdiff_t>(place.leaf));
  else measure(place.leaf);
}

void FreeRuns::measure(std::size_t leaf) {
  leaves_[leaf].longest = 0;
  for (const Run& r : leaves_[leaf].runs) leaves_[leaf].longest = std::max(leaves_[leaf].longest, r.bytes);
}

}  // namespace tandem::lowering
