#include "models/lowering/program/last_touches.hpp"

#include <algorithm>

namespace tandem::lowering {

/// Filled holes stay in the list with 0 bytes. A hole freed near them later takes their place, so no entry moves.
Frontier LastTouches::take(std::int64_t offset, std::int64_t bytes) {
  const std::int64_t end = offset + bytes;
  const auto behind = [](std::int64_t o, const Hole& h) { return o < h.offset + h.bytes; };
  Frontier touched{};
  for (auto h = std::upper_bound(holes_.begin(), holes_.end(), offset, behind); h != holes_.end() && h->offset < end; ++h) {
    if (h->bytes == 0) continue;
    merge(touched, h->last);
    const std::int64_t below = std::max<std::int64_t>(offset - h->offset, 0), above = h->offset + h->bytes - end;
    if (below > 0 && above > 0) {  // both ends stay
      h->bytes = below;
      holes_.insert(h + 1, {end, above, h->last});
      return touched;
    }
    if (above > 0) h->offset = end, h->bytes = above;
    else h->bytes = below;
  }
  return touched;
}

void LastTouches::release(const Hole& hole) {
  auto next = std::upper_bound(holes_.begin(), holes_.end(), hole.offset,
                               [](std::int64_t o, const Hole& h) { return o < h.offset; });
  if (next != holes_.begin() && (next - 1)->bytes == 0) *(next - 1) = hole;
  else if (next != holes_.end() && next->bytes == 0) *next++ = hole;
  else next = holes_.insert(next, hole) + 1;
  const std::int64_t end = hole.offset + hole.bytes;
  for (; next != holes_.end() && next->offset < end; ++next) next->offset = end;  // these have no bytes
}

}  // namespace tandem::lowering
