#pragma once
// Where a rank's share of a parameter lies: in the whole parameter, and in the rank's flat buffers.

#include <cstddef>
#include <string_view>

#include "models/dtype.hpp"
#include "models/task_graph.hpp"

namespace tandem::exec {

/// Byte offset into the arena of the allocation `name`, -1 where the program has none.
std::int64_t state_offset(const Program& program, std::string_view name);

/// Calls f(full index, local index) for every element of tensor rank `tensor_rank`'s share of `p`, both row-major.
template <class F>
void for_each_element(const Param& p, std::int64_t tensor_rank, F&& f) {
  const std::int64_t row0 = p.shard_dim == 0 ? tensor_rank * p.rows : 0;
  const std::int64_t col0 = p.shard_dim == 1 ? tensor_rank * p.cols : 0;
  for (std::int64_t r = 0; r < p.rows; ++r)
    for (std::int64_t c = 0; c < p.cols; ++c) f((row0 + r) * p.full_cols + col0 + c, r * p.cols + c);
}

/// Element `index` of a flat buffer of fp32 or fp64 values.
double load(const std::byte* buffer, DType dtype, std::int64_t index);
void store(std::byte* buffer, DType dtype, std::int64_t index, double value);

}  // namespace tandem::exec
