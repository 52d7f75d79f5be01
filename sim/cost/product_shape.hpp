#pragma once
// The properties of a matrix product that its time depends on: the key of a measured table and the name in a report.

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

#include "models/ops/op.hpp"

namespace tandem::sim {

/// The role of a product in a layer, which decides how its operands are stored.
enum class ProductKind : std::uint8_t {
  forward,          ///< of a linear layer: rows of activations times rows of the weight
  input_gradient,   ///< rows of gradients times the weight as it is stored
  weight_gradient,  ///< columns of gradients times columns of activations
  attention_scores,
  attention_context,
  attention_context_gradients,
  attention_scores_gradients,
  experts_forward,
  experts_input_gradient,
  experts_weight_gradient,
};
std::string_view name(ProductKind kind);  ///< "forward", "weight gradient", ...

/// `batch` products of [m,k] by [k,n]. A bias or sums in the product's kernel are left out: no table could measure their cost.
struct ProductShape {
  ProductKind kind;
  std::int64_t batch, m, n, k;
  bool accumulate = false;
  DType total = DType::fp32;  ///< type of the sum that it is added to; fp32 if it is not added
  ProductActivation activation = ProductActivation::none;

  friend auto operator<=>(const ProductShape&, const ProductShape&) = default;
};

/// Returns nothing if the operation is no product; flash attention is none. Attention's backward operations are two products of the
/// returned shape. Every expert counts an even share of the rows, rounded up.
std::optional<ProductShape> product_shape(const Op& op);

/// Returns a product without the activation in its kernel; other operations unchanged.
Op without_activation(Op op);

}  // namespace tandem::sim
