#pragma once
// How the global batch of a run grows, and how many steps a number of sequences takes.

#include <cstdint>

#include "models/plan/training_spec.hpp"

namespace tandem {

/// A batch that grows from `ramp.start` to `full` sequences, as in Megatron-LM's RampupBatchsizeNumMicroBatchesCalculator: by
/// `ramp.increment` every ramp.samples / ((full - start) / increment) sequences. It is full once more than `ramp.samples` are consumed.
struct BatchGrowth {
  std::int64_t full = 0;
  BatchRampup ramp;

  /// What the steps behind a run's end do: Megatron-LM leaves a batch that is not whole out of --train-samples, and
  /// Megatron-DeepSpeed begins a step while --train-tokens are not consumed.
  enum class End : std::uint8_t { whole_batches, all_sequences };

  /// Sequences of the step after `consumed` ones.
  std::int64_t batch_after(std::int64_t consumed) const;
  /// Steps after `consumed` sequences until the batch changes, at most `most`.
  std::int64_t steps_at(std::int64_t consumed, std::int64_t most) const;
  /// Optimizer steps of a run over `sequences`.
  std::int64_t steps_of(std::int64_t sequences, End end) const;
};

}  // namespace tandem
