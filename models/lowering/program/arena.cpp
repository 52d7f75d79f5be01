#include "models/lowering/program/arena.hpp"

#include <algorithm>
#include <utility>

namespace tandem::lowering {

inline Arena::Size& Arena::size(std::int64_t bytes) {
  const auto found = std::find_if(sizes_.begin(), sizes_.end(), [&](const Size& s) { return s.bytes == bytes; });
  return found != sizes_.end() ? *found : sizes_.emplace_back(Size{bytes, {}});
}

std::int64_t Arena::needed(Bytes bytes) { return std::max<std::int64_t>(arena_aligned(bytes.count()), kArenaAlignment); }

Arena::Block Arena::allocate(Bytes bytes) {
  const std::int64_t need = needed(bytes);
  if (!keeps_places_) return search(need);
  std::vector<Hole>& same = size(need).holes;
  if (same.empty()) return search(need);
  const Block block{same.back().offset, Bytes(need), same.back().last};
  same.pop_back();
  return block;
}

Arena::Block Arena::search(std::int64_t need) {
  ++searches_;
  FreeRuns::Place place;
  if (!keeps_places_ || !free_.first_fit(need, -1, place)) {
    for (Size& s : sizes_) {
      for (const Hole& h : s.holes) free_.add(h);
      s.holes.clear();
    }
    if (!free_.first_fit(need, end_, place)) return append(Bytes(need));  // a run of holes at the end of the arena grows it
  }
  const FreeRuns::Taken taken = free_.take(place, need);
  end_ = std::max(end_, taken.offset + need);
  return {taken.offset, Bytes(need), taken.prior};
}

Arena::Block Arena::append(Bytes bytes) {
  const Block block{end_, Bytes(needed(bytes)), {}};
  end_ += block.bytes.count();
  return block;
}

void Arena::release(std::int64_t offset, Bytes bytes, const Frontier& last) {
  const Hole hole{offset, bytes.count(), last};
  keeps_places_ ? size(bytes.count()).holes.push_back(hole) : free_.add(hole);
}

void Arena::show(RepeatDetector& r) {
  r.number(end_);
  r.number(searches_);
  for (Size& s : sizes_) {
    r.number(s.bytes);
    r.number(static_cast<std::int64_t>(s.holes.size()));
    for (Hole& h : s.holes) r.points(h.last);
  }
  free_.show(r);
}

std::vector<Arena::Places> Arena::places() const {
  std::vector<Places> all;
  for (const Size& s : sizes_) {
    Places& of = all.emplace_back(Places{s.bytes, {}});
    for (const Hole& h : s.holes) of.offsets.push_back(h.offset);
  }
  return all;
}

void Arena::reorder(std::span<const Places> places) {
  for (std::size_t s = 0; s < places.size(); ++s)
    for (std::size_t h = 0; h < places[s].offsets.size(); ++h) sizes_[s].holes[h].offset = places[s].offsets[h];
}

}  // namespace tandem::lowering
