#include "sim/cost/product_shape.hpp"

#include "models/base/error.hpp"

namespace tandem::sim {
namespace {

using Found = std::optional<ProductShape>;

/// Scores are [seq, head_dim] by [head_dim, keys], contexts [seq, keys] by [keys, head_dim], for every head.
ProductShape scores(ProductKind kind, const AttentionDims& d) {
  return {kind, d.batch * d.heads, d.seq, d.key_count(), d.head_dim};
}
ProductShape context(ProductKind kind, const AttentionDims& d) {
  return {kind, d.batch * d.heads, d.seq, d.value_width(), d.key_count()};
}

std::int64_t rows(const auto& o) { return (o.rows() + o.experts - 1) / o.experts; }
DType total(const auto& o) { return o.accumulate ? o.total : DType::fp32; }

struct ShapeOf {
  Found operator()(const MatMul& o) const {
    using enum ProductKind;
    if (o.trans_a && o.trans_b) return {};  // no layer has it, and no table
    return ProductShape{
        o.trans_a ? weight_gradient : o.trans_b ? forward : input_gradient, 1, o.m, o.n, o.k, o.accumulate, total(o), o.activation};
  }
  Found operator()(const AttentionScores& o) const { return scores(ProductKind::attention_scores, o.dims); }
  Found operator()(const AttentionContext& o) const { return context(ProductKind::attention_context, o.dims); }
  Found operator()(const AttentionContextBackward& o) const {
    return context(ProductKind::attention_context_gradients, o.dims);
  }
  Found operator()(const AttentionScoresBackward& o) const {
    return scores(ProductKind::attention_scores_gradients, o.dims);
  }
  Found operator()(const GroupedMatMul& o) const {
    const ProductKind kind = o.trans_b ? ProductKind::experts_forward : ProductKind::experts_input_gradient;
    return ProductShape{kind, o.experts, rows(o), o.n, o.k};
  }
  Found operator()(const GroupedWeightGrad& o) const {
    return ProductShape{ProductKind::experts_weight_gradient, o.experts, o.n, o.k, rows(o), o.accumulate, total(o)};
  }
  Found operator()(const auto&) const { return {}; }
};

}  // namespace

std::string_view name(ProductKind kind) {
  switch (kind) {
    case ProductKind::forward: return "forward";
    case ProductKind::input_gradient: return "input gradient";
    case ProductKind::weight_gradient: return "weight gradient";
    case ProductKind::attention_scores: return "attention scores";
    case ProductKind::attention_context: return "attention context";
    case ProductKind::attention_context_gradients: return "attention context gradients";
    case ProductKind::attention_scores_gradients: return "attention scores gradients";
    case ProductKind::experts_forward: return "experts forward";
    case ProductKind::experts_input_gradient: return "experts input gradient";
    case ProductKind::experts_weight_gradient: return "experts weight gradient";
  }
  throw ContractError("unknown kind of product");
}

std::optional<ProductShape> product_shape(const Op& op) { return std::visit(ShapeOf{}, op); }

Op without_activation(Op op) {
  if (auto* o = std::get_if<MatMul>(&op)) o->activation = ProductActivation::none;
  return op;
}

}  // namespace tandem::sim
