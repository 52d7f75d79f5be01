// The lowering's own graphs on machines with chosen numbers.
#include "sim/engine/simulate_step.hpp"
#include <set>

#include "models/schedule/schedule.hpp"
#include "models/stack/gradient_buckets.hpp"
#include "sim/result/breakdown.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"
#include "tests/sim/engine/fakes.hpp"
#include "tests/sim/engine/task_times.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;
using tandem::tests::SmallPlan;

namespace {

/// Only the softmax of a block takes time: a stage of equal layers takes as long as any other, whatever else it holds.
class SoftmaxCost : public FakeCost {
 public:
  SoftmaxCost(Duration forward, Duration backward) : forward_(forward), backward_(backward) {}
  Duration duration(const Op& op, DType) const override {
    if (std::holds_alternative<AttentionSoftmax>(op)) return forward_;
    if (std::holds_alternative<AttentionSoftmaxBackward>(op)) return backward_;
    return {};
  }

 private:
  Duration forward_, backward_;
};

/// A step whose forward passes take 1 us and backward passes 2 us a layer, on so many devices beside each other.
struct Performed {
  Performed(const Plan& plan, const TaskGraph& graph, std::int64_t devices)
      : topology(shape_of(devices)), mesh(make_mesh(plan)), simulated(sim::simulate_step({graph, mesh, topology, cost})) {}
  static Shape shape_of(std::int64_t devices) {
    Shape shape;
    shape.devices = devices;
    return shape;
  }

  const FakeTopology topology;
  const SoftmaxCost cost{Duration::nanoseconds(1000), Duration::nanoseconds(2000)};
  const Mesh mesh;
  const SimulatedStep simulated;
};

SmallPlan pipeline_plan(int p, int m) {
  SmallPlan plan;
  plan.pipeline = p;
  plan.layers = p;
  plan.micro_batches = m;
  plan.split = "[";
  for (int s = 0; s < p; ++s) plan.split += s == 0 ? "1" : ",1";
  plan.split += "]";
  plan.clip_grad = 0;
  plan.tied = false;
  return plan;
}

}  // namespace

TEST_CASE("a lowered 1F1B takes the closed form with latency up to half a forward") {
  const int p = GENERATE(2, 4, 8);
  const int m = p * GENERATE(1, 2, 4);
  const Plan plan = pipeline_plan(p, m).plan();
  const TaskGraph graph = lower(plan);
  for (const std::int64_t c : {0, 1, 5}) {
    Shape shape;
    shape.devices = p;
    shape.bandwidth = Bandwidth::bytes_per_second(1e16);  // beyond the finite: only latency counts
    shape.latency = Duration::nanoseconds(c);
    const FakeTopology topology(shape);
    const SoftmaxCost cost(Duration::nanoseconds(10), Duration::nanoseconds(20));
    const Mesh mesh = make_mesh(plan);
    const SimulatedStep simulated = sim::simulate_step({graph, mesh, topology, cost});
    const std::int64_t pipeline = (m + p - 1) * 30 + 2 * c * ((p - 1) * m / p + (p - 2));
    // After the first stage's last backward pass come only the reductions of the step's end: at least the loss over
    // all stages, in rounds of c. Take the time at which the first stage's last computation of the schedule ends.
    std::int64_t end = 0;
    const Reader reader(simulated, 0);
    const Program& first = graph.programs[0];
    for (std::uint32_t i = 0; i < first.instances.size(); ++i)
      if (first.instances[i].phase == Phase::backward)
        for (std::uint16_t t = 0; t < graph.of(first.instances[i]).tasks.size(); ++t)
          if (graph.of(first.instances[i]).tasks[t].stream == Stream::compute) end = std::max(end, reader.ended(i, t));
    CHECK(end == pipeline * 1000);
    for (std::size_t r = 0; r < simulated.roles.size(); ++r) CHECK(break_down(simulated, graph, r).credit_stall_ps == 0);
  }
}

