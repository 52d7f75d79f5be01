#include "models/lowering/arena.hpp"

#include <algorithm>

namespace tandem::lowering {
namespace {

void merge(Frontier& into, const Frontier& other) {
  for (std::size_t s = 0; s < kStreams; ++s) into[s] = std::max(into[s], other[s]);
}

}  // namespace

Arena::Block Arena::allocate(Bytes bytes) {
  const std::int64_t need = std::max<std::int64_t>(arena_aligned(bytes.count()), kArenaAlignment);
  for (std::size_t i = 0; i < holes_.size(); ++i) {
    std::int64_t run = holes_[i].bytes;
    std::size_t j = i + 1;
    while (run < need && j < holes_.size() && holes_[j].offset == holes_[j - 1].offset + holes_[j - 1].bytes)
      run += holes_[j++].bytes;
    const bool at_end = holes_[j - 1].offset + holes_[j - 1].bytes == end_;
    if (run < need && !at_end) continue;

    // A run of holes at the end of the arena grows it.
    Block block{holes_[i].offset, Bytes(need), holes_[i].last};
    for (std::size_t k = i + 1; k < j; ++k) merge(block.prior, holes_[k].last);
    std::size_t kept = i;
    if (run > need) holes_[kept++] = {block.offset + need, run - need, holes_[j - 1].last};
    holes_.erase(holes_.begin() + static_cast<std::ptrdiff_t>(kept), holes_.begin() + static_cast<std::ptrdiff_t>(j));
    end_ = std::max(end_, block.offset + need);
    return block;
  }
  return append(bytes);
}

Arena::Block Arena::append(Bytes bytes) {
  const std::int64_t need = std::max<std::int64_t>(arena_aligned(bytes.count()), kArenaAlignment);
  const Block block{end_, Bytes(need), {}};
  end_ += need;
  return block;
}

void Arena::release(std::int64_t offset, Bytes bytes, const Frontier& last) {
  const auto at = std::lower_bound(holes_.begin(), holes_.end(), offset,
                                   [](const Hole& h, std::int64_t o) { return h.offset < o; });
  holes_.insert(at, {offset, bytes.count(), last});
}

}  // namespace tandem::lowering
