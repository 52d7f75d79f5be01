// Layers that see a window of keys: which they are, what they compute, and what is refused.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "models/graph/task_graph.hpp"
#include "models/lowering/stage/short_plan.hpp"
#include "models/plan/mesh.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

json plan_of(const json& window) {
  return {{"model", {{"family", "llama"}, {"num_layers", 6}, {"hidden_size", 32}, {"num_attention_heads", 4}, {"vocab_size", 64},
                     {"window", window}}},
          {"training", {{"seq_length", 64}, {"micro_batch_size", 2}, {"global_batch_size", 2}, {"flash_attention", true}}},
          {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
}

TaskGraph lowered(const json& plan) { return lower(parse_plan(plan.dump(), "windows.json")); }

/// The operations of one kind in the forward pass of a layer.
template <class T>
std::vector<T> forward(const TaskGraph& graph, int layer) {
  std::vector<T> out;
  for (const Instance& i : graph.programs.front().instances)
    if (i.layer == layer && i.phase == Phase::forward)
      for (const Task& task : graph.of(i).tasks)
        if (const auto* op = std::get_if<T>(&task.op)) out.push_back(*op);
  return out;
}

std::string refusal(const json& plan) {
  try {
    require_lowerable(parse_plan(plan.dump(), "windows.json"));
    return "";
  } catch (const InfeasibleError& e) {
    return e.problems().front().message();
  }
}

}  // namespace

TEST_CASE("a window is that of the layers whose letter says so") {
  const TaskGraph graph = lowered(plan_of({{"size", 16}, {"layers", "wwf"}}));
  graph.check();
  for (int layer = 0; layer < 6; ++layer) {
    CAPTURE(layer);
    const auto attention = forward<FlashAttention>(graph, layer);
    REQUIRE(attention.size() == 1);
    CHECK(attention[0].dims.window == (layer % 3 == 2 ? 0 : 16));
    const std::int64_t pairs = layer % 3 == 2 ? 64 * 65 / 2 : 16 * 17 / 2 + 48 * 16;
    CHECK(matrix_flops(attention[0]).count() == 2 * 2 * (2 * 4) * pairs * 8);  // two products, 2 sequences, 4 heads of 8
  }
}

TEST_CASE("positions turn by a base of their own in layers with a window, and may not turn in others") {
  json plan = plan_of({{"size", 16}, {"layers", "wf"}, {"rope_theta", 100}});
  plan["model"]["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  const TaskGraph based = lowered(plan);
  const auto local = forward<Rotary>(based, 0), global = forward<Rotary>(based, 1);
  CHECK(local.at(0).theta == 100);
  CHECK(local.at(0).scaling == RopeScalingKind::none);
  CHECK(global.at(0).theta == 10000);
  CHECK(global.at(0).factor == 4);
  const TaskGraph chunks = lowered(plan_of({{"size", 16}, {"chunked", true}, {"layers", "wf"}, {"full_rotary", false}}));
  CHECK(forward<Rotary>(chunks, 0).size() == 1);
  CHECK(forward<Rotary>(chunks, 1).empty());
  CHECK(forward<FlashAttention>(chunks, 0).at(0).dims.chunked);
}

TEST_CASE("layers may differ in rotary positions alone, and queries of all of them see all keys") {
  const TaskGraph graph = lowered(plan_of({{"layers", "wwf"}, {"full_rotary", false}}));
  graph.check();
  for (int layer = 0; layer < 6; ++layer) {
    CAPTURE(layer);
    CHECK(forward<Rotary>(graph, layer).size() == (layer % 3 == 2 ? 0 : 1));
    CHECK(forward<FlashAttention>(graph, layer).at(0).dims.window == 0);
  }
  const json plan = plan_of({{"layers", "wwf"}});  // every layer turns: the letters say nothing
  CHECK(forward<Rotary>(lowered(plan), 2).size() == 1);
}

TEST_CASE("yarn lengthens queries and keys unless mscale_all_dim is 1") {
  json plan = plan_of({{"size", 0}});
  plan["model"]["rope_scaling"] = {{"type", "yarn"}, {"factor", 4}};
  CHECK_FALSE(forward<Rotary>(lowered(plan), 0).at(0).keeps_length);
  plan["model"]["rope_scaling"]["mscale_all_dim"] = 1;
  CHECK(forward<Rotary>(lowered(plan), 0).at(0).keeps_length);
}

TEST_CASE("layers with a window may have heads of their own, and others no sinks") {
  json plan = plan_of({{"size", 16}, {"layers", "wf"}, {"full_sinks", false}, {"num_attention_heads", 8}, {"num_kv_heads", 2},
                       {"head_dim", 12}, {"value_dim", 6}});
  plan["model"].update({{"num_kv_heads", 1}, {"attention_sinks", true}});
  const Plan read = parse_plan(plan.dump(), "windows.json");
  const TaskGraph graph = lower(read);
  graph.check();
  const FlashAttention local = forward<FlashAttention>(graph, 0).at(0), full = forward<FlashAttention>(graph, 1).at(0);
  CHECK(local.dims.heads == 8);
  CHECK(local.dims.groups() == 2);
  CHECK(local.dims.head_dim == 12);
  CHECK(local.dims.value_width() == 6);
  CHECK(local.sinks);
  CHECK(full.dims.heads == 4);
  CHECK(full.dims.groups() == 1);
  CHECK(full.dims.value_width() == 8);
  CHECK_FALSE(full.sinks);
  std::int64_t parameters = 0;
  for (const Param& p : graph.programs.front().params) parameters += p.rows * p.cols;
  CHECK(parameters == count_parameters(read.model, read.padded_vocab_size()).total_padded);
}

TEST_CASE("tensor ranks that share key heads do so by kind of layer") {
  json plan = plan_of({{"size", 16}, {"layers", "wf"}, {"num_kv_heads", 2}});
  plan["model"]["num_kv_heads"] = 1;
  plan["parallel"] = {{"tensor", 4}};
  plan["cluster"]["devices"] = 4;
  const TaskGraph graph = lowered(plan);
  graph.check();
  const auto groups = [&](int layer) {
    std::vector<Group> out;
    for (const Instance& i : graph.programs.front().instances)
      if (i.layer == layer && i.phase == Phase::backward)
        for (const Task& task : graph.of(i).tasks)
          if (const auto* op = std::get_if<Collective>(&task.op); op != nullptr && op->group != Group::tensor)
            out.push_back(op->group);
    return out;
  };
  CHECK(groups(0) == std::vector{Group::window_kv});
  CHECK(groups(1) == std::vector{Group::kv});
  const Mesh mesh = make_mesh(parse_plan(plan.dump(), "windows.json"));
  CHECK(mesh.group_size(Group::window_kv) == 2);
  CHECK(mesh.group_size(Group::kv) == 4);
}

TEST_CASE("heads of layers with a window are refused by their own fields") {
  const auto refused = [](const json& window, int tensor) {
    json plan = plan_of(window);
    plan["parallel"] = {{"tensor", tensor}};
    plan["cluster"]["devices"] = tensor;
    return refusal(plan);
  };
  CHECK(refused({{"size", 16}, {"num_kv_heads", 3}}, 1)
            .find("model.window.num_kv_heads = 3: does not divide model.num_attention_heads 4") != std::string::npos);
  CHECK(refused({{"size", 16}, {"num_attention_heads", 6}, {"num_kv_heads", 6}}, 4)
            .find("parallel.tensor = 4: does not divide model.window.num_attention_heads 6") != std::string::npos);
  CHECK(refused({{"size", 16}, {"num_attention_heads", 12}, {"num_kv_heads", 3}}, 2)
            .find("parallel.tensor = 2: neither divides model.window.num_kv_heads 3") != std::string::npos);
}

TEST_CASE("a window as long as the sequence is none") {
  const TaskGraph graph = lowered(plan_of({{"size", 64}}));
  CHECK(forward<FlashAttention>(graph, 0).at(0).dims.window == 0);
}

TEST_CASE("windows in a ring of context ranks, and sinks with a score matrix, are refused by their fields") {
  json plan = plan_of({{"size", 16}});
  plan["parallel"] = {{"context", 2}};
  plan["cluster"]["devices"] = 2;
  CHECK(refusal(plan).find("parallel.context_mode = ring: not implemented") != std::string::npos);
  plan["parallel"]["context_mode"] = "all_gather";
  CHECK(refusal(plan).empty());
  json sinks = plan_of({{"size", 16}});
  sinks["model"]["attention_sinks"] = true;
  CHECK(refusal(sinks).empty());
  sinks["training"]["flash_attention"] = false;
  CHECK(refusal(sinks).find("training.flash_attention = false: not implemented") != std::string::npos);
}

TEST_CASE("a plan is shortened by whole patterns of windows") {
  json plan = plan_of({{"size", 16}, {"layers", "wwf"}});
  plan["model"]["num_layers"] = 60;
  const lowering::ShortPlan s = lowering::shorten(parse_plan(plan.dump(), "windows.json"), 0);
  REQUIRE_FALSE(s.growths.empty());
  CHECK(s.growths.front().each == 3);
  CHECK(s.plan.model.num_layers % 3 == 0);
}
