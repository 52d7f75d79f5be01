#pragma once
// Ends all processes when one fails, dies, stops or hangs. The first cause is reported once.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exec/process/arrivals.hpp"
#include "exec/process/frame.hpp"
#include "exec/process/neighbours.hpp"
#include "exec/process/peer_line.hpp"
#include "exec/process/places.hpp"

namespace tandem::exec {

struct WatchOptions {
  std::chrono::milliseconds timeout;  ///< limit on a rank's wait for others, and on a process' silence
  std::vector<Neighbour> processes;
  std::function<void(const std::string&)> abort;  ///< wakes everything that waits in this process
  std::function<void(const std::string&)> tell;   ///< reports the failure; called once, in one process only
  std::function<bool(const Failure&)> stop;       ///< another process has stopped the step; returns true the first time
};

/// Process 0 decides which failure counts and informs the others. If process 0 is gone, the lowest remaining process does so. A wait
/// that takes too long is followed from rank to rank until a rank that waits for no other.
class Watch {
 public:
  Watch(Carrier& carrier, Arrivals& arrivals, WatchOptions options);
  /// Calls leave() if it was not called.
  ~Watch();

  /// Tells the watch the ranks, once they are known.
  void place(const Places& places);
  /// Ends all processes. Returns the failure that counts, perhaps another process', once all waits here have been woken.
  Failure fail(const Failure& failure);
  /// Tells the other processes that this one has stopped the step. All stay connected.
  void stop(const Failure& cause);
  /// Reports that a peer's connection has ended. Unless the peer had left, it is dead, and all processes are informed.
  void lost(int peer);
  std::optional<Failure> verdict() const;
  /// Tells the others that this process is done, and waits until all have said so. Returns process 0's exit code.
  int leave(int exit_code);

 private:
  using Clock = std::chrono::steady_clock;
  struct Left { int exit_code; Clock::time_point at; };
  struct Answer { bool waits; bool moves; std::string call; std::vector<Rank> missing; };

  LineEvents events_of(int process);
  bool heard(int from, const Frame& frame, const Bytestring& body);
  Failure decide(const Failure& failure, int reporter = -1);
  void adopt(const Failure& failure, int from);
  void await_heard(int failed, int reporter);
  void wake(const std::string& cause);
  void say(int to, Frame frame, const Bytestring& body = {});
  std::optional<Failure> wait_for_verdict(std::chrono::milliseconds most);

  void tick();
  bool sleep(std::chrono::milliseconds time);
  std::optional<Left> how_left(int process) const;
  void check_neighbours();
  void check_waits();
  void follow(OpenWait wait);
  bool tell_unanswering(const OpenWait& wait, const std::map<Rank, Answer>& answers);
  static OpenWait wait_of(Rank rank, const Answer& answer);
  void tell_silence(int process);
  std::string wait_text(const OpenWait& wait) const;
  std::optional<Answer> ask(Rank rank);
  Answer answer(Rank rank) const;
  std::string process_text(int process) const;

  Carrier& carrier_;
  Arrivals& arrivals_;
  const WatchOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Places> places_;
  std::optional<Failure> verdict_;
  std::map<Rank, Answer> answers_;
  std::map<int, Left> left_;                        ///< processes that have left, with their exit codes
  std::set<int> informed_, gone_;                   ///< processes that know a verdict; whose connection has ended
  bool decided_ = false, reports_ = false;          ///< the verdict is this process' own; process 0 was told of a failure
  bool leaving_ = false, ending_ = false, reported_ = false, awake_ = false;
  std::vector<std::unique_ptr<PeerLine>> lines_;    ///< by process; nullptr for this one
  ThreadGroup ticker_;
};

}  // namespace tandem::exec
