#pragma once
// A carrier over Gloo and TCP.

#include <memory>

#include "exec/process/carrier.hpp"
#include "exec/process/tcp_gathering.hpp"

namespace tandem::exec {

/// Connects to the other processes at `spec`'s address within the options' timeout. Throws CommError that says who is missing or silent.
/// Throws InfeasibleError in a build without Gloo.
std::unique_ptr<Carrier> make_gloo_carrier(const LaunchSpec& spec, JoinOptions options);

}  // namespace tandem::exec
