#pragma once
// Plans one transfer's messages on the links: phases and flows of an algorithm, NCCL's choice, and rings around a torus or a cube
// mesh.

#include <cstdint>
#include <optional>
#include <vector>

#include "models/ops/collective.hpp"
#include "sim/nccl/nccl_search.hpp"
#include "sim/network/communications.hpp"
#include "sim/network/footprint_store.hpp"
#include "sim/network/mesh_rings.hpp"
#include "sim/network/rail_routes.hpp"
#include "sim/network/setup.hpp"
#include "sim/network/transfer.hpp"

namespace tandem::sim {

/// Index of the link that stands for a processor; it follows the topology's links.
std::size_t core_link(const Topology& topology, DeviceId d);

/// Flows of a phase on the links they cross, shared by all messages of a transfer that use the same flows.
struct Footprint {
  std::vector<Flow> flows;
  std::uint32_t uses = 0;
  bool across = false;  ///< some flow leaves its node
  bool on_rails = false;  ///< rows between nodes go over the receiver's rail
  Duration latency;     ///< latency of the slowest route
};

/// Plans how the messages of one transfer use the links.
class TransferPlanner {
 public:
  TransferPlanner(const Setup& setup, Transfer& transfer, const LinkCapacities& links)
      : setup_(setup), transfer_(transfer), links_(links), fit_(setup.cost.comm_fit()) {}

  TransferPlan make_plan(std::uint32_t id, const Message& message);
  /// NCCL's slow choice for the message planned last; nothing if it chose the fastest algorithm, or does not choose here.
  const std::optional<SlowChoice>& slow() const { return slow_; }

 private:
  /// The message's operation, with the rows of a replayed run.
  Op replayed(const Message& message) const;
  Expansion expansion_of(const Op& op);

  /// Whether processors that ranks share also move the bytes: communication and computation there slow each other down.
  bool hosts_carry() const { return setup_.topology.device().synchronous && setup_.topology.ranks_per_device() > 1; }

  /// Adds `measured` as work on the members' processors: the time that it takes there if nothing else runs, as when it was measured.
  void carry(TransferPlan& plan, Duration measured);
  std::uint32_t use_cores();
  /// Adds links to the transfer's uses, once for every flow; returns their place.
  std::uint32_t use(std::vector<std::int32_t> links);
  void add(TransferPlan& plan, const CommPhase& phase, bool pipelined);

  /// Several rings at once over all links between whole chips of a torus, or devices of a cube mesh (stations).
  struct Circuit {
    std::int64_t stations = 0, ways = 0;
    std::vector<std::int32_t> links;  ///< once for each way that crosses it
    Duration hop;
  };

  std::optional<Circuit> circuit() const;

  /// Plans a collective on the circuit: pieces of 1/stations go round, split over the ways. Returns false if there is none.
  bool go_round(TransferPlan& plan, const Collective& c);
  static bool by_ring(const Collective& c);

  /// Applies NCCL's choice: its latencies replace the links', and its algorithm and protocol scale the rate.
  void tune(TransferPlan& plan, const Collective& c);
  std::int64_t count_nodes() const;

  /// With pipelined tiers NCCL's ring still goes through all ranks: each sends 2(n-1)/n of the vector, inside or across nodes.
  void through_all(TransferPlan& plan, const Collective& c);
  static void stretch(std::vector<Segment>& chain, double factor);
  void search(NcclTask& task);
  double alone(const std::vector<Segment>& chain) const { return time_alone({chain, {}}, transfer_.uses, links_).seconds(); }

  /// Seconds of the slowest route between nodes beyond NCCL's own step; 0 if switches alone explain the difference.
  double network_latency() const;

  /// Scales a plan to the share that the product beside it does not hide.
  void expose(TransferPlan& plan, double share);

  /// Share of a link's rate between nodes. It is lower for groups of several but not all devices of nodes with shared NICs.
  double across_share() const;
  double inside_share() const;

  /// Bytes divided by the reached share of a link's rate: the library occupies the link for longer.
  Bytes loaded(Bytes of_flow, std::int64_t steps, bool across) const;

  /// Bytes of a flow with which a phase of equal flows, alone on its links, takes as long as one of unequal rows: until the link
  /// with most rows for its bandwidth has moved them.
  Bytes uneven(const CommPhase& phase, const Footprint& print);

  /// Whether the library takes rows to the receiver's rail over NVLink. RCCL leaves that off (PXN_DISABLE is 1 there).
  bool keeps_to_rails() const;
  std::vector<std::int32_t> route(DeviceId from, DeviceId to);
  const Footprint& footprint(const std::vector<Flow>& flows);
  /// What the flows cross; from Setup::footprints if there is one.
  CrossedLinks crossed_by(const std::vector<Flow>& flows);
  CrossedLinks trace(const std::vector<Flow>& flows);
  void trace(const Flow& flow, CrossedLinks& out, std::vector<std::int32_t>& crossed);
  DeviceId device(std::int32_t member) const;
  std::vector<LinkUse> counted(std::vector<std::int32_t>& crossed) const;

  const Setup& setup_;
  Transfer& transfer_;
  const LinkCapacities& links_;
  CommFit fit_;
  GroupShape shape_;
  std::int64_t nodes_ = 0;              ///< number of nodes of the members; 0: not counted yet
  std::optional<NcclNode> node_;        ///< node of the first member; nothing: not read yet
  NcclGraphs graphs_;                   ///< channels that NCCL finds there
  std::optional<ExchangedRows> rows_;   ///< unequal rows of the message being planned
  std::optional<SlowChoice> slow_;
  std::vector<Footprint> prints_;
  bool on_rails_ = false;               ///< for the message being planned
  std::optional<RailRoutes> rails_;
  std::optional<Circuit> circuit_;
  bool circuit_known_ = false;
  std::optional<std::uint32_t> round_;  ///< the circuit's links, or those of the nodes' rings, among the transfer's uses
  std::optional<MeshRings> node_rings_; ///< rings inside the nodes of a group over several cube meshes
  bool node_rings_known_ = false;
  std::optional<std::uint32_t> cores_;  ///< the members' processors among the transfer's uses
};

}  // namespace tandem::sim
