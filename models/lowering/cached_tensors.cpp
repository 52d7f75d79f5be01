#include "models/lowering/cached_tensors.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tandem::lowering {
namespace {

constexpr std::int64_t kWide = 4, kDouble = 8;  ///< bytes of an element in fp32 and fp64

/// Segments of a cache. Tensors that are alive at once are cut from what is free of them, each from the smallest that is large
/// enough, or have a new one.
class Segments {
 public:
  void hold(const std::vector<std::int64_t>& tensors) {
    std::vector<std::int64_t> free = sizes_;
    for (const std::int64_t bytes : tensors) {
      auto best = free.end();
      for (auto it = free.begin(); it != free.end(); ++it)
        if (*it >= bytes && (best == free.end() || *it < *best)) best = it;
      if (best == free.end()) sizes_.push_back(bytes);
      else *best -= bytes;
    }
  }
  std::int64_t all() const { return std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0}); }

 private:
  std::vector<std::int64_t> sizes_;
};

/// all_gather makes one tensor of a bucket's parts from all ranks; the buckets are as many as whole ones fit.
std::int64_t gathered(const UpdateTensors& u) {
  return u.weight_bytes * (u.parameters / std::max<std::int64_t>(1, u.parameters / u.bucket));
}

}  // namespace

// deepspeed/runtime/zero/stage_1_and_2.py, commit 2151c787a, in the order of a step: allreduce_bucket flattens a bucket;
// _has_inf_or_nan makes one tensor's gradients after the other fp32, get_grad_norm_direct fp64, as far as the rank updates them;
// step() flattens the rank's part and, beside it, makes it fp32, and gathers the weights.
Bytes cached_by_update(const UpdateTensors& u) {
  if (!u.narrow_gradients) return Bytes(0);
  const std::int64_t one = std::min(u.largest, u.updated);
  Segments cache;
  cache.hold({u.weight_bytes * std::min(u.parameters, u.bucket)});
  cache.hold({kWide * one});
  cache.hold({kDouble * one});
  cache.hold({u.weight_bytes * u.updated, kWide * u.updated});
  cache.hold({gathered(u)});
  return Bytes(cache.all());
}

// deepspeed/runtime/bf16_optimizer.py, commit 56c522386, get_grads_for_reduction gives the flat fp32 gradients of all parameters, and
// engine.py, allreduce_bucket, copies them to communication_data_type, which is bf16 unless the configuration says otherwise
// (bigscience-workshop/bigscience, train/tr11-176B-ml/tr11-176B-ml.slurm, does not).
Bytes sent_gradients(const UpdateTensors& u) {
  return Bytes(u.narrow_gradients ? 0 : u.weight_bytes * u.parameters);
}

}  // namespace tandem::lowering
