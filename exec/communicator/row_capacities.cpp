#include "exec/communicator/row_capacities.hpp"

#include "exec/communicator/slices.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

/// Rows that member `index` has afterwards.
std::int64_t rows_of(const Exchange& x, std::size_t index) {
  const RowCounts& counts = x.members[index].rows;
  switch (x.op.kind) {
    case CollectiveKind::all_to_all: return rows_before(counts.received, counts.each, x.members.size());
    case CollectiveKind::all_gather: return rows_before(counts.sent, counts.each, x.members.size());
    case CollectiveKind::reduce_scatter: return rows_for(counts.sent, counts.each, index);
    case CollectiveKind::all_reduce: case CollectiveKind::broadcast: case CollectiveKind::shift: break;
  }
  throw ContractError("rows are exchanged by all-to-all, all-gather and reduce-scatter");
}

}  // namespace

void require_capacities(const Exchange& x, std::span<const Rank> ranks) {
  std::size_t fullest = 0;
  std::int64_t most = -1;
  for (std::size_t i = 0; i < x.members.size(); ++i)
    if (const std::int64_t rows = rows_of(x, i); rows > most) fullest = i, most = rows;
  const std::int64_t capacity = x.members[fullest].rows.capacity;
  if (most > capacity) throw RowsError(most, capacity, ranks[fullest]);
}

}  // namespace tandem::exec
