#pragma once
// Which bytes of a collective go from which member to which.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "exec/communicator/collective_share.hpp"

namespace tandem::exec {

/// Up to this many bytes over all members each member gets everything and folds it itself: one message each way, not two.
constexpr std::int64_t kWholeBytes = 64 * 1024;

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
using RoomOf = std::function<std::byte*(std::size_t bytes)>;
Itinerary itinerary(const Exchange& exchange, std::size_t index, const RoomOf& room);

/// What the member gives to itself.
void copy_own(const Itinerary& way, std::size_t index, MemoryEngine& engine = host_engine());

/// Left fold of the members' parts in `room` and the own one, into `result`.
void fold(const Itinerary& way, const Collective& op, std::size_t index, MemoryEngine& engine = host_engine());

}  // namespace tandem::exec
