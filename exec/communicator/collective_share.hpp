#pragma once
// Performs collectives over buffers in one address space, by a MemoryEngine. Each member does a share of the work.
//
// Slice r of n is elements [elements*r/n, elements*(r+1)/n). No share reads or writes what another
// share writes. All-reduce: share r reduces slice r over all members and writes it to every buffer.
// Reduce-scatter: it writes at most its own slice of its own input. All-gather: it writes slice r
// of every output, where only member r's input may lie. So shares run concurrently without copies.

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/communicator/memory_engine.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec {

/// Row counts of a member, in host memory. all_to_all: rows `sent` to and `received` from each member, `each` numbers per member;
/// `capacity`: rows that fit into out. all_gather and reduce_scatter of rows: `sent` holds every member's number of rows.
struct RowCounts {
  const std::int32_t *sent = nullptr, *received = nullptr;
  std::int64_t each = 0, capacity = 0;
};

/// Elements of a whole buffer that one member owns.
struct OwnedRange {
  std::size_t member = 0;
  std::int64_t first = 0, elements = 0;
};

/// The buffers of one member of a collective.
struct MemberBuffers {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  RowCounts rows = {};        ///< only for collectives of rows
  /// Only for an all_gather of what members own: every member's ranges, the same list for all. `in` and `out` are the whole buffer,
  /// where each member has written its ranges.
  std::span<const OwnedRange> owned = {};
};

/// One call of a collective, with its members in ascending group index.
struct Exchange {
  Collective op;
  std::span<const MemberBuffers> members;
  MemoryEngine& engine = host_engine();
};

/// Throws ContractError if `op` is impossible for this number of members: its dtype cannot be reduced or split, or shares would
/// be unequal.
void require_exchangeable(const Collective& op, std::size_t members);

/// Throws ContractError if member `index`'s buffers overlap in a way that models/ops/op.hpp forbids.
void require_placed(const Exchange& exchange, std::size_t index);

/// Performs member `index`'s share. Adds to received[j] the bytes that member j got from other members. The collective is done once
/// every share is. Shares touch disjoint bytes.
void perform_share(const Exchange& exchange, std::size_t index, std::span<std::int64_t> received);

/// Left fold, in ascending order, of `elements` elements of every part's `in` into the first part's `out`, which may equal an
/// input. The arithmetic equals that of perform_share.
void fold_parts(const Collective& op, std::span<const MemberBuffers> parts, std::int64_t elements,
                MemoryEngine& engine = host_engine());

}  // namespace tandem::exec
