#pragma once
// Communication between processes as such, not between ranks: barriers, broadcasts from process 0, gathers to it.

#include <vector>

#include "exec/process/carrier.hpp"
#include "exec/process/clock.hpp"
#include "exec/process/packing.hpp"

namespace tandem::exec {

/// Each call must be made by all processes, in the same order, by one thread at a time. Throws CommError after the carrier's abort.
/// Without a carrier there is one process, and no call waits.
class Control {
 public:
  explicit Control(Carrier* carrier) : carrier_(carrier) {}

  int process() const { return carrier_ ? carrier_->process() : 0; }
  int processes() const { return carrier_ ? carrier_->processes() : 1; }
  bool first() const { return process() == 0; }

  /// Blocks until all processes have called it.
  void barrier();
  /// Returns process 0's bytes in every process.
  Bytestring broadcast(Bytestring bytes);
  /// Returns every process' bytes, by process, at process 0; nothing elsewhere.
  std::vector<Bytestring> gather(Bytestring bytes);

  /// Messages between two processes.
  void send(int to, const Bytestring& bytes);
  Bytestring receive(int from);

  /// Measures the difference between process 0's clock and each other process' clock: the fastest of many round trips, halved.
  /// Processes on one machine share its clock, so they are skipped.
  void align(SharedClock& clock, const std::vector<bool>& same_machine);

 private:
  std::int64_t offset_to_first();

  Carrier* carrier_;
};

}  // namespace tandem::exec
