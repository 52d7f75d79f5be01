#pragma once
// Serialises a rank's counters and timeline lane, so that process 0 can collect those of all ranks.

#include "exec/process/packing.hpp"
#include "exec/run/run_result.hpp"

namespace tandem::exec {

void pack(Packer& to, const RankBooks& books);
RankBooks unpack_books(Unpacker& from);

void pack(Packer& to, const Lane& lane);
Lane unpack_lane(Unpacker& from);

}  // namespace tandem::exec
