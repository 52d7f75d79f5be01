// Steps that follow each other without a rank waiting for all others: against the bubbles of arXiv 2401.10241, against longer
// successions, and against what must hold of any plan.

#include <algorithm>
#include <map>
#include <numeric>

#include "models/schedule/pass_work.hpp"
#include "sim/engine/repeated_steps.hpp"
#include "sim/engine/simulate_step.hpp"
#include "sim/result/simulate.hpp"
#include "sim/result/steady_state.hpp"
#include "tests/catch.hpp"
#include "tests/schedule_list.hpp"
#include "tests/schedule_plans.hpp"
#include "tests/sim/engine/fakes.hpp"
#include "tests/sim/engine/random_plans.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;
using namespace tandem::tests;

namespace {

struct Passes {
  std::int64_t forward, backward, weight;
  std::int64_t sum() const { return forward + backward + weight; }
};

/// One operation of each pass of a block takes time, and so does the update if `update` is not 0.
class PassCost : public FakeCost {
 public:
  PassCost(std::int64_t rows, const Passes& passes, std::int64_t update) : rows_(rows), passes_(passes), update_(update) {}
  Duration duration(const Op& op, DType) const override {
    const auto* product = std::get_if<MatMul>(&op);
    if (std::holds_alternative<AttentionSoftmax>(op)) return Duration::picoseconds(passes_.forward);
    if (std::holds_alternative<AttentionSoftmaxBackward>(op)) return Duration::picoseconds(passes_.backward);
    if (std::holds_alternative<AdamW>(op)) return Duration::picoseconds(update_);
    return Duration::picoseconds(product && product->trans_a && product->m == rows_ ? passes_.weight : 0);
  }
  std::optional<Duration> communication(const Op& op, std::int64_t) const override {
    return std::holds_alternative<Collective>(op) ? std::optional(Duration{}) : std::nullopt;
  }

 private:
  std::int64_t rows_;
  Passes passes_;
  std::int64_t update_;
};

struct StepTimes {
  std::int64_t step, makespan;
};

/// One layer a chunk, in the orders for passes that take the same; transfers take no time.
StepTimes times_of(ScheduleKind kind, std::int64_t p, std::int64_t m, const Passes& passes, std::int64_t update) {
  const ScheduleShape shape_of_passes = folds(kind) ? folded_shape(p, m) : ScheduleShape{p, m, 1};
  const PipelinePlan small{kind, p, m, shape_of_passes.chunks, {}};
  Plan plan = small.plan();
  plan.parallel.optimizer_sync = OptimizerSync::post_validated;
  const TaskGraph graph = lower(plan, shape_of_passes);
  Shape shape;
  shape.devices = p;
  shape.bandwidth = Bandwidth::bytes_per_second(1e16);
  const FakeTopology topology(shape);
  const PassCost cost(small.qkv(), passes, update);
  const Mesh mesh = make_mesh(plan);
  const Setup setup{graph, mesh, topology, cost};
  return {steady_state(setup, {}).step_time.ps(), simulate_step(setup).step_time.ps()};
}

/// A random legal plan of several stages, its update validated afterwards.
RandomPlan overlapping(PlanGenerator& plans) {
  for (;;) {
    RandomPlan r = plans.next();
    if (r.plan.parallel.pipeline == 1) continue;
    r.plan.parallel.optimizer_sync = OptimizerSync::post_validated;
    r.graph = lower(r.plan);
    return r;
  }
}

}  // namespace

TEST_CASE("steps in succession take the bubble of one stage, not that of all, longer than their work") {
  const Passes passes = GENERATE(Passes{1000, 1000, 1000}, Passes{1000, 1400, 900});
  const std::int64_t p = GENERATE(2, 4, 8), m = 2 * p + 1, update = 7000;
  INFO("p " << p << " tF " << passes.forward << " tB " << passes.backward << " tW " << passes.weight);
  const std::int64_t work = m * passes.sum() + update, once = passes.forward + passes.backward;
  // Table 1 of arXiv 2401.10241: what the stage idles that idles most, from its first start to its last end.
  CHECK(times_of(ScheduleKind::one_f_one_b, p, m, passes, update).step == work + (p - 1) * (once + passes.weight));
  CHECK(times_of(ScheduleKind::zb_h1, p, m, passes, update).step == work + (p - 1) * (once - passes.weight));
  CHECK(times_of(ScheduleKind::zb_h2, p, m, passes, update).step == work + (p - 1) * (once - 2 * passes.weight));
}

TEST_CASE("steps of ZB-V in succession have no bubble where all passes take the same") {
  const std::int64_t p = GENERATE(2, 4, 8), m = 2 * p + 1;
  CHECK(times_of(ScheduleKind::zb_v, p, m, {1000, 1000, 1000}, 0).step == 2 * m * 3000);  // arXiv 2401.10241 section 6
}

