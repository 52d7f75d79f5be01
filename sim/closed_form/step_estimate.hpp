#pragma once
// One plan's step put together from the times of its parts.

#include <vector>

#include "models/plan/plan.hpp"
#include "sim/closed_form/estimate.hpp"
#include "sim/closed_form/layer_times.hpp"
#include "sim/closed_form/link_times.hpp"
#include "sim/closed_form/pass_tape.hpp"

namespace tandem::sim::closed_form {

/// A unit of gradients on its way: it leaves when its last region is complete.
struct Unit {
  std::int64_t elements = 0, ready = 0;
  std::int64_t start = 0, end = 0;  ///< of the way
  std::int64_t moved = 0;           ///< scratch
  bool copy = false;                ///< a gradient of parameters that have another one
  bool word = false;                ///< the word matrix is in it
};

/// What is reused from plan to plan.
struct Scratch {
  PassTimes times;
  std::vector<std::int64_t> split;
  std::vector<Unit> units;
};

struct Parts {
  const Plan& plan;
  const Topology& topology;
  const CostModel& cost;
  const LayerTimes& layer;
  LinkTimes& links;
  PassSchedules& schedules;
  Scratch& scratch;
};

class StepEstimate {
 public:
  explicit StepEstimate(const Parts& parts);

  Estimate estimate();

 private:
  /// What one stage does behind its last pass.
  struct Tail {
    std::int64_t reduced = 0;    ///< ps: its gradients are summed
    std::int64_t word = 0;       ///< those of its copy of the word matrix
    std::int64_t gather = 0;     ///< what bringing its updated weights together takes
    std::int64_t computed = 0;   ///< its computations are over
    std::int64_t flat = 0, shard = 0;  ///< elements
  };

  // The pipeline.
  ScheduleShape shape() const;
  void fill_passes();
  void fill_transfers();
  std::int64_t pass(std::int64_t s, std::int64_t c, Phase phase, std::size_t order) const;
  std::int64_t layers(std::int64_t s, std::int64_t c) const {
    return scratch_.split[static_cast<std::size_t>(c * p_ + s)];
  }
  std::int64_t recomputed(std::int64_t s, std::int64_t c) const;
  bool first(std::int64_t s, std::int64_t c) const { return s == 0 && c == 0; }
  bool last(std::int64_t s, std::int64_t c) const { return s == p_ - 1 && c == v_ - 1; }
  /// Time of a layer's pass that makes gradients.
  std::int64_t gradient_pass() const { return split_backward_ ? layer_.weight[order_].ps : layer_.backward[order_].ps; }

  // The exchange of gradients.
  std::vector<Tail> all_tails(const PassEnds& ends);
  Tail tail(std::int64_t s, const PassEnds& ends, std::int64_t& late);
  std::int64_t added_uses();
  void list_units(std::int64_t s, const PassEnds& ends, std::int64_t late);
  /// A tied matrix is summed over its stages while weight passes are left (GradientReduction::before_weights).
  bool tied_before_weights() const { return split_backward_ && d_ == 1 && tied_ && p_ > 1; }
  void add_region(std::int64_t elements, std::int64_t ready, bool alone);
  void close_unit();
  std::int64_t send_units(std::int64_t s);
  std::int64_t sending_until(std::int64_t when) const;
  std::int64_t memory_until(std::int64_t when) const;
  std::int64_t update(const std::vector<Tail>& tails);
  Collective collective(CollectiveKind kind, Group group, std::int64_t elements, DType dtype) const {
    return {kind, group, elements, dtype, Reduce::sum};
  }
  Members data_groups(std::int64_t s) const { return {s * stride_, t_, d_, 1, t_}; }
  std::int64_t alone(const Op& op, const Members& members) { return links_.alone(op, members); }
  std::int64_t compute(const Op& op) const { return cost_.duration(op, activation_).ps(); }

  Bytes memory(const std::vector<Tail>& tails);
  bool contended(Duration step);
  bool host_bound() const;

  const Plan& plan_;
  const Topology& topology_;
  const CostModel& cost_;
  const LayerTimes& layer_;
  LinkTimes& links_;
  PassSchedules& schedules_;
  Scratch& scratch_;
  const std::int64_t t_, d_, p_, v_, m_;   ///< tensor, data, pipeline, chunks, micro-batches
  const std::int64_t stride_;              ///< ranks of a stage
  const std::int64_t shards_;
  const bool split_backward_, tied_, in_shares_;
  const bool uses_apart_;                  ///< a stage with both uses of a tied matrix has, and reduces, a gradient of each
  const std::size_t order_;                ///< of the last micro-batch in ByOrder, but for what is behind it alone
  const DType activation_;
  const DTypes& dtypes_;
  ScheduleShape shape_;
  Unit open_;
  bool slowed_ = false;                    ///< what computations take longer beside gradients on their way is counted
  std::int64_t longer_ = 0;                ///< ps: what stages' computations take longer for it, all added
  std::int64_t beside_ = 0;                ///< ps: most that a stage computed while gradients were on the way
  std::int64_t disturbed_ = 0;             ///< ps: most that a memory took for gradients on the way beside a stage's computation
  std::int64_t way_ = 0;                   ///< ps: most that a stage's gradients were on the way
};

}  // namespace tandem::sim::closed_form
