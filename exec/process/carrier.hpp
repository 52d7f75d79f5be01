#pragma once
// What carries bytes between processes: MPI or Gloo. It knows no ranks, adds nothing up and gives no message a meaning.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "models/base/error.hpp"

namespace tandem::exec {

/// A peer's connection has ended before its message had come or gone.
class PeerLost : public CommError {
 public:
  PeerLost(int peer, const std::string& what) : CommError(what), process(peer) {}
  int process;
};

/// A message on its way. Its buffer must stay until wait() has returned or thrown.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Returns when the message has come, or when the buffer of one that goes is free again. Throws PeerLost, or CommError with the
  /// cause of the carrier's abort.
  virtual void wait() = 0;
};

/// Which of the messages between two processes one is, at most kMostTag. Those of one tag keep their order.
using Tag = std::uint32_t;
constexpr Tag kMostTag = (1u << 28) - 1;

/// One process' end. Thread-safe. Waits block.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual int process() const = 0;
  virtual int processes() const = 0;
  virtual std::unique_ptr<Transfer> send(int to, Tag tag, std::span<const std::byte> bytes) = 0;
  /// The message must have as many bytes.
  virtual std::unique_ptr<Transfer> receive(int from, Tag tag, std::span<std::byte> bytes) = 0;
  /// Wakes every wait, now and later. The first cause counts.
  virtual void abort(const std::string& cause) = 0;
  /// Ends the connections, all processes at once; behind abort() without the others.
  virtual void close() = 0;
};

}  // namespace tandem::exec
