#pragma once
// What messages say of collectives and ranks.

#include <span>
#include <string>

#include "models/base/ids.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec {

/// "all_reduce of 64 fp32".
std::string describe(const Collective& op);
std::string rank_text(Rank r);
/// "rank 2", "ranks 0, 1 and 3".
std::string ranks_text(std::span<const Rank> ranks);

/// Whether two ranks have come to the same collective.
bool alike(const Collective& a, const Collective& b);
/// What is wrong where they have not.
std::string mismatch(const Collective& a, Rank first, const Collective& b, Rank second);
/// The same of a message: bytes and tags of both ends.
struct MessageEnd {
  std::int64_t bytes = 0, tag = 0;
  bool operator==(const MessageEnd&) const = default;
};
std::string mismatch(const MessageEnd& sent, Rank from, const MessageEnd& wanted, Rank to);

}  // namespace tandem::exec
