#pragma once
// A rank's books and lane as bytes, for process 0 to have all.

#include "exec/process/packing.hpp"
#include "exec/run/run_result.hpp"

namespace tandem::exec {

void pack(Packer& to, const RankBooks& books);
RankBooks unpack_books(Unpacker& from);

void pack(Packer& to, const Lane& lane);
Lane unpack_lane(Unpacker& from);

}  // namespace tandem::exec
