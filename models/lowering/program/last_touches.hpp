#pragma once
// Who touched the bytes of an arena last, where places of tensors are known beforehand.

#include <vector>

#include "models/lowering/program/free_runs.hpp"

namespace tandem::lowering {

/// Bytes that were freed, by address. What was never used has been touched by nobody.
class LastTouches {
 public:
  /// A tensor comes to lie at `offset`: who touched any of its bytes last. Nobody does from now on.
  Frontier take(std::int64_t offset, std::int64_t bytes);
  /// A tensor goes; none of its bytes is freed already.
  void release(const Hole& hole);

 private:
  std::vector<Hole> holes_;  ///< ascending, apart
};

}  // namespace tandem::lowering
