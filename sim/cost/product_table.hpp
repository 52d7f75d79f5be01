#pragma once
// Measured matrix products of an accelerator, shape by shape, without interpolation.

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
  /// Takes the products of `table`; its other samples are of kernels that frameworks do not have. Times are those of steady load.
  /// If only a short time was measured, it is multiplied by the mean ratio, at least 1, of the table's products of that type that
  /// have both: an idle card has higher clocks than one at its power limit. Repeated shapes count as the least. `name` appears in
  /// messages.
  ProductTable(const CostTable& table, std::string name);

  /// Seconds of the whole kernel in steady load, with its memory traffic, its accumulation and its fixed time. Nothing if the
  /// table does not have exactly this shape in this type.
  std::optional<double> seconds(const Op& op, DType dtype) const;

  const std::string& name() const { return name_; }
  const std::string& card() const { return card_; }
  const std::string& date() const { return date_; }
  const std::string& source() const { return source_; }
  const std::string& device() const { return device_; }  ///< that it was measured on
  std::size_t size() const { return seconds_.size(); }
  /// Bandwidth of the memory of the device preset that it was measured on; nothing if that is no preset.
  std::optional<Bandwidth> memory() const { return memory_; }
  /// Watts of the power limit that the card had; nothing if the table does not say.
  std::optional<double> power_limit() const { return power_limit_; }

 private:
  std::map<std::pair<DType, ProductShape>, double> seconds_;
  std::string name_, device_, card_, date_, source_;
  std::optional<Bandwidth> memory_;
  std::optional<double> power_limit_;
};

/// Whether `measured` (`CostTable::device` of a table) means this device: it is the device's preset, a preset with the same rates
/// and compute units, or the device's name if it names no preset. A plan's overrides of a preset do not matter.
bool describes(const std::string& measured, const Device& device);

/// Returns the products of a table of topology/measured, or of a file if `name` is a path. Reads it once while the file does not
/// change; may be called from any thread. Throws ConfigError if there is no such table, or if it was measured on another
/// device.
std::shared_ptr<const ProductTable> measured_products(const std::string& name, const Device& device);

}  // namespace tandem::sim
