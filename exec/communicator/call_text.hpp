#pragma once
// Texts about collectives and ranks, for error messages.

#include <span>
#include <string>

#include "models/base/ids.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec {

/// For example "all_reduce of 64 fp32".
std::string describe(const Collective& op);
std::string rank_text(Rank r);
/// "rank 2" or "ranks 0, 1 and 3".
std::string ranks_text(std::span<const Rank> ranks);

/// True if two ranks have called the same collective: same kind, elements, dtype, reduction and row length.
bool alike(const Collective& a, const Collective& b);
/// The error message for two ranks that called different collectives.
std::string mismatch(const Collective& a, Rank first, const Collective& b, Rank second);
/// One end of a point-to-point message. mismatch() below is the error message if the two ends differ.
struct MessageEnd {
  std::int64_t bytes = 0, tag = 0;
  bool operator==(const MessageEnd&) const = default;
};
std::string mismatch(const MessageEnd& sent, Rank from, const MessageEnd& wanted, Rank to);

}  // namespace tandem::exec
