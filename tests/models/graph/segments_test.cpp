// A run as segments: the ramp-up against Megatron-LM's rule, and the graphs that the segments of one run share memory with.

#include "models/graph/segments.hpp"

#include <map>
#include <set>

#include "tests/patched_plan.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using tests::patched_plan;
using tests::SmallPlan;
using Kind = Segment::Kind;

namespace {

Plan ramped(std::int64_t full, const BatchRampup& ramp) {
  Plan p;
  p.training.global_batch_size = full;
  p.training.batch_rampup = ramp;
  return p;
}

/// RampupBatchsizeNumMicroBatchesCalculator of Megatron-LM (megatron/core/num_microbatches_calculator.py), line by line.
class Megatron {
 public:
  Megatron(std::int64_t global, const BatchRampup& ramp) : global_(global), ramp_(ramp) {
    const std::int64_t diff_batch_size = global - ramp.start;
    const std::int64_t num_increments = diff_batch_size / ramp.increment;
    rampup_samples_per_increment_ = double(ramp.samples) / double(num_increments);
  }
  std::int64_t update(std::int64_t consumed_samples) const {
    if (consumed_samples > ramp_.samples) return global_;
    const int steps = int(double(consumed_samples) / rampup_samples_per_increment_);
    return ramp_.start + steps * ramp_.increment;
  }

 private:
  std::int64_t global_;
  BatchRampup ramp_;
  double rampup_samples_per_increment_;
};

double dropout_of(const Op& op) {
  return std::visit(
      [](const auto& o) {
        if constexpr (requires { o.dropout; }) return o.dropout;
        else return 0.0;
      },
      op);
}

/// Allocations that live on from graph to graph: offset and bytes, by name.
using Places = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;
Places state_of(const Program& p) {
  Places places;
  for (const Allocation& a : p.memory.allocations) {
    const bool state = a.kind == MemoryKind::optimizer || a.name == "weights" || a.name == "gradients" ||
                       a.name == "tied_gradient" || a.name.find("sums") != a.name.npos;
    if (state) places[std::string(a.name)] = {a.offset, a.bytes.count()};
  }
  return places;
}

/// Layouts that evaluation must know, as patches of a small plan.
struct Layout {
  int tensor, pipeline, data;
  const char* patch;
};
const Layout kLayouts[] = {
    {1, 1, 1, "{}"},
    {1, 2, 2, R"({"training": {"recompute": "full"}})"},
    {1, 4, 1, R"({"parallel": {"schedule": "zb-h1"}})"},
    {2, 1, 2, R"({"parallel": {"sequence_parallel": true}})"},
    {1, 2, 1, R"({"parallel": {"virtual_pipeline": 2, "schedule": "interleaved"}})"},
    {1, 1, 2, R"({"parallel": {"zero_stage": 1, "overlap_param_gather": true}})"},
    {1, 2, 2, R"({"parallel": {"zero_stage": 3}, "model": {"tie_embeddings": false}})"},
    {2, 1, 2, R"({"parallel": {"zero_stage": 2, "sequence_parallel": true}, "training": {"optimizer": "lamb"}})"},
    {2, 2, 1, R"({"model": {"family": "bert", "token_types": 2}, "parallel": {"sequence_parallel": true}})"},
    {1, 1, 2, R"({"model": {"moe": {"num_experts": 4, "capacity_factor": 2}}, "parallel": {"expert": 2}})"},
    {1, 2, 1, R"({"model": {"moe": {"num_experts": 4}}, "training": {"flash_attention": true}})"},
    {1, 1, 2, R"({"model": {"family": "t5", "num_layers": 2, "num_decoder_layers": 3}, "training": {"decoder_seq_length": 4}})"},
    {2, 2, 1, R"({"model": {"family": "t5", "num_layers": 2, "num_decoder_layers": 3}, "training": {"decoder_seq_length": 4}})"},
    {1, 4, 1, R"({"model": {"family": "t5", "num_layers": 2, "num_decoder_layers": 3}, "training": {"decoder_seq_length": 4}})"},
};
Plan plan_of(const Layout& l, int micro_batches = 4) {
  SmallPlan p;
  p.tensor = l.tensor, p.pipeline = l.pipeline, p.data = l.data;
  p.micro_batches = micro_batches;
  p.seq = 48;  // a micro-batch's tokens are more than the arena's alignment
  return patched_plan(p, l.patch);
}

}  // namespace

