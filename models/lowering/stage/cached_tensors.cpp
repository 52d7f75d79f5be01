#include "models/lowering/stage/cached_tensors.hpp"

#include <algorithm>

namespace tandem::lowering {
namespace {

constexpr std::int64_t kWide = 4, kDouble = 8;  ///< bytes of an element in fp32 and fp64

/// Tensors in the order of allocation.
class Passing {
 public:
  /// Allocates tensors that are alive at the same time.
  void hold(const std::vector<std::int64_t>& bytes) { add(bytes, false); }
  /// Allocates one after the other. Each is freed before the next, or all live until the last is done.
  void hold(const std::vector<std::int64_t>& bytes, bool apart) {
    if (!apart) return add(bytes, true);
    for (const std::int64_t each : bytes) hold({each});
  }
  /// A narrow tensor and its wide copy, which a collective sums, bucket after bucket.
  void hold_copied(const std::vector<std::int64_t>& narrow, const std::vector<std::int64_t>& wide, bool apart) {
    const std::int32_t first = now_, last = first + static_cast<std::int32_t>(narrow.size()) - 1;
    for (std::size_t i = 0; i < narrow.size(); ++i, ++now_) {
      passing_.tensors.push_back({Bytes(narrow[i]), now_, now_, false});
      passing_.tensors.push_back({Bytes(wide[i]), now_, apart ? now_ : last, !apart});
    }
  }
  void gradients_go() { passing_.gradients_go = now_; }
  PassingTensors finish() { return std::move(passing_); }

 private:
  void add(const std::vector<std::int64_t>& bytes, bool let_go) {
    for (const std::int64_t each : bytes) passing_.tensors.push_back({Bytes(each), now_, now_, let_go});
    ++now_;
  }

  PassingTensors passing_;
  std::int32_t now_ = 0;
};

/// Sizes of the full buckets and of the rest, with `each` bytes per element.
std::vector<std::int64_t> buckets(const UpdateTensors& u, std::int64_t each) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(u.parameters / u.bucket), each * u.bucket);
  if (const std::int64_t rest = u.parameters % u.bucket; rest > 0) out.push_back(each * rest);
  return out;
}

/// all_gather allocates one tensor for a bucket's parts from all ranks. The number of buckets is that of whole ones that fit.
std::vector<std::int64_t> gathered(const UpdateTensors& u) {
  const std::int64_t n = std::max<std::int64_t>(1, u.parameters / u.bucket);
  return std::vector<std::int64_t>(static_cast<std::size_t>(n), u.weight_bytes * (u.parameters / n));
}

}  // namespace

// deepspeed/runtime/zero/stage_1_and_2.py, commit 2151c787a, in the order of a step. allreduce_bucket flattens a bucket
// and copies it to communication_data_type if that differs. independent_gradient_partition_epilogue then frees the
// gradients. _has_inf_or_nan casts the updated gradients to fp32, one tensor after the other; get_grad_norm_direct casts
// them to fp64 and waits for each. step() flattens the rank's part, casts it to fp32 and gathers the weights.
// (zero/stage2.py of the branch big-science, 2021, does the same. Aleph-Alpha/scaling 737f855, src/scaling/core/optimizer,
// makes no copies for the norm.) Freed tensors stay until a collective's stream has passed them (pytorch/pytorch:
// torch/lib/c10d/ProcessGroupNCCL.cpp, collective() and allgather() call recordStream; c10/cuda/CUDACachingAllocator.cpp,
// free() calls insert_events(), and process_events() frees). Nothing waits between buckets.
PassingTensors passing_in_update(const UpdateTensors& u) {
  if (!u.narrow_gradients) return {};
  const std::int64_t one = std::min(u.largest, u.updated);
  Passing passing;
  if (u.sum_bytes > u.weight_bytes) passing.hold_copied(buckets(u, u.weight_bytes), buckets(u, u.sum_bytes), u.host_waits);
  else passing.hold(buckets(u, u.weight_bytes), u.host_waits);
  passing.gradients_go();
  passing.hold({kWide * one});
  passing.hold({kDouble * one});
  passing.hold({u.weight_bytes * u.updated, kWide * u.updated});
  passing.hold(gathered(u), u.host_waits);
  return passing.finish();
}

// deepspeed/runtime/bf16_optimizer.py, commit 56c522386: get_grads_for_reduction returns the flat fp32 gradients of all parameters.
// engine.py, allreduce_bucket, copies them to communication_data_type, by default bf16 (bigscience-workshop/bigscience,
// train/tr11-176B-ml/tr11-176B-ml.slurm, keeps it). flatten() of a list of one tensor makes no copy.
Bytes sent_gradients(const UpdateTensors& u) {
  return Bytes(u.narrow_gradients ? 0 : u.weight_bytes * u.parameters);
}

}  // namespace tandem::lowering
