#pragma once
// Moves bytes between ranks. Every reduction is a left fold per element, in ascending group index.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exec/communicator/collective_share.hpp"
#include "models/ops/op.hpp"
#include "models/plan/mesh.hpp"

namespace tandem::exec {

using TimePoint = std::chrono::steady_clock::time_point;

/// Bytes that a rank's communicator really moved, counted independently of the task graph's totals, to check these.
struct CommCounters {
  struct Line { std::int64_t calls = 0, payload_bytes = 0, received_bytes = 0; };
  std::map<std::pair<CollectiveKind, Group>, Line> collectives; ///< payload: nccl-tests' size; received: bytes from peers
  std::int64_t sends = 0, sent_bytes = 0;
};

/// The members of a collective: the group's ranks in ascending group index. Calls of different lanes are independent sequences,
/// even over the same group. Each stream of a rank uses its own lane.
struct Participants {
  Participants(const std::vector<Rank>& ranks, int sequence = 0) : members(ranks), lane(sequence) {}
  const std::vector<Rank>& members;
  int lane;
};

/// Identifies a message between two ranks.
struct MessageName {
  std::int64_t tag = 0;  ///< equal at both ends
  int way = 0;           ///< direction; messages of one way stay in order, those of different ways are independent
};

/// The connections that a task graph's collectives and messages need.
struct Lines {
  std::map<std::pair<Group, int>, std::int64_t> groups;  ///< (group, lane) -> bytes of memory for one reduction's parts, at most
  std::set<std::pair<int, int>> messages;                ///< (way, sending stage)
};

class Queue;

/// One rank's communicator. Calls block (without spinning) and return when the last participant has arrived. Calls for different
/// groups, lanes, peers or ways may run concurrently on different threads. Calls for the same ones need one thread at a time.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// Performs a collective over `participants`, which contains this rank. `in` and `out`: see models/ops/op.hpp for its kind.
  /// After it returns no rank accesses them any more. Throws CommError if any rank failed; the message names the first failed
  /// rank and its cause.
  TimePoint run(const Collective& op, const Participants& participants, const std::byte* in, std::byte* out) {
    return run(op, participants, {in, out});
  }
  virtual TimePoint run(const Collective& op, const Participants& participants, const MemberBuffers& mine) = 0;
  /// Point-to-point messages. Rendezvous: send() returns when the peer has the bytes.
  virtual TimePoint send(const std::byte* buffer, std::int64_t bytes, Rank to, const MessageName& name) = 0;
  virtual TimePoint recv(std::byte* buffer, std::int64_t bytes, Rank from, const MessageName& name) = 0;

  /// Opens all connections in `lines` before the first call. All ranks must call it, with equal arguments, at the same time.
  virtual void prepare(const Lines& lines, const Mesh& mesh) { static_cast<void>(lines), static_cast<void>(mesh); }
  /// If false, use the three calls below in place of run(), send() and recv(). They enqueue on a queue of the rank's backend and
  /// return at once. Addresses must stay valid until the queue has performed the call. One thread calls them.
  virtual bool blocks() const { return true; }
  virtual void issue(const Collective& op, const Participants& participants, const MemberBuffers& mine, Queue& queue);
  virtual void issue_send(std::span<const std::byte> sent, Rank to, const MessageName& name, Queue& queue);
  virtual void issue_recv(std::span<std::byte> received, Rank from, const MessageName& name, Queue& queue);
  /// Throws CommError if an abort may have cut queued communication short. After an abort queues may end without an error.
  virtual void require_whole() const {}
  /// Makes every waiting rank throw CommError. The first call's cause is kept; later ones are ignored.
  virtual void abort(const std::string& cause) = 0;
  virtual CommCounters counters() const = 0;
};

/// Communicators, by rank, of `world` ranks that are threads of this process. They access the buffers directly. So the buffers must
/// be in host memory, or, with another `engine`, in that engine's memory. `engine` must outlive them.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int world, MemoryEngine& engine = host_engine());

}  // namespace tandem::exec
