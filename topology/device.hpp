#pragma once
// One accelerator, and what a node's host and its network's plugin say of themselves.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "models/base/dtype.hpp"
#include "models/base/units.hpp"

namespace tandem {

/// One accelerator (or NeuronCore, or CPU core) as published. Facts only; fitted and measured numbers are in other files.
struct Device {
  std::string name;
  std::string generation;                ///< architecture of the device: "hopper"; empty if its file names none
  std::string preset;                    ///< name of its file; empty if a cluster's file contains it
  std::map<DType, FlopRate> peak;        ///< dense matrix rate by compute type
  FlopRate vector_rate;                  ///< fp32 arithmetic outside the matrix engine
  Bytes memory;                          ///< as built
  Bytes usable_memory;                   ///< the part of `memory` that the driver leaves to processes; all if unknown
  Bandwidth memory_bandwidth;
  Bandwidth host_link;                   ///< each way between the device and its host's memory; 0: not published
  Duration host_launch;                  ///< host time of one asynchronous launch
  bool synchronous = false;              ///< the host computes itself: compute and tensor streams run in issue order
  Bytes runtime_memory;                  ///< memory of a process's context, beside the arena
  Bytes library_memory;                  ///< workspaces that libraries take from the framework's allocator
  std::int64_t compute_units = 1;        ///< processors that share the peak (SMs): the width of a wave of tiles
  std::string calibration;               ///< name of fitted efficiencies (topology/calibration), may be empty
  std::string measured;                  ///< name (topology/measured) or path of its measured products, may be empty
  std::string cost_table;                ///< name or path of a measured cost table, may be empty
  std::optional<double> power_limit;     ///< watts; nothing: the plan sets none
  double clock = 1;                      ///< clock of arithmetic under `power_limit` / that at rated power, at most 1
};

/// Makers of the hosts' processors that a collective library distinguishes.
enum class HostProcessor : std::uint8_t { other, intel, amd };

/// Settings that a network's plugin gives NCCL.
struct NcclSettings {
  bool only_simple = false;                  ///< NCCL_PROTO=simple, for networks that deliver bytes in any order
  std::optional<Duration> reported_latency;  ///< latency of a step between nodes that NCCL plans with; nothing: the real one
  std::optional<Bytes> buffer;               ///< NCCL_BUFFSIZE
  std::optional<Bytes> nvls_chunk;           ///< NCCL_NVLS_CHUNKSIZE and NCCL_NVLSTREE_MAX_CHUNKSIZE
  bool only_ring = false;                    ///< NCCL_ALGO=Ring, set by the plan
  bool no_nvls = false;                      ///< NCCL_ALGO=^NVLS (NVLSTree too), set by the plan
};

}  // namespace tandem