TEST_CASE("a run without a ramp-up is one segment") {
  CHECK(segments(ramped(12, {}), 7) == std::vector<Segment>{{Kind::train, 12, 7, 0, 0}});
  CHECK(segments(ramped(12, {12, 4, 100}), 7) == std::vector<Segment>{{Kind::train, 12, 7, 0, 0}});
}

TEST_CASE("a step's batch is decided by the samples consumed before it") {
  // Three increments of 33.3 samples: 0 8 16 24 32 | 40 56 | 72 96 | 120 ...
  const std::vector<Segment> expected{
      {Kind::train, 8, 5, 0, 0}, {Kind::train, 16, 2, 5, 40}, {Kind::train, 24, 2, 7, 72}, {Kind::train, 32, 3, 9, 120}};
  CHECK(segments(ramped(32, {8, 8, 100}), 12) == expected);
  CHECK(segments(ramped(32, {8, 8, 100}), 6) ==
        std::vector<Segment>{{Kind::train, 8, 5, 0, 0}, {Kind::train, 16, 1, 5, 40}});
}

TEST_CASE("a run that goes on counts on from the samples behind it, whatever the batches were") {
  // Seven steps of 20 samples in all are behind; the batch is 12 now.
  const std::vector<Segment> plain{{Kind::train, 12, 7, 0, 20 - 84}, {Kind::train, 12, 2, 7, 20}};
  CHECK(segments(ramped(12, {}), 9, {7, 20}) == plain);
  // The ramp-up goes on at 20 samples: 16 up to 39, then 24.
  const std::vector<Segment> ramp{
      {Kind::train, 32, 5, 0, 20 - 160}, {Kind::train, 16, 2, 5, 20}, {Kind::train, 24, 1, 7, 52}, {Kind::train, 32, 1, 8, 76}};
  CHECK(segments(ramped(32, {8, 8, 60}), 9, {5, 20}) == ramp);
  CHECK(segments(ramped(12, {}), 7, {7, 20}).size() == 1);
  CHECK(from_step(with_evaluations(ramped(12, {}), segments(ramped(12, {}), 7, {7, 20}), {7, 1}), 7) ==
        std::vector<Segment>{{Kind::evaluate, 12, 1, 7, 0}});
}

TEST_CASE("every ramp-up is Megatron-LM's") {
  const std::int64_t start = GENERATE(1, 4, 16), increment = GENERATE(1, 3, 8), increments = GENERATE(1, 3, 7, 10);
  const std::int64_t samples = GENERATE(1, 30, 100, 1001, 9973, 30000), full = start + increments * increment;
  const Megatron megatron(full, {start, increment, samples});
  std::int64_t consumed = 0, step = 0;
  for (const Segment& s : segments(ramped(full, {start, increment, samples}), 400)) {
    CHECK(s.first_step == step);
    CHECK(s.first_sample == consumed);
    for (std::int64_t i = 0; i < s.steps; ++i, ++step, consumed += s.global_batch_size)
      REQUIRE(s.global_batch_size == megatron.update(consumed));
  }
  CHECK(step == 400);
}

TEST_CASE("evaluations follow every so many steps and cut the segments they fall into") {
  const Plan plan = ramped(8, {4, 4, 8});  // 4 4 8 8 8 ...
  const auto train = segments(plan, 5);
  CHECK(with_evaluations(plan, train, {}) == train);
  const std::vector<Segment> expected{{Kind::train, 4, 2, 0, 0},    {Kind::train, 8, 1, 2, 8},
                                      {Kind::evaluate, 8, 2, 3, 0}, {Kind::train, 8, 2, 3, 16}};
  CHECK(with_evaluations(plan, train, {3, 2}) == expected);
  CHECK(with_evaluations(plan, train, {5, 1}).back() == Segment{Kind::evaluate, 8, 1, 5, 0});
  CHECK(with_evaluations(plan, train, {6, 1}) == train);
}

TEST_CASE("evaluation graphs pass their own check and have forward passes only") {
  const Layout& layout = GENERATE(from_range(std::begin(kLayouts), std::end(kLayouts)));
  const Plan plan = plan_of(layout, GENERATE(2, 5));
  INFO(layout.patch);
  const TaskGraph graph = lower_evaluation(plan);
  REQUIRE_NOTHROW(graph.check());
  std::set<std::string> blocks;
  for (const Template& t : graph.templates) {
    blocks.insert(t.name);
    for (const Task& task : t.tasks) CHECK(dropout_of(task.op) == 0);
  }
  const std::set<std::string> known{"embed_forward", "block_forward", "head_forward", "send_forward",
                                    "recv_forward",  "weight_gather", "loss_reduce",
                                    "bridge_forward", "decoder_forward", "memory_forward"};
  for (const std::string& b : blocks) {
    INFO(b);
    CHECK(known.count(b) == 1);
  }
}

