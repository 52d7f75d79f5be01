#pragma once
// What processes say to each other apart from their ranks: they meet, and process 0 collects and tells.

#include <vector>

#include "exec/process/carrier.hpp"
#include "exec/process/clock.hpp"
#include "exec/process/packing.hpp"

namespace tandem::exec {

/// Every call is one of all processes, in the same order, from one thread at a time. Throws CommError behind the carrier's abort.
/// Without a carrier there is one process, and nothing waits.
class Control {
 public:
  explicit Control(Carrier* carrier) : carrier_(carrier) {}

  int process() const { return carrier_ ? carrier_->process() : 0; }
  int processes() const { return carrier_ ? carrier_->processes() : 1; }
  bool first() const { return process() == 0; }

  /// Returns when all have come.
  void barrier();
  /// What process 0 gave.
  Bytestring broadcast(Bytestring bytes);
  /// At process 0 what each gave, by process; nothing elsewhere.
  std::vector<Bytestring> gather(Bytestring bytes);

  /// Between two processes, one of them process 0 or not.
  void send(int to, const Bytestring& bytes);
  Bytestring receive(int from);

  /// Finds by how much process 0's clock is ahead of each: half the way of the fastest of many round trips. Nothing where both are of
  /// one machine, whose clock they share.
  void align(SharedClock& clock, const std::vector<bool>& same_machine);

 private:
  std::int64_t offset_to_first();

  Carrier* carrier_;
};

}  // namespace tandem::exec
