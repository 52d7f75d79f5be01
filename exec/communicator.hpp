#pragma once
// What moves bytes between ranks. Every reduction is a left fold in ascending group index per element.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/mesh.hpp"
#include "models/op.hpp"

namespace tandem::exec {

using TimePoint = std::chrono::steady_clock::time_point;

/// What a rank's communicator really moved, kept apart from the graph's books.
struct CommCounters {
  struct Line { std::int64_t calls = 0, payload_bytes = 0, received_bytes = 0; };
  std::map<std::pair<CollectiveKind, Group>, Line> collectives; ///< payload: nccl-tests' size; received: copied from peers
  std::int64_t sends = 0, sent_bytes = 0;
};

/// One rank's end. Calls block (never spin) and return when the last participant had arrived. Slice r of n members is
/// elements [elements*r/n, elements*(r+1)/n): what all_gather takes from, and reduce_scatter leaves with, member r. A stream is a separate sequence of calls: calls of one rank on different
/// groups or directions may come from different threads at once, calls on one group must come from one thread at a time.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// Collective over `members` (ascending group index, containing this rank). In place. Throws CommError when any rank
  /// failed; the message names the first failing rank and its cause.
  virtual TimePoint run(const Collective& op, const std::vector<Rank>& members, std::byte* buffer) = 0;
  /// Rendezvous: returns when the peer has the bytes. `tag` must equal the receiver's.
  virtual TimePoint send(const std::byte* buffer, std::int64_t bytes, Rank to, std::int64_t tag) = 0;
  virtual TimePoint recv(std::byte* buffer, std::int64_t bytes, Rank from, std::int64_t tag) = 0;
  /// Wakes every waiting rank with CommError. The first call wins; later ones are ignored.
  virtual void abort(const std::string& cause) = 0;
  virtual CommCounters counters() const = 0;
};

/// Communicators of `world` ranks that are threads of this process, by rank.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int world);

}  // namespace tandem::exec
