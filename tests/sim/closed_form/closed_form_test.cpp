// The closed form against the event simulation and against the formulas of schedules.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>

#include "models/graph/task_graph.hpp"
#include "sim/closed_form/closed_form.hpp"
#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/sim/closed_form/estimated_cluster.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

/// A random plan that somebody could ask for, on up to 64 devices.
Plan random_plan(std::mt19937& random, const std::string& preset) {
  const auto pick = [&](const std::vector<std::string>& list) { return list[random() % list.size()]; };
  const auto number = [&](const std::vector<int>& list) { return list[random() % list.size()]; };
  const auto n = [](std::int64_t v) { return std::to_string(v); };
  for (;;) {
    const int tensor = number({1, 2, 4, 8}), pipeline = number({1, 2, 4, 8}), data = number({1, 2, 4, 8});
    if (tensor * pipeline * data > 64) continue;
    const std::string schedule =
        pipeline == 1 ? "1f1b" : pick({"1f1b", "1f1b", "interleaved", "gpipe", "zb-h1", "zb-h2", "breadth-first"});
    const int chunks = schedule == "interleaved" || schedule == "breadth-first" ? 2 : 1;
    const int hidden = number({4096, 5120, 6144, 8192, 12288}), layers = pipeline * chunks * number({2, 3, 4});
    const int micro = number({1, 2, 4, 8}), batches = pipeline * number({1, 2, 4, 8, 16});
    const bool llama = random() % 2 == 0;
    const std::string model = R"({"family": ")" + std::string(llama ? "llama" : "gpt") + R"(", "num_layers": )" + n(layers) +
                              R"(, "hidden_size": )" + n(hidden) + R"(, "num_attention_heads": )" + n(hidden / 128) +
                              R"(, "vocab_size": 50257, "max_position_embeddings": 4096})";
    const std::string parallel =
        R"({"tensor": )" + n(tensor) + R"(, "pipeline": )" + n(pipeline) + R"(, "data": )" + n(data) + R"(, "virtual_pipeline": )" +
        n(chunks) + R"(, "schedule": ")" + schedule + R"(", "zero_stage": )" + n(number({0, 0, 1})) + R"(, "sequence_parallel": )" +
        pick({"true", "false"}) + R"(, "overlap_grad_reduce": )" + pick({"true", "false"}) + R"(, "overlap_p2p": )" +
        (schedule == "1f1b" ? pick({"true", "false"}) : "true") + R"(, "scatter_p2p": )" + pick({"true", "false"}) + R"(, "overlap_tensor_sum": )" +
        pick({"true", "false"}) + "}";
    const std::string training = R"({"seq_length": )" + n(number({1024, 2048, 4096})) + R"(, "micro_batch_size": )" + n(micro) +
                                 R"(, "global_batch_size": )" + n(static_cast<std::int64_t>(micro) * batches * data) +
                                 R"(, "precision": "bf16", "flash_attention": )" + pick({"true", "false"}) + R"(, "recompute": ")" +
                                 pick({"none", "selective", "full"}) + R"(", "recompute_early_stop": )" + pick({"true", "false"}) + R"(, "fusion": ")" + pick({"megatron", "megatron", "llm-foundry"}) + R"("})";
    try {
      return parse_plan(R"({"stack": "tandem", "model": )" + model + R"(, "parallel": )" + parallel + R"(, "training": )" + training +
                            R"(, "cluster": {"preset": ")" + preset + R"(", "devices": )" + n(std::max(8, tensor * pipeline * data)) + "}}",
                        "random.json");
    } catch (const InfeasibleError&) {
      continue;  // sequence parallelism without tensor ranks, a head that does not divide, ...
    }
  }
}

}  // namespace

TEST_CASE("recurrences are within two percent of the events on 1,000 random plans that they have, which are three quarters of those drawn") {
  std::mt19937 random(1000);
  test::EstimatedClusters clusters;
  int plans = 0;
  double worst = 0;
  std::vector<double> memory;
  int drawn = 0;
  for (; plans < 1000 && drawn < 3000; ++drawn) {
    const Plan plan = random_plan(random, drawn % 2 == 0 ? "dgx-a100-80gb" : "dgx-h100");
    test::EstimatedCluster& cluster = clusters.of(plan);
    const Estimate e = cluster.form.quick(plan);
    if (e.outside != Outside::nothing) continue;
    ++plans;
    const Prediction p = simulate(plan, lower(plan), *cluster.topology);
    const double off = e.step_time.seconds() / p.step_time.seconds() - 1;
    worst = std::max(worst, std::abs(off));
    const auto peak = static_cast<double>(p.roles[p.heaviest_role].peak_memory_bytes.count());
    memory.push_back(std::abs(static_cast<double>(e.memory.count()) / peak - 1));
  }
  std::sort(memory.begin(), memory.end());
  const double median = memory[memory.size() / 2], tenth = memory[memory.size() * 9 / 10];
  UNSCOPED_INFO("worst " << 100 * worst << " %; plans drawn " << drawn << ", within " << plans << "; memory off by " << 100 * median
                         << " % in the median, by " << 100 * tenth << " % at nine in ten");
  CHECK(plans == 1000);
  CHECK(drawn <= 1300);
  CHECK(worst < 0.02);
  CHECK(median < 0.03);
}

