#include "models/lowering/arena.hpp"

#include <algorithm>

namespace tandem::lowering {

// A run of holes at the end of the arena grows it.
Arena::Block Arena::allocate(Bytes bytes) {
  const std::int64_t need = std::max<std::int64_t>(arena_aligned(bytes.count()), kArenaAlignment);
  FreeRuns::Place place;
  if (!free_.first_fit(need, end_, place)) return append(bytes);
  const FreeRuns::Taken taken = free_.take(place, need);
  end_ = std::max(end_, taken.offset + need);
  return {taken.offset, Bytes(need), taken.prior};
}

Arena::Block Arena::append(Bytes bytes) {
  const std::int64_t need = std::max<std::int64_t>(arena_aligned(bytes.count()), kArenaAlignment);
  const Block block{end_, Bytes(need), {}};
  end_ += need;
  return block;
}

void Arena::release(std::int64_t offset, Bytes bytes, const Frontier& last) { free_.add({offset, bytes.count(), last}); }

}  // namespace tandem::lowering
