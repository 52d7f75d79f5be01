#pragma once
// A training between two steps, as it can be gone on from under any layout: whole tensors in parts that are read one by one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/state/block.hpp"
#include "models/base/dtype.hpp"
#include "models/plan/plan.hpp"

namespace tandem::exec {

/// What the loss scale is, and how it came to that (models/plan/loss_scale.hpp).
struct ScaleState {
  double loss_scale = 1;
  std::uint32_t good_steps = 0, bad_steps = 0;  ///< as in StepTable
  std::int64_t skipped = 0;                     ///< steps without an update, which Adam's corrections do not count
};

struct StateFacts {
  std::int64_t steps = 0;    ///< optimizer steps done
  std::int64_t samples = 0;  ///< sequences consumed by them
  ScaleState scale;
};

/// One whole tensor of a buffer that a training keeps from step to step: "weights" or an optimizer's ("exp_avg", "exp_avg_sq",
/// "master").
struct SavedTensor {
  std::string buffer, name;
  DType type = DType::fp32;     ///< fp64, fp32, bf16 or fp16
  std::int64_t rows = 0, cols = 0;
  std::vector<Block> parts;     ///< together every element once
};

class SavedState {
 public:
  virtual ~SavedState() = default;
  virtual const StateFacts& facts() const = 0;
  /// Tied copies are left out: their value is the first copy's.
  virtual const std::vector<SavedTensor>& tensors() const = 0;
  /// That it is read from, for messages.
  virtual std::string file() const = 0;
  /// The values of a part, row by row. Several threads may call it. Throws ConfigError where they cannot be read or are damaged.
  virtual void read(std::size_t tensor, std::size_t part, std::span<std::byte> to) const = 0;
};

/// The tensors that the ranks of the whole world keep between two steps, by buffer, "weights" first, and by global index; without parts.
std::vector<SavedTensor> kept_tensors(std::span<const RankState> ranks, const Plan& plan);

/// Writes `state` over initial values (exec/state/initialise.hpp), on every rank that has an arena, tied copies too. Reads the parts
/// that those ranks need. `ranks`: the whole world. Rows that pad a vocabulary, which earlier versions kept, are ignored. Throws
/// ConfigError, with the state's file, where a tensor is missing, left over or of another shape.
void restore_state(std::span<const RankState> ranks, const Plan& plan, const SavedState& state);

}  // namespace tandem::exec