TEST_CASE("gradients that are not reduced beside the backward pass are reduced behind all of it") {
  SmallPlan small;
  small.pipeline = 2;
  small.data = 2;
  small.layers = 4;
  small.micro_batches = 3;
  small.overlap = GENERATE(false, true);
  Plan plan = small.plan();
  plan.parallel.bucket_bytes = Bytes(1);  // every layer for itself
  const TaskGraph graph = lower(plan);
  // A host that needs no time issues the reductions long before the device is done.
  const Performed performed(plan, graph, 4);
  const SimulatedStep& simulated = performed.simulated;
  for (std::size_t r = 0; r < simulated.roles.size(); ++r) {
    const Reader reader(simulated, r);
    const Program& program = graph.program(simulated.roles[r].stage);
    std::int64_t computed = 0, reduced = INT64_MAX;
    for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
      const Template& t = graph.of(program.instances[i]);
      const Phase phase = program.instances[i].phase;
      for (std::uint16_t k = 0; k < t.tasks.size() && phase == Phase::backward; ++k)
        if (t.tasks[k].stream == Stream::compute) computed = std::max(computed, reader.ended(i, k));
      if (t.name == "grad_reduce") reduced = std::min(reduced, reader.started(i, 0));
    }
    CHECK((reduced >= computed) == !reduces_beside_backward(plan.parallel, program.stage));
  }
}

TEST_CASE("aligned stages reduce a chunk as many backward passes later as there are stages before them, at the same time") {
  SmallPlan small;
  small.pipeline = 2;
  small.data = 2;
  small.layers = 4;
  small.micro_batches = 4;
  small.overlap = true;
  small.tied = false;
  small.schedule = "interleaved";
  Plan plan = small.plan();
  plan.parallel.virtual_pipeline = 2;
  plan.parallel.bucket_bytes = Bytes(1);  // every layer for itself
  plan.stack.name = "megatron-core";
  plan.stack.as_of = GENERATE(Month{2023, 9}, Month{2023, 10});
  const bool aligned = plan.stack.as_of == Month{2023, 10};
  CHECK(gradient_buckets(plan).aligned == aligned);
  const TaskGraph graph = lower(plan);
  const Performed performed(plan, graph, 4);
  // Backward passes of a stage: chunk 1 of micro-batches 0 and 1, chunk 0 of both, then of 2 and 3. The last ones are the 6th and 8th.
  using Passes = std::set<std::size_t>;
  for (std::size_t r = 0; r < performed.simulated.roles.size(); ++r) {
    const Reader reader(performed.simulated, r);
    const Program& program = graph.program(performed.simulated.roles[r].stage);
    std::set<std::pair<std::int32_t, std::int32_t>> begun;
    Passes passes;
    std::int64_t computed = 0;
    bool early = false;
    for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
      const Instance& instance = program.instances[i];
      const Template& t = graph.of(instance);
      if (t.name == "block_backward" || t.name == "head_backward") {
        begun.insert({instance.micro_batch, instance.chunk});
        for (std::uint16_t k = 0; k < t.tasks.size(); ++k)
          if (t.tasks[k].stream == Stream::compute) computed = std::max(computed, reader.ended(i, k));
      }
      if (t.name != "grad_reduce") continue;
      passes.insert(begun.size());
      early = early || reader.started(i, 0) < computed;
    }
    CHECK(passes == (aligned && program.stage.value() == 1 ? Passes{7, 8} : Passes{6, 8}));
    CHECK_FALSE(early);  // a host that needs no time issues reductions long before the device is done
  }
}

