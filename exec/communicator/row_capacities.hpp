#pragma once
// Whether every member of an exchange of rows has memory for what it gets.

#include <span>

#include "exec/communicator/collective_share.hpp"
#include "models/base/ids.hpp"

namespace tandem::exec {

/// Throws RowsError about the member that gets most rows if a member gets more than it has memory for. `ranks`: of the members.
void require_capacities(const Exchange& exchange, std::span<const Rank> ranks);

}  // namespace tandem::exec
