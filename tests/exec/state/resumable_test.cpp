// Which plans may go on from a checkpoint, and what of theirs is told to be other.

#include <memory>
#include <string>
#include <vector>

#include "exec/checkpoint/resumable.hpp"
#include "tests/catch.hpp"
#include "tests/exec/state/cut_training.hpp"
#include "tests/patched_plan.hpp"

using namespace tandem;
using namespace tandem::exec;
using test::problem_of;
using test::train;
using test::WholeState;
using tests::patched_plan;
using tests::SmallPlan;

TEST_CASE("The width of an MLP that no layer has does not stop a run with experts from going on") {
  const auto patch = [](const char* width) {
    return std::string(R"({"model": {"ffn_hidden_size": )") + width + R"(, "moe": {"num_experts": 4, "ffn_hidden_size": 16)";
  };
  for (const bool dense : {false, true}) {
    const std::string end = dense ? R"(, "layer_frequency": 2}}})" : "}}}";
    const Plan plan = patched_plan(SmallPlan{}, patch("64") + end);
    Checkpoint kept;
    kept.state = std::make_unique<WholeState>(train(plan, {1}).second.front());
    kept.run.plan_json = to_json(plan);
    const std::string refusal = problem_of([&] { require_resumable(kept, patched_plan(SmallPlan{}, patch("80") + end)); });
    CHECK((refusal.find("model.ffn_hidden_size") != std::string::npos) == dense);
  }
}

TEST_CASE("A plan of another model, seed, optimizer or adapters is refused with the field") {
  const Plan plan = SmallPlan{}.plan();
  Checkpoint kept;
  kept.state = std::make_unique<WholeState>(train(plan, {1}).second.front());
  kept.run.plan_json = to_json(plan);
  const auto refusal = [&](const std::string& patch) {
    return problem_of([&] { require_resumable(kept, patched_plan(SmallPlan{}, patch)); });
  };
  CHECK(refusal("{}").empty());
  CHECK(refusal(R"({"training": {"learning_rate": 0.5, "recompute": "full", "clip_grad": 2}, "model": {"pad_vocab_to": 64}})").empty());
  CHECK(refusal(R"({"model": {"moe": {"rows_bound": 4}}})").empty());  // what a run that met too many rows is told to raise
  CHECK(refusal(R"({"model": {"hidden_size": 48}})").find("model.hidden_size") != std::string::npos);
  CHECK(refusal(R"({"training": {"seed": 3}})").find("training.seed") != std::string::npos);
  CHECK(refusal(R"({"training": {"optimizer": "lamb"}})").find("training.optimizer") != std::string::npos);
  CHECK(refusal(R"({"training": {"precision": "fp32"}})").find("training.precision") != std::string::npos);
  CHECK(refusal(R"({"training": {"lora": {"rank": 2}}})").find("training.lora") != std::string::npos);
  Checkpoint adapted = std::move(kept);
  const auto of_adapters = [&](const std::string& lora) {
    return problem_of([&] { require_resumable(adapted, patched_plan(SmallPlan{}, R"({"training": {"lora": )" + lora + "}}")); });
  };
  adapted.run.plan_json = to_json(patched_plan(SmallPlan{}, R"({"training": {"lora": {"rank": 2, "alpha": 8}}})"));
  CHECK(of_adapters(R"({"rank": 2, "alpha": 8})").empty());
  CHECK(of_adapters(R"({"rank": 2, "alpha": 16})").find("training.lora") != std::string::npos);
}

TEST_CASE("Hyper-parameters that a plan changes are named with both values, others are not") {
  const Plan plan = SmallPlan{}.plan();
  Checkpoint kept;
  kept.state = std::make_unique<WholeState>();
  kept.run.plan_json = to_json(plan);
  const auto changes = [&](const std::string& patch) { return changed_hyper_parameters(kept, patched_plan(SmallPlan{}, patch)); };
  CHECK(changes("{}").empty());
  CHECK(changes(R"({"training": {"recompute": "full", "steps": 9, "decay_over": 7}, "parallel": {"zero_stage": 1}})").empty());
  CHECK(changes(R"({"training": {"beta1": 0.5}})") == std::vector<std::string>{"training.beta1 from 0.9 to 0.5"});
  CHECK(changes(R"({"training": {"learning_rate": 0.5, "clip_grad": 3, "dropout": {"hidden": 0.75}}})").size() == 3);
  CHECK(changes(R"({"training": {"documents": "separate"}})") == std::vector<std::string>{R"(training.documents from "joined" to "separate")"});
}

TEST_CASE("Changed settings of Muon are named") {
  Checkpoint kept;
  kept.state = std::make_unique<WholeState>();
  kept.run.plan_json = to_json(patched_plan(SmallPlan{}, R"({"training": {"optimizer": "muon"}})"));
  const std::string muon = R"({"training": {"optimizer": "muon", "muon": {"newton_schulz_steps": 6, "nesterov": false, "scale_mode": "shape", "scale": 0.5}}})";
  CHECK(changed_hyper_parameters(kept, patched_plan(SmallPlan{}, muon)) ==
        std::vector<std::string>{"training.muon.newton_schulz_steps from 5 to 6", "training.muon.nesterov from true to false",
                                 R"(training.muon.scale_mode from "spectral" to "shape")", "training.muon.scale from 0.2 to 0.5"});
}
