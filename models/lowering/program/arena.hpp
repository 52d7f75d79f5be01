#pragma once
// Lays a stage's tensors out in one arena while its program is being written, remembering who touched every byte last.

#include <span>

#include "models/lowering/program/free_runs.hpp"

namespace tandem::lowering {

/// First fit, lowest address first. After keep_places(), released bytes stay a place for tensors of exactly that size, and a tensor takes the
/// latest such place. If there is none, first fit applies; before the arena grows, all places are merged into free bytes. So a micro-batch
/// takes the places of one that has just ended, and which tensor follows which does not depend on addresses.
/// Free bytes keep the frontier of their last owner.
class Arena {
 public:
  struct Block {
    std::int64_t offset;
    Bytes bytes;         ///< rounded up to the alignment
    Frontier prior;      ///< who may still be using these bytes
  };
  Block allocate(Bytes bytes);
  /// Behind everything there has been.
  Block append(Bytes bytes);
  void release(std::int64_t offset, Bytes bytes, const Frontier& last);
  void keep_places() { keeps_places_ = true; }
  Bytes high_water() const { return Bytes(end_); }
  /// How often there was no place of a tensor's size. What is shown of two times between which that was so is not the same.
  std::int64_t searches() const { return searches_; }

  /// Everything but the offsets of places.
  void show(RepeatDetector& r);

  /// Offsets of the places of one size, the next one last.
  struct Places {
    std::int64_t bytes;
    std::vector<std::int64_t> offsets;
  };
  /// Of all sizes there are.
  std::vector<Places> places() const;
  /// The same places lie there in another order.
  void reorder(std::span<const Places> places);

 private:
  struct Size {
    std::int64_t bytes;
    std::vector<Hole> holes;
  };
  static std::int64_t needed(Bytes bytes);
  inline Size& size(std::int64_t bytes);
  Block search(std::int64_t need);

  std::vector<Size> sizes_;      ///< a handful
  FreeRuns free_;                ///< what is no place any more
  bool keeps_places_ = false;
  std::int64_t end_ = 0, searches_ = 0;
};

}  // namespace tandem::lowering
