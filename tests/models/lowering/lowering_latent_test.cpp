// Latent attention (DeepSeek-V2, arXiv 2405.04434): its tasks, parameters and what it keeps.

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/models/lowering/lowered.hpp"

using namespace tandem;
using nlohmann::json;
using tests::graph_of;

namespace {

json plan_of(const json& model, const json& parallel = json::object()) {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", 32}, {"num_attention_heads", 4}, {"vocab_size", 64},
                          {"head_dim", 12}, {"latent", {{"kv_rank", 10}, {"query_rank", 14}, {"rotary_dim", 4}}}}},
               {"training", {{"seq_length", 16}, {"micro_batch_size", 1}, {"global_batch_size", 1}}},
               {"parallel", parallel},
               {"cluster", {{"preset", "cpu-host"}, {"devices", parallel.value("tensor", 1)}}}};
  plan["model"].merge_patch(model);
  return plan;
}

/// Tasks of the first layer's attention in its forward pass, up to the core.
std::vector<std::string> forward(const json& plan) {
  const TaskGraph graph = graph_of(plan);
  std::vector<std::string> out;
  for (const Instance& i : graph.programs.front().instances)
    if (i.layer == 0 && i.phase == Phase::forward)
      for (const Task& task : graph.of(i).tasks) {
        if (task.name == "scores") return out;
        out.push_back(task.name);
      }
  return out;
}

std::string refusal(const json& model, const json& parallel = json::object()) {
  try {
    require_lowerable(parse_plan(plan_of(model, parallel).dump(), "latent.json"));
    return "";
  } catch (const std::exception& e) {
    return e.what();
  }
}

std::int64_t parameters(const json& model) { return tests::parameters(plan_of(model)); }

/// Bytes of the arena if the plan recomputes these modules.
Bytes arena(json plan, const std::vector<std::string>& modules) {
  if (!modules.empty()) plan["training"].update({{"recompute", "selective"}, {"recompute_modules", modules}});
  return tests::arena(plan);
}

}  // namespace

TEST_CASE("latent attention compresses, normalises, and makes heads of what it compressed") {
  CHECK(forward(plan_of(json::object())) == std::vector<std::string>{"ln1", "q_down", "q_latent_norm", "q_up", "kv_down",
                                                                      "kv_latent_norm", "kv_up", "latent_heads", "rotary"});
  CHECK(forward(plan_of({{"latent", {{"query_rank", 0}}}})) ==
        std::vector<std::string>{"ln1", "q_up", "kv_down", "kv_latent_norm", "kv_up", "latent_heads", "rotary"});
}

TEST_CASE("under sequence parallelism what is compressed is gathered, and not the state") {
  const auto names = forward(plan_of(json::object(), {{"tensor", 2}, {"sequence_parallel", true}}));
  CHECK(names == std::vector<std::string>{"ln1", "q_down", "q_latent_norm", "q_latent_all_gather", "q_up", "kv_down", "kv_latent_norm",
                                          "kv_latent_all_gather", "k_turned_all_gather", "kv_up", "latent_heads", "rotary"});
}

TEST_CASE("parameters of latent attention are those of its matrices and of two norms a layer") {
  // Queries 14 x 32 + 14 + 48 x 14, pairs 14 x 32 + 10 + 4 x (8 + 8) x 10, output 32 x 32.
  const std::int64_t latent = 448 + 14 + 672 + 448 + 10 + 640 + 1024, plain = 32 * 3 * 48 + 48 * 32;
  CHECK(parameters(json::object()) - parameters({{"latent", {{"kv_rank", 0}}}, {"value_dim", 12}}) == 2 * (latent - plain));
}

TEST_CASE("the up-projections' results are made again where a plan says so, and take no room until then") {
  const json plan = plan_of({{"num_layers", 4}});
  CHECK(arena(plan, {"mla_up_proj"}) < arena(plan, {}));
  CHECK(arena(plan, {"mla_up_proj", "norm"}) < arena(plan, {"norm"}));
}

TEST_CASE("heads are made again ahead of all that reads them in the backward pass") {
  json plan = plan_of(json::object());
  plan["training"].update({{"flash_attention", true}, {"recompute", "selective"}, {"recompute_modules", {"operations", "mla_up_proj"}}});
  const TaskGraph graph = graph_of(plan);
  int checked = 0;
  for (const Template& t : graph.templates) {
    const auto at = [&](const char* name) {
      return std::find_if(t.tasks.begin(), t.tasks.end(), [&](const Task& task) { return task.name == name; });
    };
    if (t.name != "block_backward") continue;
    ++checked;
    REQUIRE(at("attention") != t.tasks.end());
    CHECK(at("latent_heads") < at("attention"));
  }
  CHECK(checked > 0);
}

TEST_CASE("gradients of up-projections wait for the sums of what they read, unless they may run beside them") {
  for (const bool beside : {false, true}) {
    const TaskGraph graph = graph_of(plan_of(json::object(), {{"tensor", 2}, {"overlap_tensor_sum", beside}}));
    int checked = 0;
    for (const Template& t : graph.templates) {
      if (t.name != "block_backward") continue;
      ++checked;
      const auto at = [&](const std::string& name) {
        const auto task = std::find_if(t.tasks.begin(), t.tasks.end(), [&](const Task& x) { return x.name == name; });
        REQUIRE(task != t.tasks.end());
        return static_cast<std::uint16_t>(task - t.tasks.begin());
      };
      for (const auto& [product, sum] : {std::pair{"q_up_wgrad", "q_up_dgrad_all_reduce"}, {"kv_up_wgrad", "k_turned_dgrad_all_reduce"}}) {
        const auto& deps = t.tasks[at(product)].deps;
        CHECK((std::find(deps.begin(), deps.end(), at(sum)) != deps.end()) == !beside);
      }
    }
    CHECK(checked > 0);
  }
}

TEST_CASE("what latent attention is not made with is refused by its field") {
  CHECK(refusal(json::object()).empty());
  CHECK(refusal({{"qk_norm", "head"}}).find("model.latent.kv_rank") != std::string::npos);
  CHECK(refusal({{"position_embedding", "learned"}}).find("model.position_embedding rope") != std::string::npos);
  CHECK(refusal({{"num_kv_heads", 2}}).find("has a key for every query head") != std::string::npos);
  CHECK(refusal({{"head_dim", 4}}).find("model.latent.rotary_dim 4 of it are common") != std::string::npos);
  CHECK(refusal({{"latent", {{"rotary_dim", 5}}}}).find("model.latent.rotary_dim") != std::string::npos);
}
