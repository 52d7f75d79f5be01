#pragma once
// The arithmetic and copying of collectives over buffers that one address space holds, done by a MemoryEngine.
//
// Slice r of n is elements [elements*r/n, elements*(r+1)/n). What a member's share writes, no other share reads or writes:
// an all-reduce folds slice r over all members and writes it to every buffer, where nobody else touches slice r; a
// reduce-scatter writes into its own input at most its own slice, which nobody else folds; an all-gather writes slice r
// of every output, where only member r's own input may lie. So shares run at once without a copy.

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/communicator/memory_engine.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec {

/// In the host's memory. Of an all_to_all of rows: how many go to and come from each member, as `each` numbers a member, and how many fit into out. Of a
/// gather or a scatter of rows `sent` is how many each member has.
struct RowCounts {
  const std::int32_t *sent = nullptr, *received = nullptr;
  std::int64_t each = 0, room = 0;
};

/// What one member gives and where it gets the result.
struct MemberBuffers {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  RowCounts rows = {};        ///< collectives of rows only
};

/// One collective, members in ascending group index.
struct Exchange {
  Collective op;
  std::span<const MemberBuffers> members;
  MemoryEngine& engine = host_engine();
};

/// Throws ContractError when `op` cannot be done over `members`: a dtype that cannot be reduced or split, shares that
/// would not be equal.
void require_exchangeable(const Collective& op, std::size_t members);

/// Throws ContractError when member `index`'s buffers lie to each other as models/ops/op.hpp does not allow.
void require_placed(const Exchange& exchange, std::size_t index);

/// Does member `index`'s share and adds to received[j] the bytes that reached member j from another member. When every
/// member's share is done the collective is. Shares touch disjoint bytes.
void perform_share(const Exchange& exchange, std::size_t index, std::span<std::int64_t> received);

/// Left fold of `elements` elements of every part's `in`, in ascending order, into the first part's `out`, which may be one of them.
/// The same arithmetic as perform_share's.
void fold_parts(const Collective& op, std::span<const MemberBuffers> parts, std::int64_t elements,
                MemoryEngine& engine = host_engine());

}  // namespace tandem::exec
