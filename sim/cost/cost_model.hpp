#pragma once
// How long one computation takes on one device, and the efficiencies of its communication library. sim/network shares links
// among messages.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/ops/op.hpp"
#include "reports/prediction/cost_table.hpp"
#include "sim/cost/comm_fit.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Prefix of the note that shows a calibration's `caveat`.
inline constexpr const char* kCaveat = "of its calibration: ";

class ProductTable;

/// Device time of operations. A processor's measured table is used if it has the kind, an accelerator's if it has exactly the
/// matrix product. Otherwise a roofline of sourced facts and calibrated efficiencies.
class CostModel {
 public:
  virtual ~CostModel() = default;
  /// Time of one computation on one device that runs nothing else. Throws ContractError for communication.
  virtual Duration duration(const Op& op, DType compute) const = 0;
  /// Host time to launch one operation.
  virtual Duration launch() const = 0;
  /// Whether `duration` rests on measurements of this kind of operation in this compute type, or of exactly this product.
  virtual bool covered(const Op& op, DType compute) const = 0;
  /// Factor on `duration` while `active` devices of a node compute at once; at least 1, and 1 for one device.
  virtual double slowdown(std::int64_t active) const = 0;
  /// Measured time of a Collective, Send or Recv in a group of `ranks` that has the machine to itself, from the last arrival
  /// to the end; nothing if it was not measured: then links and `comm_fit` give the time.
  virtual std::optional<Duration> communication(const Op& op, std::int64_t ranks) const = 0;
  virtual CommFit comm_fit() const = 0;
  /// The measured matrix products of an accelerator; null if it has none.
  virtual const ProductTable* products() const { return nullptr; }
  /// Kinds of computation that the device's table lacks, so that the roofline gives their times. Empty without a table.
  virtual std::vector<std::string> unmeasured() const { return {}; }
  /// Notes for the reader of a prediction: unverified facts, missing tables.
  virtual std::vector<std::string> notes() const = 0;
};

/// Cost model of a device: its calibration (`Device::calibration`) and, if there is one, its measured table
/// (`Device::cost_table`, else `Device::measured`). Throws ConfigError on an unknown calibration, an unreadable table, or
/// measured products of another device.
/// `together`: number of devices that work in step; the slowest sets the pace (`Calibration::spread`).
std::unique_ptr<CostModel> make_cost_model(const Device& device, std::int64_t together = 1);
/// Cost model of a cluster whose devices all work in step. On processors a rank's computation takes the time of one thread, divided
/// by `threads_per_rank` and times the slowdown of so many processors at once.
std::unique_ptr<CostModel> make_cost_model(const Topology& topology);
/// Cost model of a device with `table` in place of the one that the device names; an accelerator uses only its matrix products.
std::unique_ptr<CostModel> make_cost_model(const Device& device, const CostTable& table);

}  // namespace tandem::sim