TEST_CASE("a step alone takes longer by what the last stage starts later, where every stage is busy") {
  const std::int64_t p = GENERATE(2, 4, 8);
  const ScheduleKind kind = GENERATE(ScheduleKind::zb_h2, ScheduleKind::zb_v);
  const StepTimes t = times_of(kind, p, 2 * p + 1, {1000, 1000, 1000}, 0);
  CHECK(t.makespan == t.step + (p - 1) * 1000);
}

TEST_CASE("a pipeline has settled into its rhythm with the second step") {
  PlanGenerator plans(31, 64);
  for (int i = 0; i < 12; ++i) {
    const RandomPlan r = overlapping(plans);
    INFO(to_json(r.plan, -1));
    const Mesh mesh = make_mesh(r.plan);
    const auto cost = make_cost_model(r.topology->device());
    const Duration step = steady_state({r.graph, mesh, *r.topology, *cost}, {}).step_time;
    constexpr std::int64_t steps = 6;
    const TaskGraph graph = repeated_steps(r.graph, steps);
    const SimulatedStep simulated = sim::simulate_step({graph, mesh, *r.topology, *cost});
    for (std::size_t role = 0; role < simulated.roles.size(); ++role) {
      const Reader reader(simulated, role);
      std::int64_t before = 0;
      for (std::int64_t s = 1; s < steps; ++s) {
        std::int64_t end = 0;
        for (const Place& last : last_tasks(r.graph, r.graph.program(simulated.roles[role].stage), s))
          end = std::max(end, reader.ended(last.instance, last.task));
        if (s > 1 && s + 1 < steps) CHECK(end - before == step.ps());
        before = end;
      }
    }
  }
}

TEST_CASE("overlapping steps are predicted alike folded and unfolded, no longer than alone, and every moment has one name") {
  PlanGenerator plans(32, 64);
  std::size_t roles = 0, ranks = 0;
  int shorter = 0;
  for (int i = 0; i < 16; ++i) {
    const RandomPlan r = overlapping(plans);
    INFO(to_json(r.plan, -1));
    SimulateOptions unfolded;
    unfolded.unfolded = true;
    const Prediction folded = simulate(r.plan, r.graph, *r.topology), whole = simulate(r.plan, r.graph, *r.topology, unfolded);
    CHECK(folded.step_time == whole.step_time);
    CHECK(folded.makespan == whole.makespan);
    CHECK(folded.step_time <= folded.makespan);
    shorter += folded.step_time < folded.makespan;
    for (const RolePrediction& role : folded.roles) {
      double sum = 0;
      for (const auto& [what, seconds] : role.time_breakdown_s) sum += seconds;
      CHECK(sum == Approx(folded.step_time.seconds()).epsilon(1e-9));
      for (const std::int32_t rank : role.ranks)
        CHECK(whole.roles[static_cast<std::size_t>(rank)].time_breakdown_s == role.time_breakdown_s);
    }
    roles += folded.roles.size();
    ranks += whole.roles.size();
  }
  CHECK(roles < ranks);
  CHECK(shorter > 8);
}

TEST_CASE("a succession is the step without its validation, again and again, each behind all of its rank's last one") {
  const PipelinePlan small{ScheduleKind::zb_h2, 3, 7, 1, {}};
  Plan plan = small.plan();
  plan.parallel.optimizer_sync = OptimizerSync::post_validated;
  const TaskGraph one = lower(plan), three = repeated_steps(one, 3);
  const auto before = [](const Edge& a, const Edge& b) {
    return a.to_instance != b.to_instance ? a.to_instance < b.to_instance : a.to_task < b.to_task;
  };
  for (std::size_t s = 0; s < one.programs.size(); ++s) {
    const Program &p = one.programs[s], &q = three.programs[s];
    CHECK(one.of(p.instances.back()).name == "validation");
    const std::size_t n = p.instances.size() - 1;
    REQUIRE(q.instances.size() == 3 * n);
    for (std::size_t i = 0; i < q.instances.size(); ++i) CHECK(q.instances[i].tmpl == p.instances[i % n].tmpl);
    std::map<std::pair<std::size_t, std::size_t>, std::int64_t> edges;  // by step of either end
    for (const Edge& e : q.edges) {
      CHECK(e.from_instance < e.to_instance);
      ++edges[{e.from_instance / n, e.to_instance / n}];
    }
    CHECK(edges[{0, 0}] == std::count_if(p.edges.begin(), p.edges.end(), [&](const Edge& e) { return e.to_instance < n; }));
    CHECK((edges[{1, 1}] == edges[{0, 0}] && edges[{2, 2}] == edges[{0, 0}]));
    CHECK(edges[{0, 1}] > 0);
    CHECK((edges[{1, 2}] == edges[{0, 1}] && edges.count({0, 2}) == 0));
    CHECK(std::is_sorted(q.edges.begin(), q.edges.end(), before));
  }
}
