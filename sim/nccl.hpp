#pragma once
// Which algorithm and protocol NCCL picks, and what they cost beside the bytes: its own tuning model (NVIDIA/nccl,
// src/graph/tuning.cc, commit 5067397c of 2026-06-11).

#include <cstdint>
#include <optional>
#include <string_view>

#include "models/op.hpp"

namespace tandem::sim {

/// Of a device's generation, as far as the model differs by it.
enum class NcclArchitecture : std::uint8_t { volta, ampere, hopper, blackwell };
std::optional<NcclArchitecture> nccl_architecture(std::string_view name);

enum class NcclAlgorithm : std::uint8_t { ring, tree, nvls, nvls_tree };
enum class NcclProtocol : std::uint8_t { ll, ll128, simple };

/// What is to be carried: `ring_seconds` is the time of the bytes by ring in Simple at the links' rates.
struct NcclTask {
  CollectiveKind kind;
  std::int64_t ranks, nodes;   ///< of the group
  double ring_seconds;
  double network_latency_s = 0;  ///< of a step between nodes, beside NCCL's own: what the network's plugin reports
};

/// NCCL's own time of a step between nodes in Simple, which presets of networks that report none have as their latency.
inline constexpr double kNcclStepAcross = 14e-6;

struct NcclChoice {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  double rate;        ///< of the bytes, relative to a ring in Simple
  double latency_s;   ///< all of it: base and hops
  double seconds(const NcclTask& task) const { return task.ring_seconds / rate + latency_s; }
};

/// The pair that takes least; ties go to the earlier one. Rings carry everything, the rest only all-reduces.
NcclChoice nccl_choice(const NcclTask& task, NcclArchitecture architecture);

}  // namespace tandem::sim
