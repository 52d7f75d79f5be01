#include "sim/memory/caching_allocator.hpp"

#include <algorithm>
#include <iterator>

#include "models/base/error.hpp"

namespace tandem::sim {

namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kMinBlock = 512;            ///< sizes are multiples of it
constexpr std::int64_t kSmallSize = kMiB;          ///< largest "small" tensor
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kLargeSegment = 20 * kMiB;  ///< segment of larger tensors below kMinLarge
constexpr std::int64_t kMinLarge = 10 * kMiB;
constexpr std::int64_t kRoundLarge = 2 * kMiB;     ///< segments of all larger tensors are multiples of it

std::int64_t up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

std::int64_t block_for(Bytes bytes) { return std::max(kMinBlock, up(bytes.count(), kMinBlock)); }

std::int64_t segment_for(std::int64_t bytes) {
  if (bytes <= kSmallSize) return kSmallSegment;
  return bytes < kMinLarge ? kLargeSegment : up(bytes, kRoundLarge);
}

/// Whether the rest of a block behind a tensor becomes a block of its own.
bool splits(std::int64_t rest, bool any) { return any ? rest >= kMinBlock : rest > kSmallSize; }

}  // namespace

std::size_t CachingAllocator::add_segment(std::int64_t bytes, bool small) {
  segments_.push_back({small, {}});
  segments_.back().blocks[0] = {bytes, true};
  reserved_ += Bytes(bytes);
  return segments_.size() - 1;
}

/// Maps memory behind the segment until `wanted` bytes are free at its end, in multiples of a small or large segment's size.
/// Returns the place of that free block.
CachingAllocator::Place CachingAllocator::expand(std::int64_t wanted, bool small) {
  auto found = std::find_if(segments_.begin(), segments_.end(), [&](const Segment& s) { return s.small == small; });
  if (found == segments_.end()) found = segments_.insert(segments_.end(), Segment{small, {}});
  auto& blocks = found->blocks;
  const auto segment = static_cast<std::size_t>(found - segments_.begin());
  std::int64_t from = 0, free = 0;
  if (!blocks.empty()) {
    const auto last = std::prev(blocks.end());
    from = last->first + (last->second.free ? 0 : last->second.bytes);
    if (last->second.free) {
      free = last->second.bytes;
      (small ? free_small_ : free_large_).erase({free, segment, from});
    }
  }
  const std::int64_t more = up(wanted - free, small ? kSmallSegment : kLargeSegment);
  blocks[from] = {free + more, true};
  reserved_ += Bytes(more);
  return {segment, from};
}

/// The smallest free block that is large enough. A block at the end of an expandable segment counts as large as that can become
/// (get_free_block), so it comes last.
CachingAllocator::FreeBlocks::const_iterator CachingAllocator::best_fit(const FreeBlocks& free, std::int64_t wanted) const {
  const auto best = free.lower_bound({wanted, 0, 0});
  if (!expandable_ || best == free.end() || std::next(best) == free.end()) return best;
  const auto& [bytes, segment, offset] = *best;
  return offset == segments_[segment].blocks.rbegin()->first ? std::next(best) : best;
}

CachingAllocator::Place CachingAllocator::allocate(Bytes bytes) {
  const std::int64_t wanted = block_for(bytes);
  const bool small = wanted <= kSmallSize;
  auto& free = small ? free_small_ : free_large_;
  Place place;
  std::int64_t found = 0;
  if (const auto best = best_fit(free, wanted); best != free.end()) {
    std::tie(found, place.segment, place.offset) = *best;
    free.erase(best);
  } else if (expandable_) {
    place = expand(wanted, small);
    found = segments_[place.segment].blocks[place.offset].bytes;
  } else {
    found = segment_for(wanted);
    place.segment = add_segment(found, small);
  }
  const std::int64_t rest = found - wanted, taken = splits(rest, small || expandable_) ? wanted : found;
  auto& blocks = segments_[place.segment].blocks;
  const auto block = blocks.find(place.offset);
  block->second = {taken, false};
  if (taken < found) {
    blocks.emplace_hint(std::next(block), place.offset + taken, Block{rest, true});
    free.insert({rest, place.segment, place.offset + taken});
  }
  allocated_ += Bytes(taken);
  return place;
}

void CachingAllocator::release(Place place) {
  require(place.segment < segments_.size(), "a tensor is freed in a segment that is none");
  Segment& segment = segments_[place.segment];
  auto& free = segment.small ? free_small_ : free_large_;
  auto block = segment.blocks.find(place.offset);
  require(block != segment.blocks.end() && !block->second.free, "a tensor is freed that is not there");
  std::int64_t bytes = block->second.bytes;
  allocated_ -= Bytes(bytes);
  auto first = block, end = std::next(block);  // blocks to merge
  if (end != segment.blocks.end() && end->second.free) {
    free.erase({end->second.bytes, place.segment, end->first});
    bytes += end->second.bytes;
    ++end;
  }
  if (block != segment.blocks.begin() && std::prev(block)->second.free) {
    first = std::prev(block);
    free.erase({first->second.bytes, place.segment, first->first});
    bytes += first->second.bytes;
  }
  first->second = {bytes, true};
  free.insert({bytes, place.segment, first->first});
  segment.blocks.erase(std::next(first), end);
}

Bytes CachingAllocator::growth(Bytes bytes) const {
  require(!expandable_, "how an expandable segment would grow is not told");
  const std::int64_t wanted = block_for(bytes);
  const auto& free = wanted <= kSmallSize ? free_small_ : free_large_;
  return best_fit(free, wanted) == free.end() ? Bytes(segment_for(wanted)) : Bytes();
}

void CachingAllocator::give_back() {
  require(!expandable_, "expandable segments are not given back");
  for (FreeBlocks* free : {&free_large_, &free_small_})
    for (auto at = free->begin(); at != free->end();) {
      Segment& segment = segments_[std::get<1>(*at)];
      if (segment.blocks.size() > 1) {
        ++at;
        continue;
      }
      reserved_ -= Bytes(std::get<0>(*at));
      segment.blocks.clear();
      at = free->erase(at);
    }
}

}  // namespace tandem::sim
