#pragma once
// Where queries, keys, values, gate and up are in the matrix that a layer has for them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/plan/layer_kind.hpp"

namespace tandem {

struct ModelSpec;

/// Columns of a part among those of its matrix' output: of each `group` columns, `width` from `first` on. width 0: the layer has no such
/// part. A group of qkv is a key head with its queries and its value; of a gated fc1, a unit's gate and up.
struct PartColumns {
  std::int64_t group = 0, first = 0, width = 0;

  /// The part's row for a row of the whole matrix; nothing if that is none of its rows.
  std::optional<std::int64_t> row_of(std::int64_t row) const {
    const std::int64_t at = row % group - first;
    return at < 0 || at >= width ? std::nullopt : std::optional(row / group * width + at);
  }
};

/// `part`: q, k, v, gate or up.
PartColumns part_columns(const ModelSpec& model, LayerKind kind, std::string_view part);
/// Rows and columns of a target of training.lora.targets in a layer of this kind, of one expert. No rows: such layers have no such matrix.
struct MatrixSize {
  std::int64_t out = 0, in = 0;
};
MatrixSize target_size(const ModelSpec& model, LayerKind kind, std::string_view target);
/// Part q, k or v of groups with so many columns of queries, keys and values.
PartColumns part_of_heads(std::string_view part, std::int64_t queries, std::int64_t keys, std::int64_t values);
/// Part gate or up.
PartColumns part_of_units(std::string_view part);

/// A shared expert is an MLP: "fc1" of "shared.fc1". Other names stay as they are.
constexpr std::string_view of_mlp(std::string_view matrix) {
  constexpr std::string_view shared = "shared.";
  if (matrix.starts_with(shared)) matrix.remove_prefix(shared.size());
  return matrix;
}

/// "qkv" and "q" of a parameter's name "layer0.qkv.q.lora_b"; no part in "layer0.qkv.lora_b".
struct AdapterName {
  std::string matrix, part;  ///< "layer0.qkv", "q"
};
AdapterName adapter_name(std::string_view parameter);
/// The number in "layer3.fc1.lora_a".
std::int64_t layer_of_adapter(std::string_view parameter);

}  // namespace tandem
