#pragma once
// PyTorch's caching allocator on one stream, and the device memory that it takes (c10/cuda/CUDACachingAllocator.cpp,
// get_free_block, should_split, get_allocation_size, free_block, try_allocate_expandable_block; constants in
// c10/core/AllocatorConfig.h).

#include <tuple>
#include <vector>

#include <boost/container/flat_map.hpp>
#include <boost/container/flat_set.hpp>

#include "models/base/units.hpp"

namespace tandem::sim {

/// Takes segments from the device and cuts them into blocks. A tensor gets the smallest free block that is large enough, or a new
/// segment. A freed block joins free neighbours in its segment, and segments stay until give_back(). Expandable segments (PyTorch's
/// expandable_segments) are two, for small and for other tensors. They grow in place of new segments, by as much as the free block
/// at their end lacks; that block is used last.
class CachingAllocator {
 public:
  explicit CachingAllocator(bool expandable = false) : expandable_(expandable) {}
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// Where a tensor lies.
  struct Place {
    std::size_t segment = 0;
    std::int64_t offset = 0;  ///< bytes
  };

  /// Returns a place for `bytes`, at least 0.
  Place allocate(Bytes bytes);
  /// Frees a place that allocate() returned and that is not freed yet; throws ContractError for any other.
  void release(Place place);
  /// How much allocate(bytes) would add to reserved() now. Throws ContractError with expandable segments.
  Bytes growth(Bytes bytes) const;
  /// Returns empty segments to the device, as PyTorch does before it fails (release_cached_blocks). Throws as growth() does.
  void give_back();

  Bytes reserved() const { return reserved_; }  ///< sum of all segments
  Bytes allocated() const { return allocated_; }  ///< sum of the blocks in use

 private:
  struct Block {
    std::int64_t bytes = 0;
    bool free = true;
  };
  struct Segment {
    bool small = false;
    boost::container::flat_map<std::int64_t, Block> blocks;  ///< by offset, without gaps
  };
  using FreeBlock = std::tuple<std::int64_t, std::size_t, std::int64_t>;  ///< bytes, segment, offset
  using FreeBlocks = boost::container::flat_set<FreeBlock>;

  std::size_t add_segment(std::int64_t bytes, bool small);
  Place expand(std::int64_t wanted, bool small);
  FreeBlocks::const_iterator best_fit(const FreeBlocks& free, std::int64_t wanted) const;

  bool expandable_;
  std::vector<Segment> segments_;
  FreeBlocks free_large_, free_small_;
  Bytes reserved_, allocated_;
};

}  // namespace tandem::sim