TEST_CASE("a plan on a disturbed machine is said to be outside") {
  std::mt19937 random(3);
  Plan plan = random_plan(random, "dgx-a100-80gb");
  test::EstimatedCluster cluster(plan.cluster);
  CHECK(cluster.form.estimate(plan).step_time > Duration{});
  plan.cluster.perturbation.slow_devices.push_back({0, -1, -1, 0.8});
  const Estimate e = cluster.form.estimate(plan);
  CHECK(e.outside == Outside::layout);
  CHECK(e.step_time == Duration{});
}

TEST_CASE("where the host records an update before it begins the step is read off short ones") {
  const auto plan_of = [](const std::string& stack) {
    return parse_plan(
        R"({"model": {"family": "gpt", "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 50257},
            "parallel": {"tensor": 8, "data": 4, "zero_stage": 1},
            "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 64, "precision": "bf16"},
            "cluster": {"preset": "trn1.32xlarge", "devices": 32}, "stack": ")" + stack + "\"}",
        "plan.json");
  };
  const Plan plan = plan_of("neuronx");
  test::EstimatedCluster cluster(plan.cluster);
  const Estimate e = cluster.form.estimate(plan);
  CHECK(cluster.form.quick(plan).outside == Outside::host);
  CHECK(std::abs(e.step_time.seconds() / simulate(plan, lower(plan), *cluster.topology).step_time.seconds() - 1) < 0.01);
  CHECK(cluster.form.quick(plan_of("tandem")).outside != Outside::host);
}

TEST_CASE("recurrences know layers with and without an index of blocks, behind several layers without experts") {
  for (const char* layers : {"i", "fffi", "fi"}) {
    CAPTURE(layers);
    const Plan plan = parse_plan(R"({"stack": "tandem", "cluster": {"preset": "dgx-h100", "devices": 16},
      "model": {"family": "llama", "num_layers": 8, "hidden_size": 4096, "num_attention_heads": 32, "num_kv_heads": 4, "head_dim": 128,
                "vocab_size": 50257, "qk_norm": "head",
                "moe": {"num_experts": 16, "experts_per_token": 4, "ffn_hidden_size": 2048, "first_dense_layers": 3},
                "indexer": {"heads": 4, "topk": 2048, "block_size": 128, "layers": ")" + std::string(layers) + R"("}},
      "parallel": {"tensor": 2, "pipeline": 2, "data": 4, "expert": 4, "zero_stage": 1, "sequence_parallel": true},
      "training": {"seq_length": 16384, "micro_batch_size": 1, "global_batch_size": 32, "precision": "bf16", "flash_attention": true}})",
                                 "blocks.json");
    test::EstimatedCluster cluster(plan.cluster);
    const Estimate e = cluster.form.quick(plan);
    CHECK(e.outside == Outside::nothing);
    CHECK(e.step_time.seconds() == Approx(simulate(plan, lower(plan), *cluster.topology).step_time.seconds()).epsilon(0.02));
  }
}

TEST_CASE("recurrences leave modules of multi-token prediction to short steps, which know them") {
  const auto plan_of = [](const std::string& modules) {
    return parse_plan(
        R"({"model": {"family": "llama", "num_layers": 64, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000,
                      "mtp": {"num_layers": )" + modules + R"(}},
            "parallel": {"pipeline": 4, "data": 2, "zero_stage": 1},
            "training": {"seq_length": 2048, "micro_batch_size": 4, "global_batch_size": 64, "precision": "bf16"},
            "cluster": {"preset": "dgx-h100", "devices": 8}, "stack": "megatron-core"})",
        "plan.json");
  };
  const Plan plan = plan_of("1");
  test::EstimatedCluster cluster(plan.cluster);
  CHECK(cluster.form.quick(plan).outside == Outside::layout);
  CHECK(cluster.form.quick(plan_of("0")).outside == Outside::nothing);
  const double step = simulate(plan, lower(plan), *cluster.topology).step_time.seconds();
  CHECK(std::abs(cluster.form.estimate(plan).step_time.seconds() / step - 1) < 0.01);
  CHECK(step > 1.05 * cluster.form.quick(plan_of("0")).step_time.seconds());
}

