#pragma once
// Chooses the device of each training process, and the communicators between ranks.

#include <optional>
#include <string>

#include "exec/device/cuda.hpp"
#include "exec/process/world.hpp"
#include "exec/run/run_options.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "topology/topology.hpp"

namespace tandem::program {

struct DeviceOptions {
  std::string backend = "cpu";  ///< or cpu-async, cuda
  std::string comm = "auto";    ///< or threads, staged, nccl
  exec::CudaOptions cuda;       ///< settle_device fills it
};

/// Throws ConfigError if options contradict each other or the number of processes.
void require_consistent(const DeviceOptions& options, const exec::World& world);

/// Gives each process of a host its own CUDA device, before the first call of CUDA. Throws DeviceError if there are too few, unless
/// TANDEM_SHARE_DEVICE=1 allows sharing.
void choose_device(const DeviceOptions& options, exec::World& world);

/// Throws InfeasibleError if this build or host lacks what the options need, DeviceError if there is no device.
void require_device(const DeviceOptions& options, const exec::World& world);

/// Checks that communications of `graph` may start in order of issue. If NCCL performs the reductions, also sets its variable for
/// that. Throws InfeasibleError if not.
void require_launch_order(const DeviceOptions& options, exec::World& world, const TaskGraph& graph);

/// Fills in the options that follow from the plan, and the product algorithms from the file `path` (empty: the card's default
/// file). `device`: the plan's device. Throws like exec::cuda_card.
void settle_device(DeviceOptions& options, const Plan& plan, const std::string& path, const Device& device);

/// Published FLOP/s in this type, summed over the CUDA devices of all processes. nullopt if the card is not the plan's device,
/// nothing is published, or processes share a device. Throws like exec::cuda_card.
std::optional<double> peak_flops(const DeviceOptions& options, exec::World& world, const Device& device, DType compute);

/// Sets the backend and communicators in a run's options.
void use_devices(const DeviceOptions& devices, const Plan& plan, exec::RunOptions& options);

}  // namespace tandem::program
