#pragma once
// A run as a list of segments: steps that are one and the same graph. A batch that ramps up is a segment a batch size, and
// an evaluation a segment of forward passes.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"

namespace tandem {

struct Segment {
  enum class Kind : std::uint8_t { train, evaluate };
  Kind kind = Kind::train;
  std::int64_t global_batch_size = 0;  ///< sequences of each step
  std::int64_t steps = 0;              ///< evaluate: batches
  std::int64_t first_step = 0;         ///< optimizer steps before it
  std::int64_t first_sample = 0;       ///< sequences consumed before it; evaluate: of the evaluation data
  bool operator==(const Segment&) const = default;
};

/// The training of `steps` optimizer steps. With a ramp-up a step's batch follows from the samples consumed before it, as
/// Megatron-LM's RampupBatchsizeNumMicroBatchesCalculator decides it: `increment` more sequences every
/// samples / ((global - start) / increment) samples, and the full batch once more than `samples` are consumed.
std::vector<Segment> segments(const Plan& plan, std::int64_t steps);

/// What is evaluated beside the training.
struct EvaluationRhythm {
  std::int64_t every = 0;    ///< steps between evaluations; 0: none
  std::int64_t batches = 1;  ///< full global batches of one evaluation, the same ones every time
};
/// `training` with an evaluation behind every `rhythm.every`-th step; segments that one falls into are cut in two.
std::vector<Segment> with_evaluations(const Plan& plan, const std::vector<Segment>& training, const EvaluationRhythm& rhythm);

/// What of `all` is left once `done` optimizer steps are done; an evaluation due behind them is left, too.
std::vector<Segment> from_step(const std::vector<Segment>& all, std::int64_t done);

/// The plan with this constant batch, and without a ramp-up.
Plan with_batch(const Plan& plan, std::int64_t global_batch_size);

/// Forward passes of one full global batch up to the summed loss: no dropout, gradients or update. Weights, gradients and
/// optimizer states lie where `lower` of the same plan has them, whatever the batch.
TaskGraph lower_evaluation(const Plan& plan);

/// The graphs of a run, each lowered when it is first asked for. References stay valid.
class GraphCache {
 public:
  explicit GraphCache(const Plan& plan) : plan_(plan) {}

  struct Entry {
    Plan plan;        ///< of this batch
    TaskGraph graph;
  };
  /// Throws InfeasibleError for what this version cannot lower.
  const Entry& of(Segment::Kind kind, std::int64_t global_batch_size);
  const Entry& of(const Segment& s) { return of(s.kind, s.global_batch_size); }
  /// A training step of the whole batch, which a ramp-up ends with. Throws as of().
  const Entry& whole() { return of(Segment::Kind::train, plan_.training.global_batch_size); }
  const Plan& plan() const { return plan_; }

 private:
  Plan plan_;
  std::map<std::pair<Segment::Kind, std::int64_t>, Entry> entries_;
};

}  // namespace tandem
