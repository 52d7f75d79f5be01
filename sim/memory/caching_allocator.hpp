#pragma once
// What a framework's allocator takes of a device for tensors that come and go: PyTorch's (c10/cuda/CUDACachingAllocator.cpp,
// get_free_block, should_split, get_allocation_size, free_block, try_allocate_expandable_block; constants in
// c10/core/AllocatorConfig.h), of one stream.

#include <tuple>
#include <vector>

#include <boost/container/flat_map.hpp>
#include <boost/container/flat_set.hpp>

#include "models/base/units.hpp"

namespace tandem::sim {

/// Segments are taken from the device and cut into blocks. A tensor gets the smallest free block that is large enough, or a
/// segment; a free block joins free neighbours of its segment, and segments stay until give_back(). Where segments are expandable
/// (PyTorch's expandable_segments) there is one for small tensors and one for others, and in place of a new one more memory is
/// mapped behind it, as much as the free block at its end lacks; that block is the last that is taken.
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

  /// A place for `bytes`, at least 0.
  Place allocate(Bytes bytes);
  /// Frees what allocate() gave and nobody has freed yet; throws ContractError for anything else.
  void release(Place place);
  /// What reserved() would grow by if allocate(bytes) came now; not of expandable segments.
  Bytes growth(Bytes bytes) const;
  /// Segments without a tensor go back to the device, as they do before an allocation fails (release_cached_blocks); not expandable ones.
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
