// Every layout trains like one rank: within rounding where sums are split, bit for bit where the canonical arithmetic says so.

#include <cmath>

#include "tests/agree/layouts.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using exec::GatheredTensor;
using exec::RunResult;
using tests::SmallPlan;
using tests::train;

namespace {

constexpr int kSteps = 3;

double norm(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}
double norm_of_all(const std::vector<GatheredTensor>& tensors) {
  double sum = 0;
  for (const GatheredTensor& t : tensors) sum += norm(t.values) * norm(t.values);
  return std::sqrt(sum);
}

/// Largest ||g - g1|| / max(||g1||, 1e-3 ||all gradients||) over tensors and steps.
double gradient_error(const RunResult& a, const RunResult& one) {
  double worst = 0;
  REQUIRE(a.gradients.size() == one.gradients.size());
  for (std::size_t s = 0; s < a.gradients.size(); ++s) {
    const double all = norm_of_all(one.gradients[s]);
    REQUIRE(a.gradients[s].size() == one.gradients[s].size());
    for (std::size_t t = 0; t < a.gradients[s].size(); ++t) {
      const GatheredTensor &g = a.gradients[s][t], &g1 = one.gradients[s][t];
      REQUIRE(g.name == g1.name);
      worst = std::max(worst, distance(g.values, g1.values) / std::max(norm(g1.values), 1e-3 * all));
    }
  }
  return worst;
}

double loss_error(const RunResult& a, const RunResult& one) {
  double worst = 0;
  for (std::size_t s = 0; s < one.steps.size(); ++s)
    worst = std::max(worst, std::abs(a.steps[s].loss - one.steps[s].loss) / std::abs(one.steps[s].loss));
  return worst;
}

SmallPlan one_rank(SmallPlan p) {
  SmallPlan one = tests::layout(1, 1, 1, p.micro_batches * p.data);
  one.precision = p.precision;
  one.tied = p.tied;
  one.bloom = p.bloom;
  one.llama = p.llama;
  return one;
}

/// Losses, norms, gradients of every step and final weights, bit for bit.
void check_equal(const RunResult& a, const RunResult& b) {
  for (std::size_t s = 0; s < a.steps.size(); ++s) {
    CHECK(a.steps[s].loss == b.steps[s].loss);
    CHECK(a.steps[s].grad_norm == b.steps[s].grad_norm);
    for (std::size_t t = 0; t < a.gradients[s].size(); ++t) {
      INFO("step " << s << " " << a.gradients[s][t].name);
      CHECK(a.gradients[s][t].values == b.gradients[s][t].values);
    }
  }
  REQUIRE(a.weights.size() == b.weights.size());
  for (std::size_t t = 0; t < a.weights.size(); ++t) CHECK(a.weights[t].values == b.weights[t].values);
}

}  // namespace

TEST_CASE("every layout trains like one rank in fp64, to rounding") {
  const RunResult one = train(one_rank(tests::layouts().front()), kSteps);
  CHECK(one.steps.front().grad_norm > tests::SmallPlan{}.clip_grad);  // clipping is at work
  for (const SmallPlan& p : tests::layouts()) {
    const RunResult run = train(p, kSteps);
    INFO(p.label());
    CHECK(loss_error(run, one) <= 1e-12);
    CHECK(gradient_error(run, one) <= 1e-12);
  }
}

TEST_CASE("every layout trains like one rank in fp32, to rounding") {
  SmallPlan reference = tests::layouts().front();
  reference.precision = "fp32";
  const RunResult one = train(one_rank(reference), kSteps);
  for (SmallPlan p : tests::layouts()) {
    p.precision = "fp32";
    const RunResult run = train(p, kSteps);
    INFO(p.label());
    CHECK(loss_error(run, one) <= 2e-6);
    CHECK(gradient_error(run, one) <= 1e-5);
  }
}

