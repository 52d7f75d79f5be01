#pragma once
// Which bytes of a collective go from which member to which.

#include <cstddef>
#include <cstdint>
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

/// One member's part of a collective that is done by messages: exchange `first`, then (if `folds`) reduce into `result`, then exchange `second`.
struct MessageSteps {
  Routes first;
  /// What was taken, with the member's own part, is folded into `result`. `first.take` has room for a window of it then.
  bool folds = false;
  std::span<const std::byte> own;
  std::span<std::byte> result;
  Routes second;               ///< behind the fold

  /// Bytes that member `j` gives in the first part.
  std::size_t taken(std::size_t j) const { return folds ? own.size() : first.take[j].size(); }
};

/// Of member `index`; only its entry of `exchange` is looked at. Parts that are to be folded are taken into `room`, which grows to
/// what they need, of each at most `window` bytes; nothing else may use it until the fold. Throws what perform_share does.
using RoomOf = std::function<std::byte*(std::size_t bytes)>;
MessageSteps itinerary(const Exchange& exchange, std::size_t index, const RoomOf& room, std::size_t window = SIZE_MAX);

/// The first part alone, of bytes [first, first + window) of what each member is given; nothing where it has no more. A fold goes
/// element by element, so windows of whole elements one after another leave the same bits.
MessageSteps window_of(const MessageSteps& way, std::size_t first, std::size_t window);

/// What the member gives to itself.
void copy_own(const MessageSteps& way, std::size_t index, MemoryEngine& engine = host_engine());

/// Left fold of the members' parts in `room` and the own one, into `result`.
void fold(const MessageSteps& way, const Collective& op, std::size_t index, MemoryEngine& engine = host_engine());

}  // namespace tandem::exec
