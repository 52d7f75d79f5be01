#pragma once
// Rows of any length that a warp goes through, some elements of each thread at a time.

#include <cstdint>

#include "exec/device/rows.hpp"

namespace tandem::exec::device {

inline constexpr int kRowTeam = 32, kRowPieces = 4;
inline constexpr std::int64_t kRowOnce = std::int64_t{kRowTeam} * kRowPieces;
inline constexpr std::int64_t kRowsAtOnce = kThreads / kRowTeam;  ///< rows of a block

/// Calls body(i) for elements [0, n), which a team's threads share. An element has the same thread in every call.
template <class Team, class F>
TANDEM_HD inline void each_long(const Team& team, std::int64_t n, F body) {
  for (std::int64_t first = 0; first < n; first += kRowOnce)
    team.template each<kRowPieces>(n - first < kRowOnce ? n - first : kRowOnce, [&](Slot s) { body(first + s.i); });
}
template <class A, class Team, class F>
TANDEM_HD inline A sum_long(const Team& team, std::int64_t n, F term) {
  const auto at = [&](std::int64_t first) {
    const std::int64_t rest = n - first < kRowOnce ? n - first : kRowOnce;
    return team.template sum<A, kRowPieces>(rest, A{0}, [&](Slot s) { return term(first + s.i); });
  };
  A total = A{0};
  for (std::int64_t first = 0; first < n; first += kRowOnce) total += at(first);
  return total;
}
/// Calls body(team, row) for the block's rows of `count`, one per warp.
template <class Block, class F>
TANDEM_HD inline void each_row(Block& block, std::int64_t count, F body) {
  const std::int64_t first = block.index() * kRowsAtOnce;
  block.template teams<kRowTeam>(first, first + kRowsAtOnce < count ? first + kRowsAtOnce : count, body);
}

}  // namespace tandem::exec::device