TEST_CASE("state lies at the same place in every graph of a plan") {
  const Layout& layout = GENERATE(from_range(std::begin(kLayouts), std::end(kLayouts)));
  const Plan plan = plan_of(layout);
  INFO(layout.patch);
  const TaskGraph full = lower(plan), evaluation = lower_evaluation(plan);
  const TaskGraph half = lower(with_batch(plan, plan.training.global_batch_size / 2));
  for (std::size_t s = 0; s < full.programs.size(); ++s) {
    const Places places = state_of(full.programs[s]);
    CHECK(places.count("weights") == 1);
    CHECK(places.count("exp_avg") == 1);
    CHECK(state_of(half.programs[s]) == places);
    CHECK(state_of(evaluation.programs[s]) == places);
  }
}

TEST_CASE("an evaluation keeps nothing of a block behind it") {
  // Activations are the whole batch's inputs and those of one block, whatever the number of blocks.
  const auto kept = [](const TaskGraph& graph) {
    const MemoryPlan& m = graph.programs[0].memory;
    std::int64_t bytes = m.live_at_peak[static_cast<std::size_t>(MemoryKind::activations)].count();
    for (const Allocation& a : m.allocations)
      if (a.name == "tokens" || a.name == "targets") bytes -= a.bytes.count();
    return bytes;
  };
  SmallPlan few, many;
  few.layers = 1, few.micro_batches = 1;
  many.layers = 6, many.micro_batches = 5;
  CHECK(kept(lower_evaluation(few.plan())) == kept(lower_evaluation(many.plan())));
  CHECK(kept(lower(few.plan())) < kept(lower(many.plan())));
  CHECK(lower_evaluation(many.plan()).programs[0].memory.arena_bytes < lower(many.plan()).programs[0].memory.arena_bytes);
}

TEST_CASE("a ramp-up may begin with fewer micro-batches than stages") {
  const Layout& layout = GENERATE(from_range(std::begin(kLayouts), std::end(kLayouts)));
  const Plan plan = plan_of(layout);
  INFO(layout.patch);
  REQUIRE_NOTHROW(lower(with_batch(plan, plan.training.micro_batch_size * plan.parallel.data)).check());
}

TEST_CASE("what is left of a run are its last steps, and the evaluations from there on") {
  const Plan plan = patched_plan(SmallPlan{}, R"({"training": {"batch_rampup": {"start": 2, "increment": 2, "samples": 9}}})");
  const auto all = with_evaluations(plan, segments(plan, 12), {4, 1});
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // samples before each, and its batch
  for (const Segment& s : all)
    for (std::int64_t i = 0; s.kind == Kind::train && i < s.steps; ++i)
      steps.push_back({s.first_sample + i * s.global_batch_size, s.global_batch_size});
  for (std::int64_t done = 0; done < 12; ++done) {
    std::int64_t step = done, evaluations = 0;
    for (const Segment& s : from_step(all, done)) {
      CHECK(s.first_step == step);
      if (s.kind == Kind::evaluate) ++evaluations;
      for (std::int64_t i = 0; s.kind == Kind::train && i < s.steps; ++i, ++step)
        CHECK(steps[static_cast<std::size_t>(step)] == std::pair(s.first_sample + i * s.global_batch_size, s.global_batch_size));
    }
    CHECK(step == 12);
    CHECK(evaluations == 3 - (done - 1) / 4);
  }
}

TEST_CASE("a cache lowers every batch once") {
  const Plan plan = patched_plan(SmallPlan{}, R"({"training": {"batch_rampup": {"start": 2, "increment": 2, "samples": 9}}})");
  GraphCache cache(plan);
  const GraphCache::Entry& two = cache.of(Kind::train, 2);
  CHECK(two.plan.micro_batches() == 1);
  CHECK(two.plan.training.batch_rampup.start == 0);
  CHECK(&cache.of(Kind::train, 6) != &two);
  CHECK(&cache.of(Kind::evaluate, 2) != &two);
  CHECK(&cache.of({Kind::train, 2, 5, 1, 2}) == &two);
}
