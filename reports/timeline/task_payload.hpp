#pragma once
// Payload of a task in a timeline.

#include <cstdint>
#include <string>

#include "models/ops/op.hpp"

namespace tandem {

/// `payload` (models/ops/op.hpp) of a plan's tasks. Where a token travels once to a rank (DeepEP), it is all copies of a member's
/// tokens, that to itself included, as an all-to-all's vector includes the member's own share.
class TaskPayload {
 public:
  /// `plan_json`: the completed plan; without one, all tasks have `payload`.
  explicit TaskPayload(const std::string& plan_json);

  Bytes of(const Op& op) const;

 private:
  std::int64_t expert_ranks_ = 0;  ///< 0: not known
};

}  // namespace tandem
