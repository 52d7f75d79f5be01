#pragma once
// Normal random numbers by the thousand.

#include <cstdint>
#include <span>

#include "exec/data/random.hpp"

namespace tandem::exec {

/// out[i] = number first + i of the stream, normal with mean 0 and deviation 1, by Box and Muller (Ann. Math. Stat. 29, 1958): within
/// 1e-14 of what the logarithm, sine and cosine of the C library give. A number's bits depend on its index alone.
void fill_normals(const RandomStream& stream, std::uint64_t first, std::span<double> out);

}  // namespace tandem::exec
