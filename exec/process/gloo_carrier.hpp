#pragma once
// Bytes carried by Gloo over TCP.

#include <chrono>
#include <memory>

#include "exec/process/carrier.hpp"
#include "exec/process/launch.hpp"

namespace tandem::exec {

/// Joins the other processes at `spec`'s address within `timeout`. Throws CommError, with who is missing or what is silent, and
/// InfeasibleError in a build without Gloo.
std::unique_ptr<Carrier> make_gloo_carrier(const LaunchSpec& spec, std::chrono::milliseconds timeout);

}  // namespace tandem::exec
