#include "models/lowering/cached_tensors.hpp"

#include <algorithm>

namespace tandem::lowering {
namespace {

constexpr std::int64_t kWide = 4;  ///< bytes of an fp32 element

/// Segments of a cache, each for one tensor after the other and, cut, for several at once.
struct Gradients {
  std::int64_t all = 0, largest = 0;
};

/// What the 16-bit gradients take on their way to the optimizer (deepspeed/runtime/zero/stage_1_and_2.py, commit 2151c787a):
/// allreduce_bucket flattens a bucket and lets go of it; step() flattens the rank's part and, beside it, makes it fp32.
Gradients narrow_gradients(const UpdateTensors& u) {
  const std::int64_t bucket = u.weight_bytes * std::min(u.parameters, u.bucket);
  const std::int64_t flat = u.weight_bytes * u.updated, wide = kWide * u.updated;
  Gradients g{bucket, bucket};
  const auto take = [&g](std::int64_t bytes) {
    g.all += bytes;
    g.largest = std::max(g.largest, bytes);
  };
  std::int64_t left = bucket;
  if (flat <= left) left -= flat;
  else take(flat);
  if (wide > left) take(wide);
  return g;
}

/// all_gather makes one tensor of a bucket's parts from all ranks; the buckets are as many as whole ones fit.
std::int64_t gathered(const UpdateTensors& u) {
  return u.weight_bytes * (u.parameters / std::max<std::int64_t>(1, u.parameters / u.bucket));
}

}  // namespace

Bytes cached_by_update(const UpdateTensors& u) {
  // BF16_Optimizer reduces its flat fp32 gradients where they lie (deepspeed/runtime/bf16_optimizer.py, commit 56c522386).
  const Gradients g = u.narrow_gradients ? narrow_gradients(u) : Gradients{};
  const std::int64_t weights = gathered(u);
  return Bytes(g.all + (weights > g.largest ? weights : 0));
}

}  // namespace tandem::lowering
