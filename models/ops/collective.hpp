#pragma once
// How a collective moves its bytes: a pure description in steps and flows. No time, no link and no device is known
// here; the simulator's network turns phases into time, and the closed forms they must meet are in the tests.

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

/// How the devices of a node are joined.
enum class ScaleUp : std::uint8_t { crossbar, full_mesh, torus, cube_mesh, shared_memory };
std::string_view name(ScaleUp s);

std::string_view name(CollectiveKind k);
/// Kind of a communication as measurements name it: "all_reduce", ..., "send", "recv". ContractError for computation.
std::string_view communication_name(const Op& op);

/// Where the members of a group sit, by group index.
struct GroupShape {
  std::vector<std::int32_t> node;   ///< node of each member
  std::vector<std::int32_t> ring;   ///< group indices in the order a ring visits them; nodes in one piece. Empty: ascending

  std::int64_t size() const { return static_cast<std::int64_t>(node.size()); }
};

/// One message of a step, between group indices.
struct Flow {
  std::int32_t from, to;
  auto operator<=>(const Flow&) const = default;
};

/// Which links a phase loads. Phases on the same tier follow one another; see Expansion::pipelined.
enum class Tier : std::uint8_t { inside, across, any };

/// `steps` equal steps; in each, every flow carries `bytes` and all flows start together. A step starts when all
/// flows of the one before have arrived.
struct CommPhase {
  std::int64_t steps = 0;
  Bytes bytes;                ///< of one flow in one step
  std::vector<Flow> flows;
  Tier tier = Tier::any;
};

/// A collective as phases, in order. When `pipelined`, the library works on many chunks at once, so that the bandwidth
/// terms of the two tiers overlap (the larger of the two sums counts) while every latency is paid.
struct Expansion {
  std::vector<CommPhase> phases;
  bool pipelined = false;
};

/// Phases of `op` under `algorithm`. A group of one has none. Sizes that do not divide are rounded up to whole elements
/// per step. `hierarchical` needs as many members on every node (see `uniform`), else ContractError.
/// Copies of tokens (`op.copies`) have a form of their own, whatever the algorithm.
/// `inside` says what a node's own part of a hierarchical collective uses: ring, two_way_ring or direct (a full mesh, whose
/// links several rings share out).
Expansion expand(const Collective& op, Algorithm algorithm, const GroupShape& shape, Algorithm inside = Algorithm::ring);

/// Members per node if all nodes that have any have as many, else 0.
std::int64_t uniform(const GroupShape& shape);

/// What the platform's library does, as far as it is published.
struct Choice {
  Algorithm algorithm = Algorithm::ring;
  Algorithm inside = Algorithm::ring;   ///< of a hierarchical one
};

/// The library's rule. Inside a node: ring on a crossbar or cube mesh (NCCL) and in shared memory, direct on a full mesh
/// (HCCL), two-way ring on a torus (Neuron). Across nodes: hierarchical where every node has the same number, above one,
/// of members; else as many rings as the node with fewest has members (NCCL: channels are those that every node has), one
/// where every node has one. Broadcasts are trees; all-to-alls are direct inside a node, pairwise (ring) across.
Choice choose_algorithm(ScaleUp scale_up, const Collective& op, const GroupShape& shape);

}  // namespace tandem
