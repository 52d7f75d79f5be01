#pragma once
// What a product's kernel does beside the product, as kernels behind it: for products that a library has no such kernel for.

#include "exec/device/work.hpp"

namespace tandem::exec::device {

/// y = gelu(x), or y = dy gelu'(x) where there is a dy, which may be y.
PointwiseKernel gelu_kernel(Form form, Typed x, Typed dy, Typed y, std::int64_t elements);

/// The product without its activation, and the activation. Only for a product that has one.
std::vector<Work> activation_apart(const Product& product);

/// The product alone, and everything else.
std::vector<Work> all_apart(const Product& product);

}  // namespace tandem::exec::device
