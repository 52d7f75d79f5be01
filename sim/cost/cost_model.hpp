#pragma once
// How long one computation takes on one device, and what the device's communication library adds to the links. How
// messages share links is sim/network's business.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/ops/op.hpp"
#include "reports/prediction/cost_table.hpp"
#include "sim/cost/comm_fit.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

class ProductTable;

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
/// Of all devices of a cluster, working in step. On processors a rank's computations take the time of one thread, divided by
/// `threads_per_rank` and times the slowdown of so many processors at once.
std::unique_ptr<CostModel> make_cost_model(const Topology& topology);
/// The same with a table at hand, whatever the device names; of an accelerator's only the products are used.
std::unique_ptr<CostModel> make_cost_model(const Device& device, const CostTable& table);

}  // namespace tandem::sim
