#pragma once
// Scratch memory of the kernels that the CUDA backend has for recurrences (exec/device/recurrence), in bytes. It lies beside the arena.

#include <cstdint>

#include "models/base/dtype.hpp"
#include "models/ops/recurrence.hpp"

namespace tandem {

/// Key heads of sequences whose scratch memory is in use at once. They are equal slices of all.
std::int64_t scan_lanes_at_once(const RecurrenceDims& dims, bool backward, DType compute);
/// Scratch memory of `lanes` of them.
std::int64_t scan_slice_bytes(const RecurrenceDims& dims, std::int64_t lanes, bool backward, DType compute);

std::int64_t scratch_bytes(const Recurrence& op, DType compute);
std::int64_t scratch_bytes(const RecurrenceBackward& op, DType compute);
std::int64_t scratch_bytes(const ShortConvBackward& op, DType compute);
std::int64_t scratch_bytes(const GatedNormBackward& op, DType compute);

}  // namespace tandem