TEST_CASE("untied output, ALiBi and embedding norm train alike on every layout") {
  for (SmallPlan p : {tests::layout(2, 2, 2, 2), tests::layout(1, 4, 1, 4), tests::layout(4, 1, 2, 2)}) {
    p.tied = GENERATE(true, false);
    p.bloom = GENERATE(true, false);
    const RunResult one = train(one_rank(p), kSteps), run = train(p, kSteps);
    INFO(p.label());
    CHECK(loss_error(run, one) <= 1e-12);
    CHECK(gradient_error(run, one) <= 1e-12);
  }
}

TEST_CASE("LLaMA blocks with grouped queries train alike on every layout, and bit for bit on pipelines") {
  SmallPlan p = tests::layout(1, 1, 1, 4);
  p.llama = true;
  p.tied = false;
  const RunResult one = train(p, kSteps);
  for (const auto& [tensor, pipeline, data] : {std::tuple{2, 1, 1}, {1, 2, 2}, {2, 2, 2}, {1, 4, 1}, {1, 1, 4}}) {
    SmallPlan q = tests::layout(tensor, pipeline, data, 4 / data);
    q.llama = true;
    q.tied = false;
    q.recompute = pipeline == 2 ? "full" : "none";
    q.overlap = data == 2;
    const RunResult run = train(q, kSteps);
    INFO(q.label());
    CHECK(loss_error(run, one) <= 1e-12);
    CHECK(gradient_error(run, one) <= 1e-12);
    if (tensor * data == 1 || data == 4) check_equal(run, one);
  }
}

TEST_CASE("an all-reduce dropped in the lowering changes the gradients") {
  const SmallPlan p = tests::layout(2, 1, 1, 2);
  const Plan plan = p.plan();
  TaskGraph graph = lower(plan);
  for (Template& t : graph.templates)
    for (Task& task : t.tasks)
      if (t.name == "block_backward" && task.name == "fc1_dgrad_all_reduce")
        std::get<Collective>(task.op).elements = task.inputs[0].elements = task.outputs[0].elements = 1;
  exec::RunOptions options;
  options.gather_gradients = true;
  const RunResult broken = exec::run(plan, graph, tests::HashTokens(p.vocab), options);
  CHECK(gradient_error(broken, train(one_rank(p), 1)) > 1e-3);
}

TEST_CASE("the number of stages changes no bit") {
  SmallPlan p = tests::layout(1, 1, GENERATE(1, 3), 4);
  p.precision = GENERATE("fp32", "fp64");
  p.tied = GENERATE(true, false);
  const RunResult one = train(p, kSteps);
  for (const int stages : {2, 4}) {
    if (stages * p.data > 8) continue;
    p.pipeline = stages;
    INFO(p.label());
    check_equal(train(p, kSteps), one);
  }
}

TEST_CASE("recomputation changes no bit", "[tsan]") {
  SmallPlan p = tests::layout(GENERATE(1, 2), GENERATE(1, 2), 1, 3);
  p.precision = "fp32";
  const RunResult kept = train(p, kSteps);
  p.recompute = "full";
  check_equal(train(p, kSteps), kept);
}

TEST_CASE("n data ranks with one micro-batch each are n micro-batches on one rank, bit for bit") {
  const int n = GENERATE(3, 4);
  SmallPlan p = tests::layout(1, GENERATE(1, 2), n, 1);
  p.precision = GENERATE("fp32", "fp64");
  p.overlap = GENERATE(false, true);
  INFO(p.label());
  check_equal(train(p, kSteps), train(one_rank(p), kSteps));
}

TEST_CASE("buckets and overlap change no bit", "[tsan]") {
  SmallPlan p = tests::layout(1, 2, 3, 3);
  p.precision = "fp32";
  const RunResult plain = train(p, kSteps);
  p.overlap = true;
  p.bucket_bytes = GENERATE(1, 5000, 100000000);
  check_equal(train(p, kSteps), plain);
}

TEST_CASE("the same plan twice gives the same bits", "[tsan]") {
  SmallPlan p = tests::layout(2, 2, 2, 3);
  p.precision = "fp32";
  check_equal(train(p, kSteps), train(p, kSteps));
}