namespace {

/// Four layers over two data ranks, every layer's gradients for themselves.
Plan sharing_gradients(bool overlap, int zero_stage) {
  SmallPlan small;
  small.data = 2;
  small.layers = 4;
  small.micro_batches = 3;
  small.tied = false;
  small.overlap = overlap;
  Plan plan = small.plan();
  plan.parallel.zero_stage = zero_stage;
  plan.parallel.bucket_bytes = Bytes(1);
  return plan;
}

/// For every layer's backward pass after a reduction: whether its first computation waited for the reduction's end.
std::vector<bool> waited_for_reductions(const Plan& plan) {
  const TaskGraph graph = lower(plan);
  graph.check();
  const Performed performed(plan, graph, 2);
  const Reader reader(performed.simulated, 0);
  const Program& program = graph.programs[0];
  std::vector<bool> waited;
  std::int64_t reduced = -1;
  for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
    const auto& tasks = graph.of(program.instances[i]).tasks;
    const Phase phase = program.instances[i].phase;
    if (graph.of(program.instances[i]).name == "block_backward" && reduced >= 0) {
      const auto first = std::find_if(tasks.begin(), tasks.end(), [](const Task& t) { return t.stream == Stream::compute; });
      waited.push_back(reader.started(i, static_cast<std::uint16_t>(first - tasks.begin())) >= reduced);
    }
    if (phase != Phase::gather && phase != Phase::reduce) reduced = -1;
    for (std::uint16_t k = 0; k < tasks.size() && phase == Phase::reduce; ++k)
      if (tasks[k].stream == Stream::data) reduced = reader.ended(i, k);
  }
  return waited;
}

}  // namespace

TEST_CASE("whole gradients that travel in another type are on their way while the next block computes") {
  Plan plan = sharing_gradients(true, GENERATE(0, 1));
  plan.training.dtypes.gradient_reduce = DType::bf16;
  // After the head and after every layer except the first, in the last micro-batch.
  CHECK(waited_for_reductions(plan) == std::vector<bool>(4, false));
}

TEST_CASE("shared gradients are on their way while the next block computes, in every micro-batch, or are waited for") {
  const bool overlap = GENERATE(false, true);
  Plan plan = sharing_gradients(overlap, GENERATE(2, 3));
  if (GENERATE(false, true)) plan.training.dtypes.gradient_reduce = DType::bf16;
  // After the head and after every layer except the first, in each micro-batch.
  CHECK(waited_for_reductions(plan) == std::vector<bool>(3 * 4, !overlap));
}

TEST_CASE("lowered plans on real machines simulate alike folded and unfolded, bit for bit") {
  const char* preset = GENERATE("dgx-a100-80gb", "hls-gaudi2", "trn1.32xlarge", "cpu-host");
  const std::int64_t ranks_per_device = GENERATE(1, 2);
  const bool overlap = GENERATE(false, true);
  SmallPlan small;
  small.tensor = 2;
  small.pipeline = 2;
  small.data = 4;
  small.overlap = overlap;
  small.precision = preset == std::string("cpu-host") ? "fp32" : "bf16";
  const Plan plan = small.plan();
  const TaskGraph graph = lower(plan);
  ClusterSpec cluster = plan.cluster;
  cluster.preset = preset;
  cluster.ranks_per_device = ranks_per_device;
  cluster.devices = plan.world_size() / ranks_per_device;
  const auto topology = make_topology(cluster);
  const auto cost = make_cost_model(topology->device());
  const Mesh mesh = make_mesh(plan);
  const Setup setup{graph, mesh, *topology, *cost};
  const SimulatedStep folded = simulate_step(setup), whole = simulate_step(setup, {true, {}});
  REQUIRE(folded.step_time == whole.step_time);
  CHECK(folded.roles.size() < whole.roles.size());
  for (std::size_t r = 0; r < folded.roles.size(); ++r) {
    const Breakdown shares = break_down(folded, graph, r);
    std::int64_t sum = 0;
    for (const std::int64_t ps : shares.ps) sum += ps;
    CHECK(sum == folded.step_time.ps());
    for (const std::int32_t rank : folded.roles[r].ranks)
      REQUIRE(times_of(folded, graph, r) == times_of(whole, graph, static_cast<std::size_t>(rank)));
  }
}
