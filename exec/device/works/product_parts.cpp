#include "exec/device/works/product_parts.hpp"

#include <utility>

#include "exec/device/works/column_works.hpp"
#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {
namespace {

Typed result(const Product& p, std::byte* address) { return {address, p.shape.result}; }

/// The product without activation. Its result goes to `beside`, where the activation reads it.
Product without_activation(Product p) {
  if (p.shape.activation == ProductActivation::gelu) p.out = p.beside;
  p.shape.activation = ProductActivation::none;
  p.beside = nullptr;
  return p;
}

Work activation_of(const Product& p) {
  const bool gradient = p.shape.activation == ProductActivation::gelu_gradient;
  const Typed x = result(p, p.beside), y = result(p, p.out);
  return gelu_kernel(form_of(p.shape.type, {x, y}), x, gradient ? y : Typed{}, y, p.shape.out.rows * p.shape.out.cols);
}

/// Sums over the inner dimension of the second operand, which is its outermost stored dimension.
std::vector<Work> sums_of(const Product& p) {
  const Typed second{const_cast<std::byte*>(p.second), p.shape.type};
  return column_sums(p.shape.type, second, result(p, p.vector), {p.shape.summed(), p.shape.out.cols, p.scratch});
}

}  // namespace

PointwiseKernel gelu_kernel(Form form, Typed x, Typed dy, Typed y, std::int64_t elements) {
  return {form, x, {}, dy, y, elements, 0, PointwiseKind::gelu_tanh};
}

std::vector<Work> activation_apart(const Product& product) { return {without_activation(product), activation_of(product)}; }

std::vector<Work> all_apart(const Product& product) {
  Product alone = without_activation(product);
  alone.shape.bias = alone.shape.sums = false;
  alone.vector = nullptr;
  std::vector<Work> all{alone};
  const Typed out = result(alone, alone.out);
  if (product.shape.bias)
    all.push_back(BiasKernel{form_of(product.shape.type, {out}), result(product, product.vector), out, product.shape.out.cols,
                             product.shape.out.rows});
  if (product.shape.sums)
    for (Work& work : sums_of(product)) all.push_back(std::move(work));
  if (product.shape.activation != ProductActivation::none) all.push_back(activation_of(product));
  return all;
}

}  // namespace tandem::exec::device
