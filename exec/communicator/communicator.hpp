#pragma once
// What moves bytes between ranks. Every reduction is a left fold in ascending group index per element.

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

/// What a rank's communicator really moved, kept apart from the graph's books.
struct CommCounters {
  struct Line { std::int64_t calls = 0, payload_bytes = 0, received_bytes = 0; };
  std::map<std::pair<CollectiveKind, Group>, Line> collectives; ///< payload: nccl-tests' size; received: copied from peers
  std::int64_t sends = 0, sent_bytes = 0;
};

/// Who joins a collective: the group's ranks in ascending group index. Calls of different lanes are separate sequences,
/// even over the same group: a rank's streams take one each.
struct Party {
  Party(const std::vector<Rank>& ranks, int sequence = 0) : members(ranks), lane(sequence) {}
  const std::vector<Rank>& members;
  int lane;
};

/// Which of the messages between two ranks one is.
struct MessageName {
  std::int64_t tag = 0;  ///< the same at both ends
  int way = 0;           ///< messages of one way keep their order; those of different ways never meet
};

/// What a graph's collectives and messages go over.
struct Lines {
  std::map<std::pair<Group, int>, std::int64_t> groups;  ///< by group and lane: the most bytes that parts of one fold take
  std::set<std::pair<int, int>> messages;                ///< way, and the stage that sends
};

class Queue;

/// One rank's end. Calls block (never spin) and return when the last participant had arrived. Calls on different groups,
/// lanes, peers or ways may come from different threads at once; those on one must come from one thread at a time.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// Collective over `party`, which contains this rank; `in` and `out` as models/ops/op.hpp has them for its kind. When it
  /// returns nobody reads or writes them any more. Throws CommError when any rank failed; the message names the first
  /// failing rank and its cause.
  TimePoint run(const Collective& op, const Party& party, const std::byte* in, std::byte* out) {
    return run(op, party, {in, out});
  }
  virtual TimePoint run(const Collective& op, const Party& party, const MemberBuffers& mine) = 0;
  /// Rendezvous: returns when the peer has the bytes.
  virtual TimePoint send(const std::byte* buffer, std::int64_t bytes, Rank to, const MessageName& name) = 0;
  virtual TimePoint recv(std::byte* buffer, std::int64_t bytes, Rank from, const MessageName& name) = 0;

  /// Connects all that the lines need, before the first call: all ranks call it alike, at once.
  virtual void prepare(const Lines& lines, const Mesh& mesh) { static_cast<void>(lines), static_cast<void>(mesh); }
  /// Where false, run(), send() and recv() are not to be called. The three below put the same on a queue of the rank's backend and
  /// return at once; what they are given by address must stay until the queue has come so far. One thread calls them.
  virtual bool blocks() const { return true; }
  virtual void issue(const Collective& op, const Party& party, const MemberBuffers& mine, Queue& queue);
  virtual void issue_send(std::span<const std::byte> sent, Rank to, const MessageName& name, Queue& queue);
  virtual void issue_recv(std::span<std::byte> received, Rank from, const MessageName& name, Queue& queue);
  /// Behind an abort queues may end as if all were well: throws CommError then.
  virtual void require_whole() const {}
  /// Wakes every waiting rank with CommError. The first call wins; later ones are ignored.
  virtual void abort(const std::string& cause) = 0;
  virtual CommCounters counters() const = 0;
};

/// Communicators of `world` ranks that are threads of this process, by rank. They follow the addresses that they are given: for
/// backends whose memory is the host's, or with a engine that stays, the engine's.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int world, MemoryEngine& engine = host_engine());

}  // namespace tandem::exec
