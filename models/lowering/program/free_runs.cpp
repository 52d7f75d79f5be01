#include "models/lowering/program/free_runs.hpp"

#include <algorithm>
#include <utility>

namespace tandem::lowering {

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
  Taken taken{run.offset, std::min(bytes, run.bytes), nodes_[run.first].hole.last};
  for (std::int64_t left = taken.bytes; left > 0;) {
    Node& first = nodes_[run.first];
    const std::int64_t part = std::min(left, first.hole.bytes);
    if (left < taken.bytes) merge(taken.prior, first.hole.last);
    left -= part;
    first.hole.offset += part;
    first.hole.bytes -= part;
    if (first.hole.bytes > 0) continue;
    spare_ = std::exchange(run.first, std::exchange(first.next, spare_));
  }
  run.offset += taken.bytes;
  run.bytes -= taken.bytes;
  if (run.bytes == 0) erase(place, longest);
  else if (longest) measure(place.leaf);
  return taken;
}

inline std::uint32_t FreeRuns::node(const Hole& hole) {
  if (spare_ == kNone) {
    nodes_.push_back({hole, kNone});
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  const std::uint32_t id = std::exchange(spare_, nodes_[spare_].next);
  nodes_[id] = {hole, kNone};
  return id;
}

/// The first run after `offset`, which must be free of runs. At the start of a leaf, the end of the leaf before is returned.
inline FreeRuns::Place FreeRuns::after(std::int64_t offset) const {
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
  const std::uint32_t id = node(hole);
  const std::int64_t end = hole.offset + hole.bytes;
  const bool joins_before = before != nullptr && before->end() == hole.offset;
  const bool joins_behind = behind != nullptr && behind->offset == end;
  if (joins_before) {
    nodes_[before->last].next = id;
    before->last = joins_behind ? behind->last : id;
    if (joins_behind) nodes_[id].next = behind->first;
    before->bytes += hole.bytes + (joins_behind ? behind->bytes : 0);
    leaves_[here.leaf].longest = std::max(leaves_[here.leaf].longest, before->bytes);
    if (joins_behind) erase(next, next.leaf != here.leaf);
  } else if (joins_behind) {
    nodes_[id].next = behind->first;
    *behind = {hole.offset, hole.bytes + behind->bytes, id, behind->last};
    leaves_[next.leaf].longest = std::max(leaves_[next.leaf].longest, behind->bytes);
  } else {
    insert(here, {hole.offset, hole.bytes, id, id});
  }
}

/// The distribution of runs over leaves does not matter.
void FreeRuns::show(RepeatDetector& r) {
  for (const Leaf& leaf : leaves_)
    for (const Run& run : leaf.runs) {
      if (r.over()) return;
      r.number(run.offset);
      r.number(run.bytes);
      for (std::uint32_t n = run.first;; n = nodes_[n].next) {
        r.number(nodes_[n].hole.bytes);
        r.points(nodes_[n].hole.last);
        if (n == run.last) break;
      }
    }
}

inline void FreeRuns::insert(Place place, const Run& run) {
  if (leaves_.empty()) {
    leaves_.push_back({std::move(idle_), 0});
    leaves_.back().runs.reserve(kLeaf + 1);
  }
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

/// `longest`: the run was the longest of its leaf.
inline void FreeRuns::erase(Place place, bool longest) {
  std::vector<Run>& runs = leaves_[place.leaf].runs;
  runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(place.index));
  if (runs.empty()) {
    idle_ = std::move(runs);
    leaves_.erase(leaves_.begin() + static_cast<std::ptrdiff_t>(place.leaf));
  } else if (longest) {
    measure(place.leaf);
  }
}

inline void FreeRuns::measure(std::size_t leaf) {
  leaves_[leaf].longest = 0;
  for (const Run& r : leaves_[leaf].runs) leaves_[leaf].longest = std::max(leaves_[leaf].longest, r.bytes);
}

}  // namespace tandem::lowering