TEST_CASE("recurrences put reductions of chunks off as the events do, where stages align them") {
  const int pipeline = GENERATE(2, 4);
  Plan plan = parse_plan(
      R"({"model": {"family": "llama", "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000, "tie_embeddings": false},
          "parallel": {"tensor": 2, "pipeline": )" + std::to_string(pipeline) + R"(, "data": 8, "virtual_pipeline": 4, "schedule": "interleaved", "zero_stage": 1,
                       "sequence_parallel": true, "overlap_grad_reduce": true},
          "training": {"seq_length": 4096, "micro_batch_size": 2, "global_batch_size": 256, "precision": "bf16", "recompute": "full"},
          "cluster": {"preset": "dgx-h100", "devices": )" + std::to_string(16 * pipeline) + R"(}, "stack": "megatron-core"})",
      "plan.json");
  test::EstimatedCluster cluster(plan.cluster);
  const auto step = [&](Month as_of) {
    plan.stack.as_of = as_of;  // all that was resolved stays
    const double events = simulate(plan, lower(plan), *cluster.topology).step_time.seconds();
    const Estimate e = cluster.form.quick(plan);
    CHECK(e.outside == Outside::nothing);
    CHECK(e.step_time.seconds() == Approx(events).epsilon(0.01));
    return std::pair(events, e.step_time.seconds());
  };
  const auto [apart, apart_estimated] = step({2023, 9});
  const auto [aligned, aligned_estimated] = step({2023, 10});
  CHECK(aligned != apart);
  CHECK(aligned_estimated != apart_estimated);
}

TEST_CASE("an estimate counts DDP's copies of gradients in buckets") {
  Plan plan = parse_plan(
      R"({"model": {"family": "llama", "num_layers": 16, "hidden_size": 2048, "num_attention_heads": 16, "vocab_size": 32000},
          "parallel": {"data": 8}, "training": {"seq_length": 1024, "micro_batch_size": 1, "global_batch_size": 16, "precision": "bf16"},
          "cluster": {"preset": "dgx-h100", "devices": 8}, "stack": "pytorch-ddp"})",
      "plan.json");
  const auto needed = [&] {
    test::EstimatedCluster cluster(plan.cluster);
    const Prediction p = simulate(plan, lower(plan), *cluster.topology);
    const Bytes of = p.roles[p.heaviest_role].needed_bytes;
    CHECK(static_cast<double>(cluster.form.quick(plan).memory.count()) == Approx(static_cast<double>(of.count())).epsilon(0.02));
    return std::pair(of, p.step_time);
  };
  const auto [copies, time] = needed();
  plan.stack.name = "tandem";  // keeps no copies; all that was resolved stays
  const auto [views, same_time] = needed();
  CHECK(copies.count() - views.count() > 3 * count_parameters(plan.model, plan.padded_vocab_size()).total);
  CHECK(time == same_time);
}

TEST_CASE("recurrences leave chunks in a V to short steps, which know them, with and without pairs of passes") {
  const std::string schedule = GENERATE("dualpipe-v", "zb-v", "v-half");
  const bool experts = schedule == "dualpipe-v" && GENERATE(false, true);
  const std::string moe = experts ? R"(, "moe": {"num_experts": 8, "ffn_hidden_size": 4096})" : "";
  const Plan plan = parse_plan(
      R"({"model": {"family": "llama", "num_layers": 48, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000)" + moe + R"(},
          "parallel": {"pipeline": 2, "data": 4, "zero_stage": 1, "schedule": ")" + schedule + "\"" +
          (experts ? R"(, "expert": 4, "overlap_experts": true)" : "") + R"(},
          "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 128, "precision": "bf16"},
          "cluster": {"preset": "dgx-h100", "devices": 8}, "stack": "tandem"})",
      "plan.json");
  test::EstimatedCluster cluster(plan.cluster);
  CHECK(cluster.form.quick(plan).outside == Outside::layout);
  const Estimate e = cluster.form.estimate(plan);
  CHECK(e.way == Way::short_steps);
  const auto events = simulate(plan, lower(plan), *cluster.topology);
  CHECK(e.step_time.seconds() == Approx(events.step_time.seconds()).epsilon(0.005));
  Bytes needed;
  for (const RolePrediction& r : events.roles) needed = std::max(needed, r.needed_bytes);
  CHECK(static_cast<double>(e.memory.count()) == Approx(static_cast<double>(needed.count())).epsilon(0.02));
}

