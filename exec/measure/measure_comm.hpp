#pragma once
// Times communication of the thread communicator on this machine.

#include <functional>
#include <vector>

#include "reports/prediction/cost_table.hpp"

namespace tandem::exec {

/// Times every collective over groups of 2, 4 and 8, and messages between two ranks, from 4 bytes to 16 MiB. `quick`: fewer sizes,
/// and only the all-reduce over 4. Throws MeasuringStopped if `stop` returns true; it may be empty.
std::vector<CommSample> measure_communication(bool quick, const std::function<bool()>& stop);

}  // namespace tandem::exec
