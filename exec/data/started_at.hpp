#pragma once
// A source that a run begins to read in its middle, as after a change of the sequence length.

#include <cstdint>
#include <memory>

#include "exec/data/data.hpp"

namespace tandem::exec {

/// `source` for a run whose sequence number `first` is the source's first one. Earlier numbers are a contract error.
std::unique_ptr<TokenSource> started_at(std::unique_ptr<TokenSource> source, std::int64_t first);

}  // namespace tandem::exec
