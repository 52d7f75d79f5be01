#pragma once
// The sequences of a source once, for evaluations.

#include <memory>

#include "exec/data/data.hpp"

namespace tandem::exec {

/// The examples of the source's sequences. Those from sequences() on repeat them without targets, so that they can fill up the last batch.
std::unique_ptr<TokenSource> read_once(std::unique_ptr<TokenSource> source);

}  // namespace tandem::exec
