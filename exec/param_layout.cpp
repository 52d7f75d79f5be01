#include "exec/param_layout.hpp"

#include "models/base/error.hpp"

namespace tandem::exec {

std::int64_t state_offset(const Program& program, std::string_view name) {
  for (const auto& a : program.memory.allocations)
    if (a.name == name) return a.offset;
  return -1;
}

double load(const std::byte* buffer, DType dtype, std::int64_t index) {
  if (dtype == DType::fp64) return reinterpret_cast<const double*>(buffer)[index];
  require(dtype == DType::fp32, "state is kept in fp32 or fp64");
  return reinterpret_cast<const float*>(buffer)[index];
}

void store(std::byte* buffer, DType dtype, std::int64_t index, double value) {
  if (dtype == DType::fp64) {
    reinterpret_cast<double*>(buffer)[index] = value;
    return;
  }
  require(dtype == DType::fp32, "state is kept in fp32 or fp64");
  reinterpret_cast<float*>(buffer)[index] = static_cast<float>(value);
}

}  // namespace tandem::exec
