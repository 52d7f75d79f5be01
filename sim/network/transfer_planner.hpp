#pragma once
// One transfer's messages laid over the links: phases and flows of the algorithm, the library's choice, what a ring around a torus or a
// cube mesh takes.

#include <cstdint>
#include <optional>
#include <vector>

#include "models/ops/collective.hpp"
#include "sim/nccl/nccl_search.hpp"
#include "sim/network/communications.hpp"
#include "sim/network/setup.hpp"
#include "sim/network/transfer.hpp"

namespace tandem::sim {

/// The link behind the topology's that stands for a processor.
std::size_t core_link(const Topology& topology, DeviceId d);

/// Flows of a phase on the links they cross, shared by all messages of a transfer that use the same flows.
struct Footprint {
  std::vector<Flow> flows;
  std::uint32_t uses = 0;
  bool across = false;  ///< some flow leaves its node
  Duration latency;     ///< of the longest route
};

/// Plans how the messages of one transfer use the links.
class TransferPlanner {
 public:
  TransferPlanner(const Setup& setup, Transfer& transfer, const LinkCapacities& links)
      : setup_(setup), transfer_(transfer), links_(links), fit_(setup.cost.comm_fit()) {}

  TransferPlan make_plan(std::uint32_t id, const Message& message);
  /// Of the message that was planned last; nothing where NCCL chose what takes least, or chose nothing.
  const std::optional<SlowChoice>& slow() const { return slow_; }

 private:
  /// A gather or a scatter of replayed rows is one of as many in equal shares.
  Op replayed(const Message& message) const;
  Expansion expansion_of(const Op& op);

  /// Ranks that share a processor move bytes with it: whoever else computes there slows them down, and they him.
  bool hosts_carry() const { return setup_.topology.device().synchronous && setup_.topology.ranks_per_device() > 1; }

  /// Work on the members' processors that takes `measured` when they have them to themselves, as in the measurement.
  void carry(TransferPlan& plan, Duration measured);
  std::uint32_t use_cores();
  void add(TransferPlan& plan, const CommPhase& phase, bool pipelined);

  /// Several rings at once over all links between whole chips of a torus or devices of a cube mesh.
  struct Circuit {
    std::int64_t stations = 0, ways = 0;
    std::vector<std::int32_t> links;  ///< once for each way that crosses it
    Duration hop;
  };

  std::optional<Circuit> circuit() const;

  /// A piece of 1/stations goes round, each way out of a station taking its share of it.
  bool go_round(TransferPlan& plan, const Collective& c);
  static bool by_ring(const Collective& c);

  /// The library's choice: its latencies in place of the links', and the rate of its algorithm and protocol.
  void tune(TransferPlan& plan, const Collective& c);
  std::int64_t count_nodes() const;

  /// Where tiers are pipelined, NCCL's ring still goes through all ranks: each sends 2(n-1)/n of the vector, wherever it sends to.
  void through_all(TransferPlan& plan) const;
  static void stretch(std::vector<Segment>& chain, double factor);
  void search(NcclTask& task);
  double alone(const std::vector<Segment>& chain) const { return time_alone({chain, {}}, transfer_.uses, links_).seconds(); }

  /// Of the slowest route between nodes, beyond what the library's own model has for a step; switches apart.
  double network_latency() const;

  /// What of a communication is not hidden behind the product that runs beside it.
  void expose(TransferPlan& plan, double share);

  /// Where devices share NICs, groups that have some of a node's devices, but several, choose theirs without knowing of the others.
  double across_share() const;

  /// Bytes as the links see them: a library that reaches a share of a link's rate occupies it for longer.
  Bytes loaded(Bytes of_flow, std::int64_t steps, bool across) const;

  /// Bytes of a flow with which a phase of equal flows takes as long, alone on its links, as that of unequal rows does: until the
  /// link with most rows for its bandwidth is through.
  Bytes uneven(const CommPhase& phase, const Footprint& print) const;
  const Footprint& footprint(const std::vector<Flow>& flows);
  void trace(const Flow& flow, Footprint& print, std::vector<std::int32_t>& crossed) const;
  DeviceId device(std::int32_t member) const;
  static std::vector<LinkUse> counted(std::vector<std::int32_t>& crossed);

  const Setup& setup_;
  Transfer& transfer_;
  const LinkCapacities& links_;
  CommFit fit_;
  GroupShape shape_;
  std::int64_t nodes_ = 0;              ///< that the members are on; 0: not counted yet
  std::optional<NcclNode> node_;        ///< of the first member; nothing: not looked at yet
  NcclGraphs graphs_;                   ///< that NCCL finds there
  std::optional<ExchangedRows> rows_;   ///< of the message that is laid, where they are unequal
  std::optional<SlowChoice> slow_;
  std::vector<Footprint> prints_;
  std::optional<Circuit> circuit_;
  bool circuit_known_ = false;
  std::optional<std::uint32_t> round_;  ///< the circuit's links among the transfer's uses
  std::optional<std::uint32_t> cores_;  ///< the members' processors among the transfer's uses
};

}  // namespace tandem::sim
