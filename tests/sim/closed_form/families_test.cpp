// The closed form against the event simulation, on random plans of four families.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "sim/closed_form/closed_form.hpp"
#include "models/lowering/stage/short_plan.hpp"
#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/sim/closed_form/estimated_cluster.hpp"
#include "tests/sim/closed_form/plan_families.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::sim;
using test::FamilyPlans;
using test::PlanFamily;

namespace {

/// Ascending.
struct Errors {
  std::vector<double> time, memory;  ///< time: without its sign
  std::string least_memory;          ///< the plan of the lowest estimate

  double mean() const {
    double sum = 0;
    for (const double t : time) sum += t;
    return sum / static_cast<double>(time.size());
  }
};

double at(const std::vector<double>& list, double share) {
  return list[std::min(list.size() - 1, static_cast<std::size_t>(share * static_cast<double>(list.size())))];
}

Errors errors_of(PlanFamily family, int plans) {
  FamilyPlans random(family, 27);
  test::EstimatedClusters clusters;
  Errors errors;
  double least = 0;
  for (int i = 0; i < plans; ++i) {
    const Plan plan = random.next();
    test::EstimatedCluster& cluster = clusters.of(plan);
    const Estimate e = cluster.form.estimate(plan);
    REQUIRE(e.outside == Outside::nothing);
    const Prediction p = simulate(plan, lower(plan), *cluster.topology);
    Bytes needed;
    for (const RolePrediction& r : p.roles) needed = std::max(needed, r.needed_bytes);
    errors.time.push_back(std::abs(e.step_time.seconds() / p.step_time.seconds() - 1));
    const double memory = static_cast<double>(e.memory.count()) / static_cast<double>(needed.count()) - 1;
    if (memory < least) least = memory, errors.least_memory = to_json(plan);
    errors.memory.push_back(memory);
  }
  std::sort(errors.time.begin(), errors.time.end());
  std::sort(errors.memory.begin(), errors.memory.end());
  return errors;
}

std::vector<double> without_sign(std::vector<double> list) {
  for (double& x : list) x = std::abs(x);
  std::sort(list.begin(), list.end());
  return list;
}

void check(PlanFamily family, int plans) {
  const Errors e = errors_of(family, plans);
  const std::vector<double> memory = without_sign(e.memory);
  INFO(test::name(family) << ": time off by " << e.mean() << " in the mean, p99 " << at(e.time, 0.99) << ", most " << e.time.back()
                          << "; memory off by " << at(memory, 0.5) << " in the median, p99 " << at(memory, 0.99) << ", from "
                          << e.memory.front() << " to " << e.memory.back() << "; lowest: " << e.least_memory);
  CHECK(e.mean() <= 0.005);
  CHECK(at(e.time, 0.99) <= 0.03);
  CHECK(e.time.back() <= 0.08);
  CHECK(at(memory, 0.5) <= 0.015);
  CHECK(at(memory, 0.99) <= 0.06);
  CHECK(e.memory.front() >= -0.03);
}

}  // namespace

namespace {

constexpr PlanFamily kFamilies[] = {PlanFamily::dense, PlanFamily::fsdp, PlanFamily::experts, PlanFamily::context};

}  // namespace

TEST_CASE("the closed form answers every random plan of four families near the events") {
  for (const PlanFamily family : kFamilies) check(family, 50);
}

TEST_CASE("the closed form answers a thousand random plans of each of four families near the events", "[.nightly]") {
  for (const PlanFamily family : kFamilies) check(family, 1000);
}

TEST_CASE("a short plan that has grown all the way is the plan that it was made from") {
  for (const PlanFamily family : kFamilies) {
    FamilyPlans random(family, 3);
    for (int i = 0; i < 50; ++i) {
      const Plan plan = random.next();
      lowering::ShortPlan s = lowering::shorten(plan, 0);
      const std::vector<lowering::Growth> growths = s.growths;
      for (const lowering::Growth& g : growths) s.plan = s.grown(g, g.times);
      CHECK(s.plan.layers_per_stage() == plan.layers_per_stage());
      CHECK(s.plan.micro_batches() == plan.micro_batches());
      CHECK((s.plan.training.recompute_layers == plan.training.recompute_layers));
      CHECK(s.plan.model.num_layers == plan.model.num_layers);
    }
  }
}
