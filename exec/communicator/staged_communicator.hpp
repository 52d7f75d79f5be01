#pragma once
// Bytes of a device by way of the host: device, host memory, another communicator, host memory, device.

#include <memory>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/communicator/staging_area.hpp"

namespace tandem::exec {

/// Around communicators of `ranks` that follow addresses of the host; results are theirs, bit for bit. `area` must stay.
std::vector<std::unique_ptr<Communicator>> make_staged_communicators(std::vector<std::unique_ptr<Communicator>> inner,
                                                                     StagingArea& area, const std::vector<Rank>& ranks);

}  // namespace tandem::exec
