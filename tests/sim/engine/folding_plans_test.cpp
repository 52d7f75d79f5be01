// Folding is exact: random plans of the real lowering on the machines there are, whole and with exceptions.

#include <map>

#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/random_plans.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

constexpr int kPlans = 36, kNightlyPlans = 200;

const RolePrediction& role_of(const Prediction& p, std::int32_t rank) {
  const auto has = [&](const RolePrediction& r) { return std::binary_search(r.ranks.begin(), r.ranks.end(), rank); };
  return *std::find_if(p.roles.begin(), p.roles.end(), has);
}

/// Everything that is said of a rank, bit for bit.
void require_same(const RolePrediction& folded, const RolePrediction& whole) {
  REQUIRE(folded.time_breakdown_s == whole.time_breakdown_s);
  REQUIRE(folded.peak_memory_bytes == whole.peak_memory_bytes);
  REQUIRE(folded.arena_bytes == whole.arena_bytes);
  REQUIRE(folded.live_peak_bytes == whole.live_peak_bytes);
  REQUIRE(folded.memory_bytes == whole.memory_bytes);
}

struct Tally {
  std::size_t roles = 0, ranks = 0, large = 0, slower = 0;
};

void check(const RandomPlan& r, Tally& tally) {
  INFO(to_json(r.plan, -1));
  SimulateOptions unfolded;
  unfolded.unfolded = true;
  const Prediction folded = simulate(r.plan, r.graph, *r.topology), whole = simulate(r.plan, r.graph, *r.topology, unfolded);
  REQUIRE(whole.roles.size() == static_cast<std::size_t>(r.plan.world_size()));
  REQUIRE(folded.step_time == whole.step_time);
  REQUIRE(folded.fits == whole.fits);
  for (const RolePrediction& one : whole.roles) require_same(role_of(folded, one.ranks.front()), one);
  tally.roles += folded.roles.size();
  tally.ranks += whole.roles.size();
  tally.large += whole.roles.size() >= 64;
  if (!folded.perturbation) return;
  REQUIRE(folded.perturbation->undisturbed == whole.perturbation->undisturbed);
  tally.slower += folded.step_time > folded.perturbation->undisturbed;
}

Tally check_plans(std::uint32_t seed, int count, bool perturb) {
  PlanGenerator plans(seed);
  Tally tally;
  for (int i = 0; i < count; ++i) {
    RandomPlan r = plans.next();
    if (perturb) r.plan.cluster.perturbation = plans.perturbation(r);
    check(r, tally);
  }
  return tally;
}

void check_folding(std::uint32_t seed, int count) {
  const Tally t = check_plans(seed, count, false);
  // The comparison means something only if ranks were folded and some of the plans are large.
  CHECK(t.roles * 4 < t.ranks);
  CHECK(t.large * 4 > static_cast<std::size_t>(count));
}

void check_exceptions(std::uint32_t seed, int count) {
  const Tally t = check_plans(seed, count, true);
  CHECK(t.roles < t.ranks);
  CHECK(t.slower * 2 > static_cast<std::size_t>(count));
}

}  // namespace

TEST_CASE("random plans of up to 512 ranks are predicted alike folded and unfolded, bit for bit") { check_folding(512, kPlans); }

TEST_CASE("random plans with stragglers and slow links are predicted alike folded with exceptions and unfolded, bit for bit") {
  check_exceptions(513, kPlans);
}

TEST_CASE("a step in which the network would be ahead of an instance's early tasks is walked task by task") {
  // The gathers of ZeRO 3 are what late tasks wait for; a send that depends on early ones contends with them.
  const Plan plan = parse_plan(R"({"model": {"num_layers": 2, "hidden_size": 256, "num_attention_heads": 16, "vocab_size": 4000},
    "parallel": {"tensor": 8, "pipeline": 2, "data": 2, "schedule": "zb-h2", "zero_stage": 3, "tensor_overlap": true, "bucket_bytes": 2000000},
    "training": {"seq_length": 128, "micro_batch_size": 1, "global_batch_size": 8},
    "cluster": {"preset": "dgx-b200", "devices": 32}})", "test.json");
  Tally tally;
  check({plan, lower(plan), make_topology(plan.cluster)}, tally);
}

TEST_CASE("many random plans of up to 512 ranks are predicted alike folded and unfolded", "[.nightly]") { check_folding(514, kNightlyPlans); }

TEST_CASE("many random plans with stragglers and slow links are predicted alike folded and unfolded", "[.nightly]") {
  check_exceptions(515, kNightlyPlans);
}
