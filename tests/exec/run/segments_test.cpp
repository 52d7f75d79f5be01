// Runs of several segments: ramp-ups against runs of one batch size, evaluations against the training's own losses.

#include <cmath>

#include "exec/run/run.hpp"
#include "tests/patched_plan.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "tests/exec/cpu/numbers.hpp"
#include "tests/exec/run/gathered.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::exec;
using test::Numbers;
using tests::patched_plan;
using tests::SmallPlan;
using tests::Tensors;
using tests::worst;

namespace {

RunOptions steps(std::int64_t n) {
  RunOptions o = tests::run_options();
  o.steps = n;
  o.gather_gradients = o.gather_weights = true;
  return o;
}

RunResult train(const Plan& plan, const TokenSource& data, const RunOptions& options) {
  GraphCache graphs(plan);
  return run(graphs, data, options);
}

void check_equal(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t t = 0; t < a.size(); ++t) {
    INFO(a[t].name);
    CHECK(a[t].values == b[t].values);
  }
}

/// Steps [first, ...) of `whole` are those of `part`, bit for bit.
void check_part(const RunResult& whole, std::size_t first, const RunResult& part) {
  for (std::size_t s = 0; s < part.steps.size(); ++s) {
    INFO("step " << first + s);
    CHECK(whole.steps[first + s].loss == part.steps[s].loss);
    CHECK(whole.steps[first + s].grad_norm == part.steps[s].grad_norm);
    check_equal(whole.gradients[first + s], part.gradients[s]);
  }
}

/// 4 4 8 8 ... sequences.
constexpr const char* kRamp = R"({"training": {"global_batch_size": 8, "batch_rampup": {"start": 4, "increment": 4, "samples": 8}}})";

Plan ramped(SmallPlan p, const std::string& training) {
  p.micro_batches = 4 / p.data;
  const Plan plan = patched_plan(p, training);
  auto ramp = nlohmann::json::parse(to_json(plan));
  ramp.merge_patch(nlohmann::json::parse(kRamp));
  return parse_plan(ramp.dump(), "ramp.json");
}

}  // namespace

TEST_CASE("A ramp-up trains as runs of constant batches that follow each other, bit for bit", "[tsan]") {
  // Plain SGD has no state but the weights, so a run can be taken up where another one ended.
  SmallPlan p;
  p.pipeline = GENERATE(1, 2);
  p.dropout = 0;
  const Plan plan = ramped(p, R"({"training": {"optimizer": "sgd", "learning_rate": 0.5}})");
  const Numbers data;
  const RunResult whole = train(plan, data, steps(4));
  const RunResult before = train(with_batch(plan, 4), data, steps(2));
  RunOptions later = steps(2);
  later.initialise = [&](const std::string& name, std::vector<double>& full) {
    for (const GatheredTensor& t : before.weights)
      if (t.name == name) full = t.values;
  };
  const RunResult after = train(with_batch(plan, 8), Numbers(8), later);
  REQUIRE(whole.steps.size() == 4);
  check_part(whole, 0, before);
  check_part(whole, 2, after);
  check_equal(whole.weights, after.weights);
  CHECK(whole.steps[1].global_batch_size == 4);
  CHECK(whole.steps[2].global_batch_size == 8);
}

TEST_CASE("Until its first increment a ramp-up is a run of the first batch, states and dropout too") {
  SmallPlan p;
  p.data = 2;
  const Plan plan = ramped(p, "{}");
  const RunResult whole = train(plan, Numbers(), steps(3)), first = train(with_batch(plan, 4), Numbers(), steps(2));
  check_part(whole, 0, first);
}

TEST_CASE("A ramp-up on two data ranks is the ramp-up on one") {
  const std::string zero = GENERATE("0", "1", "3");
  const std::string training = R"({"parallel": {"zero_stage": )" + zero + R"(, "overlap_param_gather": )" +
                               (zero == "1" ? "true" : "false") +
                               R"(}, "training": {"learning_rate_unit": "samples", "warmup": 10, "learning_rate": 0.01}})";
  SmallPlan one, two;
  two.data = 2;
  const RunResult a = train(ramped(one, R"({"training": {"learning_rate_unit": "samples", "warmup": 10, "learning_rate": 0.01}})"),
                            Numbers(), steps(5));
  const RunResult b = train(ramped(two, training), Numbers(), steps(5));
  CHECK(a.steps[0].learning_rate == Approx(0.01 * 0.4).epsilon(1e-14));
  CHECK(a.steps[2].learning_rate == 0.01);
  // fp64: sums over ranks are another order of the same additions.
  for (std::size_t s = 0; s < 5; ++s) {
    CHECK(std::abs(a.steps[s].loss - b.steps[s].loss) <= 1e-12 * a.steps[s].loss);
    CHECK(worst(a.gradients[s], b.gradients[s]) <= 1e-12);
  }
  CHECK(worst(a.weights, b.weights) <= 1e-12);
}

