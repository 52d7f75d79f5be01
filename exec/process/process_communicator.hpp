#pragma once
// Communicators of ranks in several processes. Bytes travel as messages, and each member reduces its own slice.

#include <memory>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/process/clock.hpp"
#include "exec/process/arrivals.hpp"
#include "exec/process/carrier.hpp"
#include "exec/process/local_mail.hpp"
#include "exec/process/places.hpp"

namespace tandem::exec {

/// Objects that the communicators of one process share. They must outlive the communicators.
struct Exchanges {
  Carrier& carrier;
  const SharedClock& clock;
  Arrivals& arrivals;
  LocalMail& mail;
  const Places& places;
};

/// Communicators of this process' ranks, ascending. Calls among ranks of this process work as between threads. Results equal those
/// of make_thread_communicators, bit for bit. Buffers must be in host memory. A rank's abort() wakes only this process' ranks; the
/// watch tells the other processes.
std::vector<std::unique_ptr<Communicator>> make_process_communicators(const Exchanges& exchanges);

}  // namespace tandem::exec
