#pragma once
// A saved training state between two steps. It can be resumed under any layout: whole tensors, in parts that are read one by one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/state/block.hpp"
#include "models/base/dtype.hpp"
#include "models/plan/plan.hpp"

namespace tandem::exec {

/// The loss scale and its history (models/plan/loss_scale.hpp).
struct ScaleState {
  double loss_scale = 1;
  std::uint32_t good_steps = 0, bad_steps = 0;  ///< see StepTable
  std::int64_t skipped = 0;                     ///< steps with no update; Adam's bias corrections do not count them
};

struct StateFacts {
  std::int64_t steps = 0;    ///< completed optimizer steps
  std::int64_t samples = 0;  ///< sequences that those steps consumed
  ScaleState scale;
  std::int64_t tokens = 0;   ///< positions of those sequences, whose length may have changed
};

/// A whole tensor of a buffer that training keeps between steps:
/// "weights", or an optimizer's "exp_avg", "exp_avg_sq" or "master".
struct SavedTensor {
  std::string buffer, name;
  DType type = DType::fp32;     ///< fp64, fp32, bf16 or fp16
  std::int64_t rows = 0, cols = 0;
  std::vector<Block> parts;     ///< cover every element once
};

class SavedState {
 public:
  virtual ~SavedState() = default;
  virtual const StateFacts& facts() const = 0;
  /// Without tied copies: they equal the first copy.
  virtual const std::vector<SavedTensor>& tensors() const = 0;
  /// Path of the file or folder, for error messages.
  virtual std::string file() const = 0;
  /// Reads the values of a part, row by row. Thread-safe. Throws ConfigError if they cannot be read or are damaged.
  virtual void read(std::size_t tensor, std::size_t part, std::span<std::byte> to) const = 0;
};

/// The tensors that all ranks keep between steps, without parts. Ordered by buffer ("weights" first), then by global index.
std::vector<SavedTensor> kept_tensors(std::span<const RankState> ranks, const Plan& plan);

/// Writes `state` over the initial values of every rank with an arena, including tied copies. Reads only the parts that those ranks
/// need. `ranks`: all ranks of the world. Vocabulary padding, which earlier versions saved, is ignored. Throws ConfigError, naming
/// the file, if a tensor is missing, unknown, or of another shape.
void restore_state(std::span<const RankState> ranks, const Plan& plan, const SavedState& state);

/// Writes the state's "weights" to the weights and master weights of every rank with an arena, including tied copies. Reads only the
/// parts that those ranks need. The state has parameters of the model with their shapes, and nothing else. Parameters that it lacks
/// keep their initial values.
void load_weights(std::span<const RankState> ranks, const Plan& plan, const SavedState& state);

}  // namespace tandem::exec
