#pragma once
// Ranks that each have a process and a CUDA device, over NCCL. Built where the toolkit and nccl.h are, else the twin refuses.

#include <memory>
#include <string>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/process/world.hpp"

namespace tandem::exec {

struct NcclOptions {
  /// NCCL carries bytes and Tandem adds them in canonical order, as threads do; else NCCL adds, in orders of its own.
  bool deterministic = true;
};

/// Throws InfeasibleError where the library is not found or is too old.
void require_nccl(const std::string& file = "libnccl.so.2");

/// The communicator of the one rank here, which issues to the queues of a CUDA backend. `world` must outlive it. Throws
/// InfeasibleError, also where the process has several ranks.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(World& world, const NcclOptions& options);

}  // namespace tandem::exec
