#pragma once
// A training between two steps: what has to be kept to go on with it, whole, so that any layout can.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/state/gathered_tensor.hpp"
#include "exec/state/param_layout.hpp"
#include "models/plan/kept_type.hpp"

namespace tandem::exec {

/// One of the buffers that a training keeps from step to step: "weights" or an optimizer's ("exp_avg", "exp_avg_sq", "master").
struct StateBuffer {
  std::string name;
  DType dtype = DType::fp32;            ///< what the ranks keep it in: fp64, fp32, bf16 or fp16
  std::vector<GatheredTensor> tensors;  ///< ascending global index; tied copies are left out
};

/// What the loss scale is, and how it came to that (models/plan/loss_scale.hpp).
struct ScaleState {
  double loss_scale = 1;
  std::uint32_t good_steps = 0, bad_steps = 0;  ///< as in StepTable
  std::int64_t skipped = 0;                     ///< steps without an update, which Adam's corrections do not count
};

struct TrainingState {
  std::int64_t steps = 0;    ///< optimizer steps done
  std::int64_t samples = 0;  ///< sequences consumed by them
  std::vector<StateBuffer> buffers;
  ScaleState scale;
  std::string file;          ///< that it was read from, for messages; empty where it comes from a run
};

/// Everything that the ranks of the whole world keep. Nobody may be writing.
TrainingState collect_state(std::span<const RankState> ranks, const Plan& plan);

/// Writes `state` over initial values (exec/state/initialise.hpp), on every rank that has an arena, tied copies too; `ranks`: the whole world; the layout may be
/// another one than it was collected from. Padded rows, which earlier versions kept, are ignored. Throws ConfigError, with the
/// state's file, where a tensor is missing, left over or of another shape.
void restore_state(std::span<const RankState> ranks, const Plan& plan, const TrainingState& state);

}  // namespace tandem::exec
