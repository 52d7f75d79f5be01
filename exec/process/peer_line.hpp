#pragma once
// The small messages between this process and one other: a thread hears, a thread speaks.

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

/// Called on the line's threads; neither may throw.
struct LineEvents {
  std::function<bool(const Frame&, const Bytestring& body)> heard;  ///< false: nothing more follows
  std::function<void()> lost;                                       ///< the connection has ended before that
};

class PeerLine {
 public:
  PeerLine(Carrier& carrier, int peer, LineEvents events);
  /// Returns when its threads have ended: the peer has left, or the carrier was aborted.
  ~PeerLine();
  PeerLine(const PeerLine&) = delete;
  PeerLine& operator=(const PeerLine&) = delete;

  /// Does not wait.
  void say(Frame frame, Bytestring body = {});
  /// What is said behind this is dropped: a peer that has heard the last message takes no more, and a send to it would never end.
  void end();
  /// Since it was heard last.
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
  std::condition_variable pushed_;
  std::deque<Message> queue_;
  bool ended_ = false;
  ThreadGroup threads_;  ///< last: they use all of the above
};

}  // namespace tandem::exec
