#pragma once
// Which bytes each member of a collective sends to each other member.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exec/communicator/collective_share.hpp"

namespace tandem::exec {

/// Up to this many bytes over all members, an all-reduce sends everything to every member: one message per pair, not two.
constexpr std::int64_t kWholeBytes = 64 * 1024;

/// By member index: the bytes that one member sends (give) and receives (take). An empty list or span means no bytes.
struct Routes {
  std::vector<std::span<const std::byte>> give;
  std::vector<std::span<std::byte>> take;
};

/// One member's part of a collective done by messages: exchange `first`; reduce into `result` if `folds`; exchange `second`.
struct MessageSteps {
  Routes first;
  /// If true, the received parts and the member's `own` part are reduced into `result`. `first.take` then holds one window of each.
  bool folds = false;
  std::span<const std::byte> own;
  std::span<std::byte> result;
  Routes second;               ///< exchanged after the reduction
  /// Copies before the first exchange and after all exchanges, where what travels together lies apart.
  struct Copy {
    const std::byte* from;
    std::byte* to;
    std::int64_t bytes;
  };
  std::vector<Copy> pack{}, unpack{};

  /// Bytes that member `j` sends to this one in the first exchange.
  std::size_t taken(std::size_t j) const { return folds ? own.size() : first.take[j].size(); }
};

/// The message steps of member `index`; only its own entry of `exchange` is read. Parts to be reduced go to
/// buffer_of(bytes), at most `window` bytes of each. That memory is in use until the fold. Throws the same errors as perform_share.
using BufferOf = std::function<std::byte*(std::size_t bytes)>;
MessageSteps message_steps(const Exchange& exchange, std::size_t index, const BufferOf& buffer_of, std::size_t window = SIZE_MAX);

/// The first exchange restricted to bytes [first, first + window) of each part; empty where a part is shorter. Reductions are per
/// element, so processing window by window gives the same bits.
MessageSteps window_of(const MessageSteps& way, std::size_t first, std::size_t window);

/// Performs copies in order.
void perform(std::span<const MessageSteps::Copy> copies, MemoryEngine& engine = host_engine());

/// Copies what the member sends to itself.
void copy_own(const MessageSteps& way, std::size_t index, MemoryEngine& engine = host_engine());

/// Reduces the members' parts in first.take and the member's own part into `result`, as a left fold in ascending index.
void fold(const MessageSteps& way, const Collective& op, std::size_t index, MemoryEngine& engine = host_engine());

}  // namespace tandem::exec
