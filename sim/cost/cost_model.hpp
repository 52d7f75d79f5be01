#pragma once
// How long one computation takes on one device, and what the device's communication library adds to the links. How
// messages share links is sim/network's business.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/ops/op.hpp"
#include "reports/prediction/cost_table.hpp"
#include "sim/nccl/nccl.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

class ProductTable;

/// What the communication library makes of the links: fitted or measured, neutral where nothing is known.
struct CommFit {
  std::optional<NcclArchitecture> nccl;  ///< the library is NCCL: it picks algorithm and protocol, and its latencies hold
  Duration overhead;          ///< once per collective or send, beside its steps
  Duration in_step_overhead;  ///< likewise, in a training step: ranks arrive at different times; none in a benchmark's loop
  double inside_share = 1;    ///< of a link's bandwidth inside a node that is reached
  double in_step_share = 1;   ///< of inside_share, in a training step: ranks arrive at different times; 1 in a benchmark's loop
  /// Of a ring's rate inside a node that reductions in the switch reach; nothing: as the library plans.
  std::optional<double> in_switch_share;
  std::optional<Bandwidth> ring_copy;  ///< at which a ring's last step copies its part to its place; nothing: in no time
  double across_share = 1;    ///< of a link's bandwidth between nodes
  double in_step_across_share = 1;  ///< of across_share, likewise in a training step
  double shared_nic_share = 1;  ///< of that, in groups of some but not all devices of nodes whose devices share NICs
  double compute_slowdown = 0;  ///< of the memory's time for what collectives move beside a computation, added to it
  double chunked_exposed = 1; ///< of a collective's time that stays when it runs in pieces beside a product
};

/// Device time of operations: a processor's measured table where it has the kind, an accelerator's where it has exactly the
/// matrix product, a roofline of sourced facts and calibrated efficiencies elsewhere.
class CostModel {
 public:
  virtual ~CostModel() = default;
  /// Time of one computation on one device shared by nobody. Never called for communication (ContractError).
  virtual Duration duration(const Op& op, DType compute) const = 0;
  /// Host time of one launch.
  virtual Duration launch() const = 0;
  /// Whether `duration` rests on measurements: of this kind of operation in this compute type, or of this very product.
  virtual bool covered(const Op& op, DType compute) const = 0;
  /// Factor on `duration` while `active` devices of a node compute at once; at least 1, and 1 for one device.
  virtual double slowdown(std::int64_t active) const = 0;
  /// Measured time of a Collective, Send or Recv in a group of `ranks` that has the machine to itself, from the last arrival
  /// to the end; nothing where it was not measured: then links and `comm_fit` say it.
  virtual std::optional<Duration> communication(const Op& op, std::int64_t ranks) const = 0;
  virtual CommFit comm_fit() const = 0;
  /// The measured products of an accelerator; null where it has none.
  virtual const ProductTable* products() const { return nullptr; }
  /// What a reader of the prediction should know: which facts are unverified, which tables are missing.
  virtual std::vector<std::string> notes() const = 0;
};

/// Cost model of a device: its calibration (`Device::calibration`) and, where there is one, its measured table
/// (`Device::cost_table`, else `Device::measured`). Throws ConfigError on an unknown calibration, an unreadable table, or
/// measured products of another device.
/// `together`: devices that work in step, of which the slowest sets the pace (`Calibration::spread`).
std::unique_ptr<CostModel> make_cost_model(const Device& device, std::int64_t together = 1);
/// Of all devices of a cluster, working in step.
std::unique_ptr<CostModel> make_cost_model(const Topology& topology);
/// The same with a table at hand, whatever the device names; of an accelerator's only the products are used.
std::unique_ptr<CostModel> make_cost_model(const Device& device, const CostTable& table);

}  // namespace tandem::sim
