#pragma once
// Communication of device memory through host memory: device, host, another communicator, host, device.

#include <memory>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/communicator/staging_area.hpp"

namespace tandem::exec {

/// Wraps communicators of `ranks` that access host memory; results are equal bit for bit. `area` must outlive them.
std::vector<std::unique_ptr<Communicator>> make_staged_communicators(std::vector<std::unique_ptr<Communicator>> inner,
                                                                     StagingArea& area, const std::vector<Rank>& ranks);

}  // namespace tandem::exec