TEST_CASE("An evaluation's loss is that of training on the same batch, and it changes no bit") {
  struct Layout {
    int tensor, pipeline, data;
    const char* patch;
  };
  const auto l = GENERATE(values<Layout>({
      {1, 1, 1, "{}"},
      {1, 4, 1, R"({"training": {"recompute": "full"}})"},
      {1, 2, 1, R"({"parallel": {"schedule": "zb-h1"}})"},
      {1, 2, 1, R"({"parallel": {"virtual_pipeline": 2, "schedule": "interleaved"}})"},
      {1, 2, 1, R"({"parallel": {"schedule": "dualpipe-v"}, "training": {"global_batch_size": 8}})"},
      {2, 1, 2, R"({"parallel": {"sequence_parallel": true}, "training": {"flash_attention": true}})"},
      {1, 1, 2, R"({"parallel": {"zero_stage": 1, "overlap_param_gather": true}})"},
      {1, 2, 2, R"({"parallel": {"zero_stage": 3}})"},
      {1, 1, 2, R"({"model": {"family": "bert", "token_types": 2}})"},
      {1, 2, 1, R"({"model": {"family": "t5", "num_layers": 2, "num_decoder_layers": 3}, "training": {"decoder_seq_length": 4}})"},
      {1, 1, 2, R"({"model": {"moe": {"num_experts": 4, "capacity_factor": 2}}, "parallel": {"expert": 2}})"},
  }));
  SmallPlan p;
  p.tensor = l.tensor, p.pipeline = l.pipeline, p.data = l.data;
  p.micro_batches = 2;
  p.dropout = 0;
  INFO(l.patch);
  const Plan plan = patched_plan(p, l.patch);
  const Numbers data, next(plan.training.global_batch_size);  // evaluated on what the second step trains on
  RunOptions options = steps(3);
  const RunResult plain = train(plan, data, options);
  options.evaluation = {1, 1};
  options.evaluation_data = &next;
  const RunResult both = train(plan, data, options);
  REQUIRE(both.evaluations.size() == 3);
  CHECK(both.evaluations[0].step == 0);
  CHECK(both.evaluations[0].loss == plain.steps[1].loss);
  CHECK(both.evaluations[2].loss < both.evaluations[0].loss);  // it sees the training go on
  check_part(both, 0, plain);
  check_equal(both.weights, plain.weights);
}

TEST_CASE("An evaluation is the mean over its batches, without the training's dropout") {
  SmallPlan p;
  const Plan plan = patched_plan(p, R"({"training": {"learning_rate": 0}})");
  p.dropout = 0;
  const Plan quiet = patched_plan(p, R"({"training": {"learning_rate": 0}})");
  const Numbers data;
  const RunResult reference = run(quiet, lower(quiet), data, steps(2));
  RunOptions options = steps(5);
  options.evaluation = {2, 2};
  options.evaluation_data = &data;
  std::vector<std::int64_t> told;
  options.on_evaluation = [&](const EvaluationResult& e) { told.push_back(e.step); };
  const RunResult result = run(plan, lower(plan), data, options);
  CHECK(told == std::vector<std::int64_t>{1, 3});
  for (const EvaluationResult& e : result.evaluations)
    CHECK(e.loss == (reference.steps[0].loss + reference.steps[1].loss) / 2);
  CHECK(result.steps[0].loss != reference.steps[0].loss);
}

TEST_CASE("The arena of a run is the largest of its graphs, and the timeline that of its step's graph") {
  const Plan plan = ramped(SmallPlan{}, "{}");
  RunOptions options = tests::run_options();
  options.steps = 4;
  options.timeline_step = GENERATE(1, 3);
  const RunResult result = train(plan, Numbers(), options);
  CHECK(result.ranks[0].arena_bytes == lower(plan).programs[0].memory.arena_bytes.count());
  const TaskGraph graph = options.timeline_step == 1 ? lower(with_batch(plan, 4)) : lower(plan);
  REQUIRE(result.timeline);
  CHECK(result.timeline->lanes[0].spans.size() == static_cast<std::size_t>(graph.tasks(StageId(0))));
  CHECK(result.ranks[0].issue_order.size() == static_cast<std::size_t>(lower(plan).tasks(StageId(0))));
}

TEST_CASE("A plan that validates its update afterwards is simulated only") {
  const Plan plan = patched_plan(SmallPlan{}, R"({"parallel": {"optimizer_sync": "post_validated"}})");
  try {
    run(plan, lower(plan), Numbers(), {});
    FAIL("it was trained");
  } catch (const InfeasibleError& e) {
    CHECK(e.problems().front().field == "parallel.optimizer_sync");
  }
}

TEST_CASE("One graph cannot train a ramp-up") {
  const Plan plan = ramped(SmallPlan{}, "{}");
  CHECK_THROWS_AS(run(plan, lower(plan), Numbers(), {}), ContractError);
}
