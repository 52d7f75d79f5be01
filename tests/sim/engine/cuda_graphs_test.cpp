// What CUDA graphs save of a host-bound step, and who has none.

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "models/graph/task_graph.hpp"
#include "sim/closed_form/closed_form.hpp"
#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"
#include "topology/same_topology.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

constexpr const char* kSmall = R"({"stack": "megatron-core",
  "model": {"num_layers": 8, "hidden_size": 512, "num_attention_heads": 8, "vocab_size": 51200},
  "parallel": {}, "training": {"seq_length": 512, "micro_batch_size": 1, "global_batch_size": 8, "precision": "bf16",
    "flash_attention": true, "dropout": {"hidden": 0, "attention": 0}},
  "cluster": {"preset": "dgx-h100"}})";

/// The switches of its network reduce.
struct Reducing : SameTopology {
  using SameTopology::SameTopology;
  bool network_reduces() const override { return true; }
};

Plan plan_of(const std::string& patch) {
  auto text = nlohmann::json::parse(kSmall);
  text.merge_patch(nlohmann::json::parse(patch));
  const auto degree = [&](const char* axis) { return text["parallel"].value(axis, 1); };
  text["cluster"]["devices"] = degree("tensor") * degree("pipeline");
  return parse_plan(text.dump(), "small.json");
}

Prediction step(const Plan& plan) { return simulate(plan, lower(plan), *make_topology(plan.cluster)); }

double launching(const Prediction& p) { return p.roles[p.critical_role].time_breakdown_s.at("launch"); }

std::string graphs(const std::string& of, const std::string& more = "{}") {
  auto patch = nlohmann::json::parse(more);
  patch["training"]["cuda_graphs"] = of;
  return patch.dump();
}

}  // namespace

TEST_CASE("of a step that its host bounds, graphs leave the launches that are not captured") {
  const Plan plain = plan_of("{}"), layers = plan_of(graphs("layers")), iteration = plan_of(graphs("iteration"));
  const Prediction a = step(plain), b = step(layers), c = step(iteration);
  REQUIRE(launching(a) > 0.5 * a.step_time.seconds());
  CHECK(std::count_if(a.notes.begin(), a.notes.end(), [](const std::string& note) { return note.starts_with("launches by the host"); }) == 1);
  // The host is behind from the first task to the last: the step is its operations, a graph's launch for all of a layer's.
  const auto host = [](const Plan& plan) {
    const TaskGraph graph = lower(plan);
    std::int64_t n = 0;
    for (const Instance& i : graph.programs[0].instances)
      for (const Task& t : graph.of(i).tasks) n += t.host_operations;
    return 1.7e-5 * static_cast<double>(n);  // topology/calibration/h100.json, launch_s
  };
  CHECK(a.step_time.seconds() == Approx(host(plain)).epsilon(0.02));
  CHECK(b.step_time.seconds() < 0.6 * a.step_time.seconds());
  CHECK(c.step_time < b.step_time);
  CHECK(launching(c) < 0.5 * launching(b));
  for (const auto& p : {b, c}) CHECK(p.roles[0].arena_bytes == a.roles[0].arena_bytes);
}

TEST_CASE("where the device bounds a step graphs change next to nothing") {
  const std::string large = R"({"model": {"hidden_size": 8192, "num_attention_heads": 64}, "training": {"seq_length": 4096},
                                "parallel": {"tensor": 8}})";
  const Prediction plain = step(plan_of(large)), layers = step(plan_of(graphs("layers", large)));
  CHECK(layers.step_time.seconds() == Approx(plain.step_time.seconds()).epsilon(0.01));
  CHECK(layers.step_time <= plain.step_time);
}

