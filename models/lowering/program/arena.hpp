#pragma once
// Places a stage's tensors in one arena while its program is written. Tracks the last task to touch each byte.

#include <span>

#include "models/lowering/program/free_runs.hpp"

namespace tandem::lowering {

/// First fit at the lowest address. After keep_places(), freed bytes stay reserved for tensors of exactly that
/// size; a tensor takes the latest such place. If there is none, first fit applies; before the arena grows,
/// all places are merged into free bytes. So a micro-batch takes the places of one that has just ended, and
/// which tensor follows which does not depend on addresses. Free bytes keep the frontier of their last owner.
class Arena {
 public:
  struct Block {
    std::int64_t offset;
    Bytes bytes;         ///< rounded up to the alignment
    Frontier prior;      ///< last tasks to use these bytes; they may still run
  };
  Block allocate(Bytes bytes);
  /// Allocates at the end of the arena.
  Block append(Bytes bytes);
  void release(std::int64_t offset, Bytes bytes, const Frontier& last);
  void keep_places() { keeps_places_ = true; }
  Bytes high_water() const { return Bytes(end_); }
  /// Number of allocations without a place of their size. States shown before and after such an allocation never match.
  std::int64_t searches() const { return searches_; }

  /// Shows the detector everything except the offsets of places.
  void show(RepeatDetector& r);

  /// Offsets of the free places of one size; the last one is taken next.
  struct Places {
    std::int64_t bytes;
    std::vector<std::int64_t> offsets;
  };
  /// The free places of all sizes.
  std::vector<Places> places() const;
  /// Sets the order of the same places.
  void reorder(std::span<const Places> places);

 private:
  struct Size {
    std::int64_t bytes;
    std::vector<Hole> holes;
  };
  static std::int64_t needed(Bytes bytes);
  inline Size& size(std::int64_t bytes);
  Block search(std::int64_t need);

  std::vector<Size> sizes_;      ///< only a few
  FreeRuns free_;                ///< free bytes that are not reserved as places
  bool keeps_places_ = false;
  std::int64_t end_ = 0, searches_ = 0;
};

}  // namespace tandem::lowering
