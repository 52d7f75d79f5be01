#pragma once
// Measured matrix products of an accelerator, shape by shape: nothing is read between them.

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "reports/cost_table.hpp"
#include "sim/product_shape.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

class ProductTable {
 public:
  /// Products of `table`; its other samples are of kernels that frameworks do not have. Of repeated shapes the least
  /// counts. `name`: what a reader finds the table by.
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

/// Whether a table was measured on such a device: it names its preset, or the device as its preset does.
bool describes(const CostTable& table, const Device& device);

/// The table that a device preset names (topology/measured), or a file when `name` is a path. Throws ConfigError where
/// there is none, and where it was measured on another device.
CostTable load_measured_products(const std::string& name, const Device& device);

}  // namespace tandem::sim
