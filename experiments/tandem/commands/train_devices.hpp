#pragma once
// Which device a process of a training has, and what carries bytes between ranks.

#include <optional>
#include <string>

#include "exec/device/cuda.hpp"
#include "exec/process/world.hpp"
#include "exec/run/run_options.hpp"
#include "models/graph/task_graph.hpp"
#include "topology/topology.hpp"

namespace tandem::program {

struct DeviceOptions {
  std::string backend = "cpu";  ///< or cpu-async, cuda
  std::string comm = "auto";    ///< or threads, staged, nccl
  exec::CudaOptions cuda;       ///< settle_device fills it
};

/// Throws ConfigError where the options contradict each other or the number of processes.
void require_consistent(const DeviceOptions& options, const exec::World& world);

/// Gives each process of a host a CUDA device of its own, before CUDA is first called. Throws DeviceError where there are too few and
/// TANDEM_SHARE_DEVICE=1 does not allow to share them.
void choose_device(const DeviceOptions& options, exec::World& world);

/// Throws InfeasibleError where the options are of what this build or host has not, DeviceError where there is no device.
void require_device(const DeviceOptions& options, const exec::World& world);

/// Whether communications of `graph` may start in the order of their issue; sets NCCL's variable for it where NCCL adds up. Throws
/// InfeasibleError.
void require_launch_order(const DeviceOptions& options, exec::World& world, const TaskGraph& graph);

/// Fills what the plan decides, and the algorithms of products in the file `path` (empty: the card's own). `device` is the plan's.
/// Throws as exec::cuda_card.
void settle_device(DeviceOptions& options, bool deterministic, const std::string& path, const Device& device);

/// FLOP/s that the CUDA devices of all processes have in this type, as published; none where the card is another than the plan's
/// device, nothing is published, or processes share a device. Throws as exec::cuda_card.
std::optional<double> peak_flops(const DeviceOptions& options, exec::World& world, const Device& device, DType compute);

/// Adds backend and communicators to a run's options.
void use_devices(const DeviceOptions& devices, const Plan& plan, exec::RunOptions& options);

}  // namespace tandem::program