TEST_CASE("the closed form has plans with graphs that it has without") {
  const std::string large = R"({"model": {"hidden_size": 8192, "num_attention_heads": 64, "num_layers": 16},
                                "training": {"seq_length": 4096}, "parallel": {"tensor": 4, "pipeline": 2}})";
  for (const char* of : {"layers", "iteration"}) {
    CAPTURE(of);
    const Plan plan = plan_of(graphs(of, large));
    const auto topology = make_topology(plan.cluster);
    const auto cost = make_cost_model(*topology);
    ClosedForm form(*topology, *cost);
    const Estimate e = form.estimate(plan);
    REQUIRE(e.outside == Outside::nothing);
    CHECK(e.step_time.seconds() == Approx(simulate(plan, lower(plan), *topology).step_time.seconds()).epsilon(0.01));
  }
}

TEST_CASE("a device without CUDA has no graphs and no NCCL to tell anything") {
  const std::string tandem = R"({"stack": "tandem", "cluster": {"preset": "hls-gaudi2"}})";
  for (const char* patch : {R"({"training": {"cuda_graphs": "iteration"}})", R"({"cluster": {"override": {"nccl_algo": "ring"}}})"}) {
    auto text = nlohmann::json::parse(tandem);
    text.merge_patch(nlohmann::json::parse(patch));
    const Plan there = plan_of(text.dump());
    CHECK_THROWS_AS(step(there), InfeasibleError);
    text["cluster"]["preset"] = "dgx-h100";
    CHECK_NOTHROW(step(plan_of(text.dump())));
  }
  CHECK_THROWS_WITH(step(plan_of(graphs("layers", tandem))),
                    Catch::Contains("training.cuda_graphs") && Catch::Contains("no CUDA graphs"));
}

TEST_CASE("RCCL has no reductions in switches to leave out or to use") {
  auto text = nlohmann::json::parse(R"({"stack": "tandem", "cluster": {"preset": "mi300x-8x400g", "override": {"nccl_algo": "ring"}}})");
  CHECK_NOTHROW(step(plan_of(text.dump())));
  text["cluster"]["override"]["nccl_algo"] = "^nvls";
  CHECK_THROWS_WITH(step(plan_of(text.dump())), Catch::Contains("cluster.override.nccl_algo") && Catch::Contains("RCCL"));
  text["cluster"]["override"].erase("nccl_algo");
  for (const char* preset : {"mi300x-8x400g", "frontier", "dgx-h100"}) {
    text["cluster"]["preset"] = preset;
    const Plan plan = plan_of(text.dump());
    const auto topology = make_topology(plan.cluster);
    const Reducing reducing(*topology);
    CHECK_NOTHROW(simulate(plan, lower(plan), *topology));
    if (std::string(preset) == "dgx-h100") CHECK_NOTHROW(simulate(plan, lower(plan), reducing));
    else CHECK_THROWS_WITH(simulate(plan, lower(plan), reducing), Catch::Contains("fabric.reduces"));
  }
}

TEST_CASE("a deterministic step is longer by its fills, its attention and its rings, and no larger") {
  const std::string model = R"({"model": {"hidden_size": 4096, "num_attention_heads": 32, "num_layers": 8},
    "training": {"seq_length": 8192, "global_batch_size": 2}, "parallel": {"tensor": 8, "overlap_tensor_sum": false}})";
  const auto with = [&](const std::string& patch) {
    auto text = nlohmann::json::parse(model);
    text.merge_patch(nlohmann::json::parse(patch));
    return step(plan_of(text.dump()));
  };
  const Prediction plain = with("{}"), whole = with(R"({"training": {"deterministic": true}})"),
                   unfilled =
                       with(R"({"training": {"deterministic": true, "fill_uninitialized_memory": false}})"),
                   rings = with(R"({"cluster": {"override": {"nccl_algo": "ring"}}})");
  CHECK(plain.step_time < rings.step_time);
  CHECK(rings.step_time < unfilled.step_time);
  CHECK(unfilled.step_time < whole.step_time);
  CHECK(whole.roles[0].live_peak_bytes == plain.roles[0].live_peak_bytes);
}
