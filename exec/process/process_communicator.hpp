#pragma once
// Ranks of several processes: bytes travel by messages, and each member folds its share.

#include <memory>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/process/clock.hpp"
#include "exec/process/arrivals.hpp"
#include "exec/process/carrier.hpp"
#include "exec/process/local_mail.hpp"
#include "exec/process/places.hpp"

namespace tandem::exec {

/// What the communicators of one process share. All of it must outlive them.
struct Exchanges {
  Carrier& carrier;
  const SharedClock& clock;
  Arrivals& arrivals;
  LocalMail& mail;
  const Places& places;
};

/// Communicators of the ranks that this process has, ascending. Ranks of one process meet as threads do where they are among
/// themselves. Results are those of make_thread_communicators, bit for bit. They follow the addresses that they are given: for backends
/// whose memory is the host's. Behind a rank's abort() only this process' ranks wake: telling the others is the watch's task.
std::vector<std::unique_ptr<Communicator>> make_process_communicators(const Exchanges& exchanges);

}  // namespace tandem::exec
