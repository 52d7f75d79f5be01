#pragma once
// Matrix FLOPs of a step, rank by rank.

#include <array>
#include <optional>
#include <vector>

#include "models/graph/model_flops.hpp"
#include "models/graph/tensor_copies.hpp"

namespace tandem {

/// FLOPs of one rank of a stage in a step.
struct StageFlops {
  double model = 0, hardware = 0;  ///< as model_flops counts, with what tensor ranks do alike counted once; as matrix_flops counts
};

/// Counts every template of a graph once for each phase.
class FlopsOfStages {
 public:
  /// `graph` is kept by reference.
  explicit FlopsOfStages(const TaskGraph& graph);

  StageFlops of(const Program& program);

 private:
  const StageFlops& of(const Program& program, const Instance& instance);

  const TaskGraph& graph_;
  ExpertRows rows_;
  TensorCopies copies_;
  std::array<std::vector<std::optional<StageFlops>>, kPhases> known_;
};

/// Model FLOPs of all ranks in a step.
double model_flops_of_step(const TaskGraph& graph, std::int64_t ranks);

}  // namespace tandem