namespace {

/// Passes of equal stages, a chunk's share of tF, tB and tW each; transfers take no time.
PassTimes equal_passes(const ScheduleShape& shape, std::int64_t forward, std::int64_t backward, std::int64_t weight) {
  PassTimes times;
  for (std::int64_t i = 0; i < shape.stages * shape.chunks; ++i)
    for (const std::int64_t t : {forward, backward, weight})
      times.pass.insert(times.pass.end(), {t / shape.chunks, t / shape.chunks});
  times.transfer.assign(static_cast<std::size_t>(2 * shape.stages), 0);
  return times;
}

std::int64_t longest(const PassEnds& ends) { return *std::max_element(ends.stage.begin(), ends.stage.end()); }

}  // namespace

TEST_CASE("recurrences of equal stages are the formulas of their schedules, short or long") {
  PassSchedules schedules;
  for (const std::int64_t p : {2, 4, 8})
    for (const std::int64_t rounds : {1, 3, 20}) {
      const std::int64_t m = rounds * p, f = 240, b = 480, w = 200;
      INFO("p " << p << " m " << m);
      const auto step = [&](ScheduleKind kind, std::int64_t chunks, std::int64_t weight) {
        const ScheduleShape shape{p, m, chunks};
        return longest(schedules.evaluate(kind, shape, equal_passes(shape, f, b, weight)));
      };
      CHECK(step(ScheduleKind::one_f_one_b, 1, 0) == (m + p - 1) * (f + b));
      CHECK(step(ScheduleKind::gpipe, 1, 0) == (m + p - 1) * (f + b));
      CHECK(step(ScheduleKind::interleaved, 2, 0) == m * (f + b) + (p - 1) * (f + b) / 2);
      CHECK(step(ScheduleKind::breadth_first, 2, 0) == m * (f + b) + (p - 1) * (f + b) / 2);
      CHECK(step(ScheduleKind::zb_h1, 1, w) == m * (f + b + w) + (p - 1) * (f + b - w));
    }
}

TEST_CASE("pairs of passes occupy a stage for their own time, and a pass by itself for its time alone") {
  const std::int64_t m = 10, f = 100, b = 170, first = 205, later = 210;
  PassSchedules schedules;
  ScheduleShape shape{1, m, 1};
  shape.pairs = true;
  PassTimes times = equal_passes(shape, f, b, 0);
  times.pairs = {first, later};
  // The first forward pass runs alone, then nine pairs, then the last backward pass.
  CHECK(longest(schedules.evaluate(ScheduleKind::one_f_one_b, shape, times)) == f + first + 8 * later + b);
}

TEST_CASE("what is continued ends as what is played to the end, on stages that differ") {
  std::mt19937 random(5);
  PassSchedules schedules;
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::interleaved, ScheduleKind::zb_h1})
    for (int i = 0; i < 20; ++i) {
      const ScheduleShape shape{8, 1024, kind == ScheduleKind::interleaved ? 2 : 1};
      PassTimes times = equal_passes(shape, 1000, 2000, 900);
      for (std::int64_t& t : times.pass) t += static_cast<std::int64_t>(random() % 300);
      for (std::int64_t& t : times.transfer) t = static_cast<std::int64_t>(random() % 50);
      PassEnds whole;
      ScheduleFormula(kind, shape).evaluate(times, whole);
      const auto evaluated = static_cast<double>(longest(schedules.evaluate(kind, shape, times)));
      const double ratio = evaluated / static_cast<double>(longest(whole));
      INFO(name(kind) << " " << ratio);
      CHECK(std::abs(ratio - 1) < 0.005);
    }
}

