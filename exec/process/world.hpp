#pragma once
// The processes of a run, and which ranks this one has.

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
  /// What ends all processes, called in the one that speaks for them, on any thread.
  std::function<void(const std::string&)> tell;
};

/// One process' view. Processes come to its calls as to Control's.
class World {
 public:
  /// This process alone: its ranks are threads.
  World();
  /// All processes of a carrier.
  World(std::unique_ptr<Carrier> carrier, const WorldOptions& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Control& control() { return control_; }
  const SharedClock& clock() const { return clock_; }
  const std::vector<Neighbour>& neighbours() const { return neighbours_; }
  bool several() const { return carrier_ != nullptr; }

  /// The run has so many ranks; at least one for each process. Once.
  void place(std::int64_t ranks);
  const Places& places() const { return *places_; }
  std::vector<Rank> here() const { return places_->ranks_of(control_.process()); }
  /// Of the ranks here, ascending.
  std::vector<std::unique_ptr<Communicator>> make_communicators();

  /// Calls `abort` when the run has failed, wherever it was: for what waits neither by the carrier nor by arrivals().
  void at_abort(std::function<void(const std::string& cause)> abort);
  /// Waits that the watch follows; nullptr where there is one process.
  Arrivals* arrivals() { return arrivals_.get(); }

  /// Aligns this process' clock with that of process 0.
  void align();
  /// Ends all processes. Returns the failure that counts: of several, the first.
  Failure fail(const Failure& failure);
  /// A call to `peer` found its connection ended: the run has failed, unless the peer has left.
  void lost(int peer);
  std::optional<Failure> verdict() const;
  /// Waits until all have come to their end. Returns the exit code of process 0.
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
