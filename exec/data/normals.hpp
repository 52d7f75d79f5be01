#pragma once
// Normal random numbers, in bulk.

#include <cstdint>
#include <span>

#include "exec/data/random.hpp"

namespace tandem::exec {

/// out[i] = number first + i of the stream, from N(0, 1) by the Box-Muller method (Ann. Math. Stat. 29, 1958). Accurate to 1e-14
/// compared with the C library's logarithm, sine and cosine. A number's bits depend only on its index.
void fill_normals(const RandomStream& stream, std::uint64_t first, std::span<double> out);

}  // namespace tandem::exec
