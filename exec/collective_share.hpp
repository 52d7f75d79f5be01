#pragma once
// The arithmetic and copying of collectives over buffers that one address space holds.
//
// Slice r of n is elements [elements*r/n, elements*(r+1)/n). Member r folds slice r over all members in ascending group
// index and writes it to every buffer: nobody else touches slice r of any buffer, so shares run at once without a copy.

#include <cstddef>
#include <cstdint>
#include <span>

#include "models/op.hpp"

namespace tandem::exec {

/// One collective of `buffers.size()` members, buffers in ascending group index.
struct Exchange {
  Collective op;
  std::span<std::byte* const> buffers;
};

/// Throws ContractError when `op` cannot be done over `members`: a dtype that cannot be reduced or split, an
/// all-to-all that does not divide.
void require_exchangeable(const Collective& op, std::size_t members);

/// Does member `index`'s share in place and adds to received[j] the bytes that reached member j from another member.
/// When every member's share is done the collective is. Shares touch disjoint bytes.
void perform_share(const Exchange& exchange, std::size_t index, std::span<std::int64_t> received);

}  // namespace tandem::exec
