#pragma once
// What a run comes to: losses, evaluations, books, gathered tensors, a timeline.

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/backend/backend.hpp"
#include "exec/state/gathered_tensor.hpp"
#include "reports/timeline/timeline.hpp"

namespace tandem::exec {

struct StepResult {
  std::int64_t step = 0;        ///< 0-based
  double loss = 0;              ///< mean over the tokens of the global batch
  double grad_norm = 0;         ///< before clipping
  double learning_rate = 0;
  double step_time_s = 0;
  std::int64_t global_batch_size = 0;
  double loss_scale = 1;        ///< of this step
  /// The update was left out: gradients were not finite.
  bool skipped() const { return !std::isfinite(grad_norm); }
};

/// Mean loss over the batches of one evaluation: forward passes without dropout.
struct EvaluationResult {
  std::int64_t step = 0;        ///< the last one trained before it
  double loss = 0;
};

struct RankBooks {
  BackendCounters backend;
  CommCounters comm;
  std::int64_t arena_bytes = 0;         ///< as allocated
  std::int64_t host_arena_bytes = 0;    ///< offloaded, in the host's memory, as allocated
  std::int64_t arena_touched_bytes = 0; ///< end of the highest byte any operand reached
  std::vector<std::pair<std::uint32_t, std::uint16_t>> issue_order;                  ///< (instance, task) as issued, last step
  std::vector<std::vector<std::pair<std::uint32_t, std::uint16_t>>> stream_order;    ///< by Stream, as started, last step
};

struct RunResult {
  std::vector<StepResult> steps;
  std::vector<EvaluationResult> evaluations;
  std::vector<RankBooks> ranks;                        ///< evaluations counted in, but for the orders
  std::vector<std::vector<GatheredTensor>> gradients;  ///< by step, ascending global_index
  std::vector<GatheredTensor> weights;
  std::shared_ptr<const Timeline> timeline;            ///< of timeline_step
};

}  // namespace tandem::exec
