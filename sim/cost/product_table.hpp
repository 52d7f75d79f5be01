#pragma once
// Measured matrix products of an accelerator, shape by shape: nothing is read between them.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "reports/prediction/cost_table.hpp"
#include "sim/cost/product_shape.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

class ProductTable {
 public:
  /// Products of `table`; its other samples are of kernels that frameworks do not have. Times are those of steady load: where only
  /// a short one was measured, it is taken for as much longer as in the mean of the table's products of that type that have
  /// both (a card that was idle has higher clocks than one whose power limit has set in; never shorter). Of repeated shapes the
  /// least counts. `name`: what a reader finds the table by.
  ProductTable(const CostTable& table, std::string name);

  /// Seconds of the whole kernel (its traffic, its sum where it accumulates and its fixed time are in them) in steady
  /// load where that was measured; nothing where the table has not exactly this shape in this type.
  std::optional<double> seconds(const Op& op, DType dtype) const;

  const std::string& name() const { return name_; }
  const std::string& card() const { return card_; }
  const std::string& date() const { return date_; }
  const std::string& source() const { return source_; }
  std::size_t size() const { return seconds_.size(); }

 private:
  std::map<std::pair<DType, ProductShape>, double> seconds_;
  std::string name_, card_, date_, source_;
};

/// Whether a table of the device `measured` (`CostTable::device`) is of this one: it names its preset, or the device as its preset
/// does, or the preset whose rates and compute units it has.
bool describes(const std::string& measured, const Device& device);

/// The products of a table that a device preset names (topology/measured), or of a file when `name` is a path; read once for all
/// who ask while the file stays as it is. From any thread. Throws ConfigError where there is none, and where it was measured on
/// another device.
std::shared_ptr<const ProductTable> measured_products(const std::string& name, const Device& device);

}  // namespace tandem::sim
