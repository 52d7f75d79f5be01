// Interleaved pipelines without overlap_p2p: one exchange behind each pass or pair of passes, as Megatron-LM has it
// (megatron/core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving).

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/schedule_plans.hpp"
#include "tests/sim/engine/fakes.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;
using namespace tandem::tests;

namespace {

constexpr std::int64_t kForward = 1000, kBackward = 1900;

/// Passes of a layer; nothing else takes time.
class PassCost : public FakeCost {
 public:
  Duration duration(const Op& op, DType) const override {
    if (std::holds_alternative<AttentionSoftmax>(op)) return Duration::picoseconds(kForward);
    return Duration::picoseconds(std::holds_alternative<AttentionSoftmaxBackward>(op) ? kBackward : 0);
  }
  std::optional<Duration> communication(const Op& op, std::int64_t) const override {
    return std::holds_alternative<Collective>(op) ? std::optional(Duration{}) : std::nullopt;
  }
};

Plan plan_of(std::int64_t p, std::int64_t m, std::int64_t v, const std::vector<std::int64_t>& split) {
  Plan plan = PipelinePlan{ScheduleKind::interleaved, p, m, v, split}.plan();
  plan.parallel.overlap_p2p = false;
  return plan;
}

std::int64_t step_of(const Plan& plan) {
  Shape shape;
  shape.devices = plan.parallel.pipeline;
  shape.bandwidth = Bandwidth::bytes_per_second(1e16);
  const FakeTopology topology(shape);
  const PassCost cost;
  const TaskGraph graph = lower(plan);
  const Mesh mesh = make_mesh(plan);
  return simulate_step({graph, mesh, topology, cost}).step_time.ps();
}

/// Megatron-LM's loop: stage r does warm(r) forward passes, then a forward and a backward pass in turn, then the backward passes that
/// are left. Exchange 0 is in front of them, and one is behind each pass or two passes in turn; it carries what they made and what
/// the next need. All its parties have come before anybody goes on.
class Loop {
 public:
  Loop(std::int64_t p, std::int64_t m, std::int64_t v, std::vector<std::int64_t> layers)
      : p_(p), v_(v), total_(m * v), layers_(std::move(layers)), came_(at(p), {0}) {}

  std::int64_t step() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int64_t r = 0; r < p_; ++r)
        while (std::ssize(came_[at(r)]) <= exchanges(r) && advance(r)) moved = true;
    }
    std::int64_t end = 0;
    for (std::int64_t r = 0; r < p_; ++r) {
      REQUIRE(std::ssize(came_[at(r)]) == exchanges(r) + 1);
      end = std::max(end, came_[at(r)].back());
    }
    return end;
  }

 private:
  using Exchange = std::pair<std::int64_t, std::int64_t>;  ///< stage, number

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::int64_t warm(std::int64_t r) const { return std::min(total_, 2 * (p_ - r - 1) + (v_ - 1) * p_); }
  /// Number of exchanges after the first one.
  std::int64_t exchanges(std::int64_t r) const { return total_ + warm(r); }
  std::int64_t chunk(std::int64_t k) const { return k / p_ % v_; }  ///< of pass k; backward passes count from the last

  /// Time of the passes between exchanges e and e + 1.
  std::int64_t work(std::int64_t r, std::int64_t e) const {
    const auto layers = [&](std::int64_t c) { return layers_[at(c * p_ + r)]; };
    return (e < total_ ? kForward * layers(chunk(e)) : 0) + (e >= warm(r) ? kBackward * layers(v_ - 1 - chunk(e - warm(r))) : 0);
  }

  /// The exchanges of other stages that exchange e of stage r is one with.
  std::vector<Exchange> partners(std::int64_t r, std::int64_t e) const {
    std::vector<Exchange> out;
    const std::int64_t after = (r + 1) % p_, before = (r + p_ - 1) % p_;
    const std::int64_t to_next = r == p_ - 1 ? p_ : 0, to_first = r == 0 ? p_ : 0;  // passes later in the next chunk
    const auto passes = [&](std::int64_t k, bool at_end) { return k >= 0 && k < total_ && !at_end; };
    const bool last = r == p_ - 1, first = r == 0;
    if (const std::int64_t k = e - 1; passes(k, last && chunk(k) == v_ - 1)) out.push_back({after, k + to_next});
    if (const std::int64_t k = e; passes(k, first && chunk(k) == 0)) out.push_back({before, k - to_first + 1});
    if (const std::int64_t k = e - 1 - warm(r); passes(k, first && chunk(k) == v_ - 1))
      out.push_back({before, warm(before) + k + to_first});
    if (const std::int64_t k = e - warm(r); passes(k, last && chunk(k) == 0)) out.push_back({after, warm(after) + k - to_next + 1});
    return out;
  }

  /// Goes through the exchange that stage r has come to, and comes to the next, if all partners have come.
  bool advance(std::int64_t r) {
    const std::int64_t e = std::ssize(came_[at(r)]) - 1;
    std::int64_t done = came_[at(r)].back();
    for (const auto& [stage, number] : partners(r, e)) {
      if (std::ssize(came_[at(stage)]) <= number) return false;
      done = std::max(done, came_[at(stage)][at(number)]);
    }
    came_[at(r)].push_back(done + work(r, e));
    return true;
  }

  std::int64_t p_, v_, total_;
  std::vector<std::int64_t> layers_;
  std::vector<std::vector<std::int64_t>> came_;  ///< by stage: to each exchange
};

}  // namespace

TEST_CASE("an interleaved pipeline without overlap takes as long as Megatron-LM's loop of exchanges") {
  const std::int64_t p = GENERATE(2, 3, 4, 8), rounds = GENERATE(2, 3, 5), v = GENERATE(2, 3);
  const std::int64_t m = rounds * p;
  std::vector<std::int64_t> equal(static_cast<std::size_t>(p * v), 1), heavy = equal;
  heavy[static_cast<std::size_t>(p)] = 3;  // the first stage's second chunk
  for (const auto& split : {equal, heavy}) {
    INFO("p " << p << " m " << m << " v " << v << (split == heavy ? " with a heavy chunk" : ""));
    const Plan plan = plan_of(p, m, v, split);
    CHECK(step_of(plan) == Loop(p, m, v, split).step());
    Plan free = plan;
    free.parallel.overlap_p2p = true;
    CHECK(step_of(free) <= step_of(plan));
  }
}

TEST_CASE("stages that exchange do not wait for each other for ever, whatever the shape") {
  for (const std::int64_t p : {2, 3, 5})
    for (std::int64_t m = p; m <= 3 * p + 1; ++m)
      for (const std::int64_t v : {2, 3}) {
        INFO("p " << p << " m " << m << " v " << v);
        CHECK_NOTHROW(lower(plan_of(p, m, v, {})).check());
      }
}
