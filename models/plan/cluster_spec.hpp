#pragma once
// A plan's cluster: a preset, its number of devices, and what the plan changes in it.

#include <cstdint>
#include <optional>
#include <string>

#include "models/base/units.hpp"
#include "models/plan/perturbation.hpp"

namespace tandem {

enum class Algorithm : std::uint8_t;   // models/ops/collective.hpp

/// Forced algorithms for all groups' collectives. Unset: the communication library chooses.
struct CollectiveAlgorithms {
  std::optional<Algorithm> all_reduce, all_gather, reduce_scatter, all_to_all;
};

struct ClusterOverride {
  std::optional<Bandwidth> scale_out_per_node;
  std::optional<Bandwidth> scale_up_per_device;
  std::optional<double> oversubscription;
  std::optional<std::int64_t> devices_per_node;
  std::optional<Bytes> memory_bytes;             ///< of a device, as built
  std::optional<Bandwidth> memory_bytes_per_s;   ///< of a device's memory
  std::optional<double> power_limit_watts;       ///< of a device
  std::optional<Bandwidth> host_link_bytes_per_s;   ///< between a device and its host's memory, each way
  CollectiveAlgorithms algorithms;
  std::string nccl_algo;                 ///< algorithms that NCCL may choose from: ring, ^nvls; empty: all
};

struct ClusterSpec {
  std::string preset;
  std::string generation;                ///< generation of its devices ("hopper"); the parser's caller looks it up in the preset
  std::int64_t devices = 0;
  std::int64_t ranks_per_device = 1;     ///< `override.ranks_per_device`
  std::int64_t threads_per_rank = 1;     ///< threads of a rank that computes on CPUs
  ClusterOverride override;
  Perturbation perturbation;
  std::string name, notes;
};

}  // namespace tandem
