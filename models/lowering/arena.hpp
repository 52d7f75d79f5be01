#pragma once
// Lays a stage's tensors out in one arena while its program is being written, remembering who touched every byte last.

#include "models/lowering/free_runs.hpp"

namespace tandem::lowering {

/// First fit, lowest address first. Free bytes keep the frontier of their last owner.
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
  Bytes high_water() const { return Bytes(end_); }

 private:
  FreeRuns free_;
  std::int64_t end_ = 0;
};

}  // namespace tandem::lowering
