#pragma once
// Carries bytes between processes, over MPI or Gloo. It knows no ranks, performs no reductions and interprets no messages.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "models/base/error.hpp"

namespace tandem::exec {

/// A peer's connection ended before a message was completely sent or received.
class PeerLost : public CommError {
 public:
  PeerLost(int peer, const std::string& what) : CommError(what), process(peer) {}
  int process;
};

/// A message in transit. Its buffer must stay valid until wait() has returned or thrown.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Blocks until the message has been received, or until the buffer of a sent message may be reused. Throws PeerLost, or CommError
  /// with the cause of the carrier's abort.
  virtual void wait() = 0;
};

/// Identifies a message between two processes; at most kMostTag. Messages with one tag stay in order.
using Tag = std::uint32_t;
constexpr Tag kMostTag = (1u << 28) - 1;

/// One process' carrier. Thread-safe. Waits block.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual int process() const = 0;
  virtual int processes() const = 0;
  virtual std::unique_ptr<Transfer> send(int to, Tag tag, std::span<const std::byte> bytes) = 0;
  /// The message must have exactly bytes.size() bytes.
  virtual std::unique_ptr<Transfer> receive(int from, Tag tag, std::span<std::byte> bytes) = 0;
  /// Makes every present and later wait throw. Only the first cause is kept.
  virtual void abort(const std::string& cause) = 0;
  /// Closes the connections. All processes must call it together, except after abort().
  virtual void close() = 0;
};

}  // namespace tandem::exec
