#pragma once
// Which bytes of a collective go from which member to which.

#include <cstddef>
#include <span>
#include <vector>

#include "exec/communicator/collective_share.hpp"

namespace tandem::exec {

/// What one member gives to and takes from each member, by their index; nothing where the list is empty or the span is.
struct Routes {
  std::vector<std::span<const std::byte>> give;
  std::vector<std::span<std::byte>> take;
};

/// How one member does its part of a collective over members that reach each other by messages alone.
struct Itinerary {
  Routes first;
  bool folds = false;          ///< what was taken, with the member's own part, is folded into `result`
  std::span<const std::byte> own;
  std::span<std::byte> result;
  Routes second;               ///< behind the fold
};

/// Of member `index`; only its entry of `exchange` is looked at. Parts that are to be folded are taken into `room`, which grows to
/// what they need; nothing else may use it until the fold. Throws what perform_share does.
Itinerary itinerary(const Exchange& exchange, std::size_t index, std::vector<std::byte>& room);

/// What the member gives to itself.
void copy_own(const Itinerary& way, std::size_t index);

/// Left fold of the members' parts in `room` and the own one, into `result`.
void fold(const Itinerary& way, const Collective& op, std::size_t index);

}  // namespace tandem::exec
