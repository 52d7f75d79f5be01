#pragma once
// Algorithms of products that earlier runs have timed, kept in a file that the simulator reads as measured times.

#include <compare>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "exec/device/product.hpp"
#include "reports/prediction/cost_table.hpp"

namespace tandem::exec::device {

/// What the choice of an algorithm depends on. Alignments: bytes that divide the addresses of the matrices; of the bias or the sums.
struct ProductKey {
  GemmShape shape;
  std::uint32_t alignment = 256, vector_alignment = 256;
  auto operator<=>(const ProductKey&) const = default;
};

struct ProductChoice {
  std::string algorithm;  ///< in the library's own words
  double seconds = 0;     ///< of one product
};

/// Where choices hold: an algorithm of another card or library may not exist or be slow.
struct ProductPlace {
  std::string card, library;  ///< "NVIDIA H100 80GB HBM3", "cuBLASLt 13.1.0"
  std::string device;         ///< preset that the simulator finds the times by
  std::string date;
};

/// For any number of threads.
class ProductChoices {
 public:
  /// Reads `path` where it exists. Throws ConfigError where it cannot be read, or where its times are of another card or library.
  ProductChoices(ProductPlace place, std::string path);

  std::optional<ProductChoice> find(const ProductKey& key) const;
  void keep(const ProductKey& key, const ProductChoice& choice);
  /// Writes the file, if anything is new since it was read: products of layers, as a cost table. Throws ConfigError.
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

/// $XDG_CACHE_HOME/tandem/algorithms, else ~/.cache/tandem/algorithms; there a file for each card and library.
std::string default_choices_path(const ProductPlace& place);

}  // namespace tandem::exec::device
