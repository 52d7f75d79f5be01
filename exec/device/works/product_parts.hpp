#pragma once
// Bias, sums and activation as separate kernels after a product, if the library has no kernel that includes them.

#include "exec/device/works/work.hpp"

namespace tandem::exec::device {

/// y = gelu(x), or, if dy exists, y = dy gelu'(x). y may be dy.
PointwiseKernel gelu_kernel(Form form, Typed x, Typed dy, Typed y, std::int64_t elements);

/// The product without its activation, then the activation. Requires an activation.
std::vector<Work> activation_apart(const Product& product);

/// The plain product, then everything else.
std::vector<Work> all_apart(const Product& product);

}  // namespace tandem::exec::device
