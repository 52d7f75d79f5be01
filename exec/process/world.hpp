#pragma once
// The processes of a run, and the ranks that this process has.

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/process/control.hpp"
#include "exec/process/frame.hpp"
#include "exec/process/neighbours.hpp"
#include "exec/process/places.hpp"

namespace tandem::exec {

class Arrivals;
class LocalMail;
class Watch;

struct WorldOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Reports the failure that ends the run. Called in only one process, on any thread.
  std::function<void(const std::string&)> tell;
};

/// One process' view of all processes. The rules for calls are those of Control.
class World {
 public:
  /// Only this process; its ranks are threads.
  World();
  /// All processes that a carrier connects.
  World(std::unique_ptr<Carrier> carrier, const WorldOptions& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Control& control() { return control_; }
  const SharedClock& clock() const { return clock_; }
  const std::vector<Neighbour>& neighbours() const { return neighbours_; }
  bool several() const { return carrier_ != nullptr; }

  /// Sets the number of ranks, at least one per process. Call it once.
  void place(std::int64_t ranks);
  const Places& places() const { return *places_; }
  std::vector<Rank> here() const { return places_->ranks_of(control_.process()); }
  /// Communicators of this process' ranks, ascending.
  std::vector<std::unique_ptr<Communicator>> make_communicators();

  /// Registers a function to call when the run fails anywhere. For waits that neither the carrier nor arrivals() can wake.
  void at_abort(std::function<void(const std::string& cause)> abort);
  /// The waits that the watch follows; nullptr if there is only one process.
  Arrivals* arrivals() { return arrivals_.get(); }

  /// Aligns this process' clock with that of process 0.
  void align();
  /// Ends all processes. Returns the failure that counts; if there are several, the first.
  Failure fail(const Failure& failure);
  /// Ends the step of all processes, which stay connected: calls between ranks throw, except those for which all ranks have come. For
  /// failures behind which processes still save. Needs several processes.
  void stop_step(const Failure& cause);
  bool step_stopped() const;
  /// The cause, for a process that was told that the step has been stopped. Blocks until the cause has come.
  Failure stop_cause() const;
  /// Reports that a call to `peer` found its connection closed. The run has failed, unless the peer has left.
  void lost(int peer);
  std::optional<Failure> verdict() const;
  /// Waits until all processes have ended their work. Returns process 0's exit code.
  int leave(int exit_code);

 private:
  void introduce();
  void wake(const std::string& cause);

  std::unique_ptr<Carrier> carrier_;
  Control control_;
  SharedClock clock_;
  std::vector<Neighbour> neighbours_;
  std::optional<Places> places_;
  std::unique_ptr<Arrivals> arrivals_;
  std::unique_ptr<LocalMail> mail_;
  std::mutex aborts_mutex_;
  std::vector<std::function<void(const std::string&)>> aborts_;
  std::unique_ptr<Watch> watch_;  ///< last: its threads use all of the above
};

}  // namespace tandem::exec
