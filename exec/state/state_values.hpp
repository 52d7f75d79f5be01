#pragma once
// Values of a rank's buffers, from and into whole parameters.

#include <cstdint>
#include <span>

#include "exec/backend/memory.hpp"
#include "exec/state/param_layout.hpp"
#include "models/base/dtype.hpp"

namespace tandem::exec {

/// Local elements [first, first + count) of a parameter, and where they begin in a buffer, in elements.
struct Stretch {
  std::int64_t first, count, at;
};

/// One buffer of a rank, `offset` bytes into its arena, of fp64, fp32, bf16 or fp16 values (ContractError for others). Nobody may be writing.
class StateValues {
 public:
  StateValues(Memory& arena, std::int64_t offset, DType dtype);

  /// whole -> buffer, on all cores. `whole`: the parameter, row-major.
  void write(const Stretch& s, const ShareMap& map, std::span<const double> whole);
  /// buffer -> whole.
  void read(const Stretch& s, const ShareMap& map, std::span<double> whole) const;

 private:
  Memory& arena_;
  std::size_t offset_;
  DType dtype_;
};

}  // namespace tandem::exec
