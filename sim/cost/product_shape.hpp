#pragma once
// What a matrix product is, as far as its time depends on it: the key of a measured table and the name in a report.

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

#include "models/ops/op.hpp"

namespace tandem::sim {

/// Which product of which layer: it says how the operands are stored.
enum class ProductKind : std::uint8_t {
  forward,          ///< of a linear layer: rows of activations by rows of the weight
  input_gradient,   ///< rows of gradients by the weight as it lies
  weight_gradient,  ///< columns of gradients by columns of activations
  attention_scores,
  attention_context,
  attention_context_gradients,
  attention_scores_gradients,
  experts_forward,
  experts_input_gradient,
  experts_weight_gradient,
};
std::string_view name(ProductKind kind);  ///< "forward", "weight gradient", ...

/// `batch` products [m,k] by [k,n]. A bias or sums in the product's own kernel cost nothing that a table could tell.
struct ProductShape {
  ProductKind kind;
  std::int64_t batch, m, n, k;
  bool accumulate = false;
  DType total = DType::fp32;  ///< of what it is added to; fp32 where it is not
  ProductActivation activation = ProductActivation::none;

  friend auto operator<=>(const ProductShape&, const ProductShape&) = default;
};

/// Nothing where the operation is no product, attention without a score matrix included. Attention's backward
/// operations are two products of the shape that is given; experts have an even share of the rows each.
std::optional<ProductShape> product_shape(const Op& op);

/// A product without the activation in its kernel; other operations as they are.
Op without_activation(Op op);

}  // namespace tandem::sim
