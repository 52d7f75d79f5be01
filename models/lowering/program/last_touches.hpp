#pragma once
// The last tasks that touched each byte of an arena, for tensors whose places are known in advance.

#include <vector>

#include "models/lowering/program/free_runs.hpp"

namespace tandem::lowering {

/// Freed bytes by address. Bytes that were never used have no toucher.
class LastTouches {
 public:
  /// Allocates bytes at `offset` for a tensor. Returns the last tasks that touched any of them, and forgets these.
  Frontier take(std::int64_t offset, std::int64_t bytes);
  /// Frees a tensor's bytes. None of them may be free already.
  void release(const Hole& hole);

 private:
  std::vector<Hole> holes_;  ///< ascending, disjoint
};

}  // namespace tandem::lowering