TEST_CASE("estimates know casts of what is kept in 8 bits, with scales by blocks") {
  for (const char* inputs : {"true", "false"})
    for (const char* model : {"", R"(, "moe": {"num_experts": 8, "experts_per_token": 2})"}) {
      CAPTURE(inputs, model);
      const Plan plan = parse_plan(R"({"stack": "megatron-core", "cluster": {"preset": "dgx-h100", "devices": 16},
          "model": {"family": "llama", "num_layers": 8, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000)" + std::string(model) + R"(},
          "parallel": {"pipeline": 4, "data": 4, "zero_stage": 1},
          "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 64, "precision": "fp8_block",
                       "fp8_activation_inputs": )" + inputs + "}}", "blocks.json");
      test::EstimatedCluster cluster(plan.cluster);
      const Estimate e = cluster.form.estimate(plan);
      const Prediction p = simulate(plan, lower(plan), *cluster.topology);
      CHECK(std::abs(e.step_time.seconds() / p.step_time.seconds() - 1) < 0.01);
      const auto peak = static_cast<double>(p.roles[p.heaviest_role].peak_memory_bytes.count());
      CHECK(std::abs(static_cast<double>(e.memory.count()) / peak - 1) < 0.05);
    }
}

namespace {

/// A mixture with more than one expert a token, whose rows travel within a node or between nodes.
Plan paired(const std::string& stack, const std::string& parallel, std::int64_t batches, std::int64_t devices) {
  return parse_plan(R"({"stack": ")" + stack + R"(", "cluster": {"preset": "dgx-h100", "devices": )" + std::to_string(devices) + R"(},
      "model": {"family": "llama", "num_layers": 8, "hidden_size": 4096, "num_attention_heads": 32, "num_kv_heads": 8, "vocab_size": 32000,
                "ffn_hidden_size": 14336, "moe": {"num_experts": 16, "experts_per_token": 4, "ffn_hidden_size": 2048, "first_dense_layers": 1, "num_shared_experts": 1}},
      "parallel": {"overlap_experts": true, )" + parallel + R"(},
      "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": )" + std::to_string(batches) + R"(, "precision": "bf16"}})",
                    "paired.json");
}

}  // namespace

TEST_CASE("recurrences of pairs of passes are below the events and near them, and so is their memory") {
  const std::string interleaved = R"("schedule": "interleaved", "virtual_pipeline": 2, )", scattered = R"("tensor": 2, "sequence_parallel": true, )";
  struct Case {
    std::string stack, parallel;
    std::int64_t data, devices;
  };
  const auto c = GENERATE_COPY(Case{"tandem", R"("data": 16, "expert": 16)", 16, 16},
                               Case{"megatron-core", R"("data": 16, "expert": 16, "token_dispatcher": "deepep")", 16, 16},
                               Case{"megatron-core", R"("pipeline": 2, "data": 8, "expert": 8, )" + interleaved + R"("zero_stage": 1)", 8, 16},
                               Case{"megatron-core", R"("pipeline": 4, "data": 8, "expert": 8, "overlap_p2p": false, )" + interleaved + R"("zero_stage": 1)", 8, 32},
                               Case{"megatron-core", scattered + R"("pipeline": 2, "data": 4, "expert": 8, )" + interleaved + R"("zero_stage": 1)", 4, 16},
                               Case{"tandem", R"("pipeline": 2, "data": 8, "expert": 2, "zero_stage": 0)", 8, 16});
  CAPTURE(c.parallel);
  const Plan plan = paired(c.stack, c.parallel, 16 * c.data, c.devices);
  test::EstimatedCluster cluster(plan.cluster);
  const Estimate e = cluster.form.quick(plan);
  const Prediction p = simulate(plan, lower(plan), *cluster.topology);
  CHECK(e.outside == Outside::paired);
  Plan alone = plan;
  alone.parallel.overlap_experts = false;
  const double ratio = cluster.form.passes(plan).seconds() / p.step_time.seconds();
  CAPTURE(ratio);
  CHECK(ratio < 1.005);
  if (cluster.form.quick(alone).outside != Outside::host) CHECK(ratio > 0.95);
  if (e.least) CHECK(e.step_time.seconds() < 1.005 * p.step_time.seconds());
  Bytes needed;
  for (const RolePrediction& r : p.roles) needed = std::max(needed, r.needed_bytes);
  CHECK(static_cast<double>(e.memory.count()) == Approx(static_cast<double>(needed.count())).epsilon(0.1));
}

TEST_CASE("recurrences of pairs of passes are below the events where only some layers are computed again") {
  Plan plan = paired("tandem", R"("data": 16, "expert": 16)", 16 * 16, 16);
  plan.training.recompute = Recompute::full;
  plan.training.recompute_layers = 1;
  test::EstimatedCluster cluster(plan.cluster);
  const double simulated = simulate(plan, lower(plan), *cluster.topology).step_time.seconds();
  CHECK(cluster.form.passes(plan).seconds() < 1.005 * simulated);
  CHECK(cluster.form.quick(plan).step_time.seconds() < 1.005 * simulated);
}
