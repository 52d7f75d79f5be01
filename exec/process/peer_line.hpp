#pragma once
// Exchanges small messages with one other process. One thread receives, one sends.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "exec/process/carrier.hpp"
#include "exec/process/frame.hpp"
#include "exec/process/packing.hpp"
#include "models/base/threads.hpp"

namespace tandem::exec {

/// Callbacks on the line's threads. They must not throw.
struct LineEvents {
  std::function<bool(const Frame&, const Bytestring& body)> heard;  ///< returns false if nothing more follows
  std::function<void()> lost;                                       ///< the connection ended before `heard` returned false
};

class PeerLine {
 public:
  PeerLine(Carrier& carrier, int peer, LineEvents events);
  /// Waits until its threads have ended, which needs the peer to leave or the carrier to be aborted.
  ~PeerLine();
  PeerLine(const PeerLine&) = delete;
  PeerLine& operator=(const PeerLine&) = delete;

  /// Enqueues a message; does not block.
  void say(Frame frame, Bytestring body = {});
  /// Waits until all that was said has been sent, until nothing more can be sent, or until `end`.
  void flush_until(std::chrono::steady_clock::time_point end);
  /// Drops all messages said after this. A peer that has heard its
  /// last message receives no more; a further send would never end.
  void end();
  /// Time since the last message from the peer.
  std::chrono::steady_clock::duration silence() const { return std::chrono::steady_clock::now() - heard_at_.load(); }

 private:
  struct Message { Frame frame; Bytestring body; };

  void hear();
  void speak();
  bool next(Message& message);

  Carrier& carrier_;
  const int peer_;
  const LineEvents events_;
  std::atomic<std::chrono::steady_clock::time_point> heard_at_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable pushed_, flushed_;
  std::deque<Message> queue_;
  bool ended_ = false;
  bool sending_ = false, mute_ = false;  ///< a message is on its way; nothing more will be sent
  ThreadGroup threads_;  ///< last: they use all of the above
};

}  // namespace tandem::exec
