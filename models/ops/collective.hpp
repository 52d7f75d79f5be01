#pragma once
// How a collective moves its bytes, as steps and flows without times, links or devices. The
// simulator's network turns phases into times. The tests compare them with closed forms.

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/ops/op.hpp"

namespace tandem {

enum class Algorithm : std::uint8_t {
  ring,          ///< every rank sends to the next one of the ring
  two_way_ring,  ///< two rings in opposite directions, half of the bytes each
  direct,        ///< every rank sends to every other one at once
  tree,          ///< recursive doubling (reductions, gathers) or a binomial tree (broadcast)
  hierarchical,  ///< inside the nodes, across the nodes by one ring per rail, inside again
  halving_doubling,  ///< Rabenseifner: a scatter by recursive halving, a gather by recursive doubling (all-to-all: by pairs)
  multi_ring,    ///< rings through all ranks, as many as the smallest node has, each with a share and its own ways between nodes
};
std::string_view name(Algorithm a);

/// How the devices of a node are connected.
enum class ScaleUp : std::uint8_t { crossbar, full_mesh, torus, cube_mesh, shared_memory, pcie };
std::string_view name(ScaleUp s);

std::string_view name(CollectiveKind k);
/// Kind of a communication as measurements name it: "all_reduce", ..., "send", "recv". ContractError for computation.
std::string_view communication_name(const Op& op);

/// The nodes and the ring order of a group's members, by group index.
struct GroupShape {
  std::vector<std::int32_t> node;   ///< node of each member
  std::vector<std::int32_t> ring;   ///< group indices in ring order, a node's members contiguous; empty: ascending

  std::int64_t size() const { return static_cast<std::int64_t>(node.size()); }
};

/// One message of a step, between group indices.
struct Flow {
  std::int32_t from, to;
  auto operator<=>(const Flow&) const = default;
};

/// Which links a phase uses: within a node, between nodes, or any. Phases of one tier follow one another.
enum class Tier : std::uint8_t { inside, across, any };

/// `steps` equal steps. In each step every flow carries `bytes`, and all flows
/// start together. A step starts when all flows of the step before have arrived.
struct CommPhase {
  std::int64_t steps = 0;
  Bytes bytes;                ///< bytes of one flow in one step
  std::vector<Flow> flows;
  Tier tier = Tier::any;
};

/// A collective as phases, in order. `pipelined`: the library works on many chunks at once. Then
/// the bandwidth terms of the two tiers overlap (the larger sum counts), but every latency counts.
struct Expansion {
  std::vector<CommPhase> phases;
  bool pipelined = false;
};

/// Phases of `op` under `algorithm`; none for a group of one. Sizes that do not divide are
/// rounded up to whole elements per step. `hierarchical` throws ContractError unless all nodes
/// have the same number of members (see `uniform`). Copies of tokens (`op.copies`) have their own
/// phases under any algorithm. `inside`: algorithm within a node of a hierarchical collective,
/// one of ring, two_way_ring and direct (a full mesh, whose links several rings share).
Expansion expand(const Collective& op, Algorithm algorithm, const GroupShape& shape, Algorithm inside = Algorithm::ring);

/// Members per node if all nodes with members have the same number, else 0.
std::int64_t uniform(const GroupShape& shape);

/// The algorithm that a platform's communication library uses, as far as published.
struct Choice {
  Algorithm algorithm = Algorithm::ring;
  Algorithm inside = Algorithm::ring;   ///< within a node of a hierarchical collective
};

/// The library's rule. Inside a node: ring on a crossbar or cube mesh (NCCL) and in shared memory, direct on a full mesh
/// (HCCL), two-way ring on a torus (Neuron). Across nodes: hierarchical where every node has the same number, above one,
/// of members; else as many rings as the node with fewest has members (NCCL: channels are those that every node has), one
/// where every node has one. Broadcasts are trees; all-to-alls are direct inside a node, pairwise (ring) across.
Choice choose_algorithm(ScaleUp scale_up, const Collective& op, const GroupShape& shape);

}  // namespace tandem
