#pragma once
// A run as a list of segments. All steps of a segment use the same graph. A batch ramp-up
// has a segment for each batch size. An evaluation is a segment of forward passes.

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
  std::int64_t steps = 0;              ///< optimizer steps; evaluate: batches
  std::int64_t first_step = 0;         ///< optimizer steps before it
  std::int64_t first_sample = 0;       ///< sequences consumed before it; evaluate: of the evaluation data
  bool operator==(const Segment&) const = default;
};

/// Segments of `steps` optimizer steps of training. With a ramp-up the batch follows from the samples consumed so
/// far, as in Megatron-LM's RampupBatchsizeNumMicroBatchesCalculator. It grows by `increment` sequences every
/// samples / ((global - start) / increment) samples. The full batch applies once more than `samples` are consumed.
std::vector<Segment> segments(const Plan& plan, std::int64_t steps);

/// What a run had behind it when its state was saved.
struct Begun {
  std::int64_t steps = 0;    ///< optimizer steps
  std::int64_t samples = 0;  ///< sequences that they consumed
};
/// Segments of a run of `steps` steps that goes on after `begun`, whose batches may have been other ones than the plan's. The first
/// segment stands for the steps behind: its last sample is the last one consumed.
std::vector<Segment> segments(const Plan& plan, std::int64_t steps, const Begun& begun);

/// The interval between evaluations of a run, and their size.
struct EvaluationRhythm {
  std::int64_t every = 0;    ///< steps between evaluations; 0: none
  std::int64_t batches = 1;  ///< full global batches of one evaluation, the same ones every time
};
/// Whether an evaluation follows `steps` optimizer steps.
inline bool due_after(std::int64_t steps, const EvaluationRhythm& rhythm) { return rhythm.every > 0 && steps % rhythm.every == 0; }
/// Whether a run of `steps` optimizer steps goes on after `done` of them: with a step, or with an evaluation.
inline bool goes_on(std::int64_t done, std::int64_t steps, const EvaluationRhythm& rhythm) {
  return done < steps || (done == steps && due_after(done, rhythm));
}
/// `training` with an evaluation after every `rhythm.every`-th step. A segment with an evaluation in its middle is split.
std::vector<Segment> with_evaluations(const Plan& plan, const std::vector<Segment>& training, const EvaluationRhythm& rhythm);

/// The segments that remain after `done` optimizer steps. An evaluation due right after these steps remains, too.
std::vector<Segment> from_step(const std::vector<Segment>& all, std::int64_t done);

/// The plan with a constant batch size and no ramp-up.
Plan with_batch(const Plan& plan, std::int64_t global_batch_size);

/// What an evaluation keeps of a training's states.
enum class StatesKept : std::uint8_t {
  all,      ///< weights, gradients and optimizer states at the offsets of `lower` of the same plan, for any batch size
  weights,  ///< only weights, for a run that trains nothing
};
/// Graph of the forward passes of one full global batch up to the summed loss, without dropout, gradients or update.
TaskGraph lower_evaluation(const Plan& plan, StatesKept kept = StatesKept::all);

/// The graphs of a run. Each is lowered on first use. References stay valid.
class GraphCache {
 public:
  explicit GraphCache(const Plan& plan, StatesKept kept = StatesKept::all) : plan_(plan), kept_(kept) {}

  struct Entry {
    Plan plan;        ///< the plan with this batch size
    TaskGraph graph;
  };
  /// Throws InfeasibleError for what this version cannot lower.
  const Entry& of(Segment::Kind kind, std::int64_t global_batch_size);
  const Entry& of(const Segment& s) { return of(s.kind, s.global_batch_size); }
  /// A training step of the full batch, which a ramp-up ends with. Throws as of().
  const Entry& whole() { return of(Segment::Kind::train, plan_.training.global_batch_size); }
  const Plan& plan() const { return plan_; }

 private:
  Plan plan_;
  StatesKept kept_;  ///< in evaluations
  std::map<std::pair<Segment::Kind, std::int64_t>, Entry> entries_;
};

}  // namespace tandem
