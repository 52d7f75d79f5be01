#pragma once
// Communicators over NCCL for ranks with one process and one CUDA device each. Builds without CUDA or nccl.h refuse.

#include <memory>
#include <string>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/process/world.hpp"

namespace tandem::exec {

struct NcclOptions {
  /// true: Tandem reduces in canonical order, as between threads, and NCCL moves bytes. false: NCCL reduces in its own order.
  bool deterministic = true;
};

/// Throws InfeasibleError if the library is not found or too old.
void require_nccl(const std::string& file = "libnccl.so.2");

/// Makes the communicator of this process' one rank, for queues of a CUDA backend. `world` must outlive it. Throws InfeasibleError,
/// also if the process has several ranks.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(World& world, const NcclOptions& options);

}  // namespace tandem::exec
