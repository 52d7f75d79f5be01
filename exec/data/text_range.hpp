#pragma once
// The part of a text that a run reads, in whole tokens or documents.

#include <cstdint>
#include <utility>

#include "exec/data/data.hpp"

namespace tandem::exec {

/// First and end of `part` of `size` tokens or documents, both rounded down, so that parts that meet share nothing.
std::pair<std::int64_t, std::int64_t> range_of(std::int64_t size, const TextPart& part);

}  // namespace tandem::exec
