#pragma once
// A file of matrix-product algorithms that earlier runs timed. The simulator reads it as measured times.

#include <compare>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "exec/device/product.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::device {

/// Inputs of the choice of an algorithm. Alignments in bytes: of the matrices' addresses, and of the bias or the sums.
struct ProductKey {
  GemmShape shape;
  std::uint32_t alignment = 256, vector_alignment = 256;
  auto operator<=>(const ProductKey&) const = default;
};

struct ProductChoice {
  std::string algorithm;  ///< as the library writes it
  double seconds = 0;     ///< per product
};

/// Where choices are valid: another card or library may lack an algorithm or run it slowly.
struct ProductPlace {
  std::string card, library;  ///< e.g. "NVIDIA H100 80GB HBM3", "cuBLASLt 13.1.0"
  std::string device;         ///< device preset under which the simulator finds the times
  std::string date;
};

/// Thread-safe.
class ProductChoices {
 public:
  /// Reads `path` if it exists. Throws ConfigError if it cannot be read or belongs to another card or library.
  ProductChoices(ProductPlace place, std::string path);

  std::optional<ProductChoice> find(const ProductKey& key) const;
  void keep(const ProductKey& key, const ProductChoice& choice);
  /// Writes new choices to the file, as a cost table of layers' products. Throws ConfigError.
  void save();

  const std::string& path() const { return path_; }

 private:
  void read();
  CostTable table() const;

  const ProductPlace place_;
  const std::string path_;
  mutable std::mutex mutex_;
  std::map<ProductKey, ProductChoice> choices_;
  bool changed_ = false;
};

/// $XDG_CACHE_HOME/tandem/algorithms, else ~/.cache/tandem/algorithms, with one file per card and library.
std::string default_choices_path(const ProductPlace& place);

}  // namespace tandem::exec::device
