#pragma once
// The result of a run: losses, evaluations, counters, gathered tensors, a timeline.

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
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
  double loss_scale = 1;        ///< used in this step
  /// Mean of the losses of the modules for multi-token prediction, unweighted; `loss` is the model's alone. nullopt: no modules.
  std::optional<double> mtp_loss = std::nullopt;
  /// True if the update was skipped because gradients were not finite.
  bool skipped() const { return !std::isfinite(grad_norm); }
};

/// Mean loss over the batches of one evaluation: forward passes without dropout.
struct EvaluationResult {
  std::int64_t step = 0;        ///< the last step trained before the evaluation
  double loss = 0;
};

/// What a run that only evaluates says of one sequence of its data; sums over positions with a target.
struct SequenceScore {
  std::int64_t sequence = 0;     ///< its index in the data
  double loss = 0;               ///< in nats
  std::int64_t targets = 0;
  std::int64_t hits = 0;         ///< targets that are the most probable token
  double label_loss = 0;         ///< BERT: of the sentence pair
  std::int64_t labels = 0, label_hits = 0;
};

struct RankBooks {
  BackendCounters backend;
  CommCounters comm;
  std::int64_t arena_bytes = 0;         ///< allocated size
  std::int64_t host_arena_bytes = 0;    ///< allocated host memory for offloaded states
  std::int64_t arena_touched_bytes = 0; ///< highest end offset of any operand in the arena
  std::vector<std::pair<std::uint32_t, std::uint16_t>> issue_order;                  ///< last step: (instance, task) as issued
  std::vector<std::vector<std::pair<std::uint32_t, std::uint16_t>>> stream_order;    ///< last step: by Stream, as started
};

struct RunResult {
  std::vector<StepResult> steps;
  std::vector<EvaluationResult> evaluations;
  std::vector<RankBooks> ranks;                        ///< counters include evaluations, the orders do not
  std::vector<std::vector<GatheredTensor>> gradients;  ///< by step, ascending global_index
  std::vector<GatheredTensor> weights;
  std::shared_ptr<const Timeline> timeline;            ///< recorded at RunOptions::timeline_step
};

}  // namespace tandem::exec
