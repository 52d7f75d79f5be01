// Rule sets of frameworks: what each refuses is data, and so is why.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/plan/plan.hpp"
#include "models/planfile/plan_advice.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/stack/gradient_buckets.hpp"
#include "tests/models/planfile/refused_fields.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

const std::string kTrainium = R"({"model": {"preset": "gpt-6.7b"}, "parallel": {"tensor": 8, "data": 64},
  "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 1024},
  "cluster": {"preset": "trn1.32xlarge", "devices": 512}})";

const std::string kBert = R"({"model": {"preset": "bert-1.5b"}, "parallel": {"data": 8, "zero_stage": 1},
  "training": {"seq_length": 128, "micro_batch_size": 16, "global_batch_size": 12288, "optimizer": "lans"},
  "cluster": {"preset": "hls-gaudi1", "devices": 8}})";

}  // namespace

TEST_CASE("every rule set loads and every rule says why and who says so") {
  for (const std::string& name : preset_names("models/stacks")) {
    INFO(name);
    CHECK_NOTHROW(stack_problems(parse_plan(kGoodPlan, "good.json"), name));
    const nlohmann::json file = read_json(find_preset("models/stacks", name));
    for (const nlohmann::json& rule : file.value("rules", nlohmann::json::array())) {
      CHECK(!rule["reason"].get<std::string>().empty());
      CHECK(!rule["source"].get<std::string>().empty());
    }
  }
  CHECK(preset_names("models/stacks") ==
        Fields{"aleph-scaling",   "deepspeed", "deepspeed-bert", "fms-fsdp", "internevo",   "jax",          "llm-foundry", "llm.c",     "maxtext", "megatron-core",
               "megatron-deepspeed", "nanotron", "nemo", "neuron-megatron", "neuronx", "paxml", "pytorch-ddp", "pytorch-fsdp", "tandem", "torchtitan"});
}

/// Models of the hub have their own attention; DeepSpeed's engine only shards, sums and updates.
TEST_CASE("DeepSpeed around another model has its engine's rules and none of Megatron's") {
  const auto with_layout = [](const std::string& parallel, const std::string& model = "qwen3-8b") {
    return R"({"model": {"preset": ")" + model + R"("}, "parallel": {)" + parallel + R"(}, "stack": "deepspeed",
      "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 64}, "cluster": {"preset": "dgx-h100", "devices": 64}})";
  };
  CHECK(refused(with_layout(R"("data": 64, "zero_stage": 3)"), "deepspeed").empty());
  CHECK(refused(with_layout(R"("data": 64, "zero_stage": 3)"), "megatron-deepspeed") == Fields{"model.qk_norm"});
  CHECK(refused(with_layout(R"("data": 64, "zero_stage": 3)", "qwen1.5-moe-a2.7b"), "deepspeed").empty());  // experts are on every rank
  const Plan plan = parse_plan(with_layout(R"("data": 64, "zero_stage": 3)"), "stack.json");
  CHECK(plan.training.dropout.hidden == 0);
  CHECK(plan.training.flash_attention);
  CHECK(plan.parallel.overlap_grad_reduce);  // zero/config.py: with stage 3
  CHECK(plan.parallel.bucket_bytes == Bytes{1000000000});
  CHECK(plan.training.dtypes.gradient_reduce == DType::bf16);
  CHECK(plan.training.fusion.name == "eager");
  CHECK_FALSE(parse_plan(with_layout(R"("data": 64, "zero_stage": 2)"), "stack.json").parallel.overlap_grad_reduce);
  for (const char* layout : {R"("data": 32, "pipeline": 2, "zero_stage": 2)", R"("data": 32, "tensor": 2, "sequence_parallel": true)"})
    CHECK_THROWS_AS(parse_plan(with_layout(layout), "stack.json"), InfeasibleError);
  CHECK_NOTHROW(parse_plan(with_layout(R"("data": 32, "tensor": 2)"), "stack.json"));
}

TEST_CASE("a stack with its month is one text or an object") {
  const Plan text = parse_plan(with_top("\"stack\": \"megatron-core@2024-07\""), "plan.json");
  CHECK(to_json(text) == to_json(parse_plan(under("megatron-core", "2024-07"), "plan.json")));
}

TEST_CASE("Tandem's own rule set refuses nothing") {
  CHECK(refused(with("parallel", "\"zero_stage\": 3"), "tandem").empty());
}

TEST_CASE("a plan whose gradients DDP copies into buckets is told that its memory counts them") {
  const auto told = [](const std::string& stack, const std::string& month, const std::string& degrees) {
    const std::string text = bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"overlap_grad_reduce\": true, " + degrees);
    const Plan plan = parse_plan(under(stack, month, text), "plan.json");
    const std::vector<std::string>& notes = plan.stack.facts.notes;
    const bool noted =
        std::any_of(notes.begin(), notes.end(), [](const std::string& n) { return n.find("Memory counts these copies") != n.npos; });
    CHECK(noted == gradient_buckets(plan).copies);
    return noted;
  };
  CHECK(told("pytorch-ddp", "", "\"data\": 8"));
  CHECK_FALSE(told("pytorch-fsdp", "", "\"data\": 8"));
  CHECK(told("torchtitan", "2026-02", "\"data\": 8"));  // its replicate() was DDP
  CHECK_FALSE(told("torchtitan", "2026-03", "\"data\": 8"));
  CHECK_FALSE(told("torchtitan", "2026-02", "\"data\": 8, \"zero_stage\": 3"));
  CHECK(told("megatron-core", "2023-08", "\"tensor\": 4, \"data\": 2"));
  CHECK_FALSE(told("megatron-core", "2023-09", "\"tensor\": 4, \"data\": 2"));
  CHECK_FALSE(told("megatron-core", "2023-08", "\"tensor\": 8, \"data\": 1"));
}

TEST_CASE("adapters are told to be none of Megatron-LM's and Megatron-DeepSpeed's") {
  const auto told = [](const std::string& stack, const std::string& training) {
    const std::vector<std::string> notes = parse_plan(under(stack, "", with("training", training)), "plan.json").stack.facts.notes;
    return std::count_if(notes.begin(), notes.end(), [](const std::string& n) { return n.find("trains no adapters") != n.npos; });
  };
  const std::string adapters = R"("lora": {"rank": 8})";
  for (const char* stack : {"megatron-core", "megatron-deepspeed"}) {
    CHECK(told(stack, adapters) == 1);
    CHECK(told(stack, R"("seed": 1)") == 0);
  }
  CHECK(told("nemo", adapters) == 0);
}

TEST_CASE("adapters are refused for no default of a stack") {
  const std::string training = R"("precision": "bf16", "recompute": "selective", "recompute_modules": ["operations"], "lora": {"rank": 8})";
  const auto of = [&](const std::string& stack, const std::string& degrees) {
    const std::string text = bent(R"("tensor": 2, "pipeline": 2, "data": 2)", degrees, with("training", training));
    return parse_plan(with_top(R"("stack": {"name": ")" + stack + R"(", "rules": "note"})", text), "plan.json");
  };
  for (const std::string& stack : preset_names("models/stacks"))
    for (const char* degrees : {R"("data": 8, "zero_stage": 3)", R"("tensor": 8, "sequence_parallel": true)"}) {
      INFO(stack << " " << degrees);
      const Plan plan = of(stack, degrees);
      for (const Problem& gap : lowering_gaps(plan)) {
        INFO(gap.field);
        CHECK(std::ranges::none_of(plan.stack.facts.defaults, [&](const StackDefault& d) { return d.field == gap.field; }));
      }
    }
  const auto told = [](const Plan& plan) {
    return std::ranges::count_if(plan_advice(plan), [](const std::string& n) { return n.find("every second product") != n.npos; });
  };
  CHECK(told(of("torchtitan", R"("data": 8)")) == 1);
  CHECK(told(of("pytorch-fsdp", R"("data": 8)")) == 0);
}

TEST_CASE("Ulysses in Megatron-DeepSpeed goes with neither tensor nor pipeline parallelism") {
  const std::string shared = bent("\"data\": 2", "\"data\": 1, \"context\": 2, \"context_mode\": \"ulysses\"");
  CHECK(refused(shared, "megatron-deepspeed") == Fields{"parallel.tensor", "parallel.pipeline"});
}

TEST_CASE("a rule about a derived number names the field to change") {
  const std::string uneven = bent("\"pipeline\": 2, \"data\": 2", "\"pipeline\": 4, \"schedule\": \"interleaved\"",
                                  bent("\"global_batch_size\": 16", "\"global_batch_size\": 12"));
  Plan plan = parse_plan(uneven, "uneven.json");
  const auto problems = [&] { return stack_problems(plan, "megatron-core", Month{2024, 10}); };
  REQUIRE(problems().size() == 1);
  CHECK(problems().front().field == "training.global_batch_size");
  plan.parallel.data = 0;  // a search also asks for layouts that devices do not suffice for
  CHECK(problems().empty());
}

TEST_CASE("a note of what a stack refuses says why the plan is simulated") {
  const auto note = [](const std::string& stack) {
    const Plan plan = parse_plan(R"({)" + stack + R"("model": {"preset": "qwen3-8b"}, "parallel": {"data": 8},
      "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 8},
      "cluster": {"preset": "hls-gaudi2", "devices": 8}})", "note.json");
    REQUIRE(!plan.stack.facts.notes.empty());
    return plan.stack.facts.notes.front();
  };
  CHECK_THAT(note(""), Catch::Contains("model.qk_norm: refused by stack megatron-deepspeed") &&
                           Catch::EndsWith("; the plan names no stack, so it is simulated all the same"));
  CHECK_THAT(note(R"("stack": {"name": "megatron-deepspeed", "rules": "note"}, )"), Catch::EndsWith("; stack.rules is note, so it is simulated all the same"));
}

TEST_CASE("DeepSpeed's pipelines do not interleave") {
  const auto schedule = [](const std::string& name) {
    return refused(bent("\"pipeline\": 2, \"data\": 2", "\"pipeline\": 4, \"data\": 1, \"schedule\": \"" + name + "\""), "megatron-deepspeed");
  };
  CHECK(schedule("interleaved") == Fields{"parallel.schedule"});
  CHECK(schedule("1f1b").empty());
}

TEST_CASE("neuronx has a ring of context ranks since May 2025 and interleaved stages since July 2024") {
  const auto fields = [](const std::string& parallel, Month as_of) {
    Fields out;
    for (const Problem& p : stack_problems(parse_plan(bent("\"data\": 64", parallel, kTrainium), "trn.json"), "neuronx", as_of)) out.push_back(p.field);
    return out;
  };
  const std::string shared = R"("data": 32, "context": 2)", stages = R"("data": 16, "pipeline": 4, "schedule": "interleaved")";
  CHECK(fields(shared, {2025, 4}) == Fields{"parallel.context"});
  CHECK(fields(shared, {2025, 5}).empty());
  CHECK(fields(shared + R"(, "context_mode": "ulysses")", {2025, 5}) == Fields{"parallel.context_mode"});
  CHECK(fields(stages, {2024, 6}) == Fields{"parallel.schedule"});
  CHECK(fields(stages, {2024, 7}).empty());
}

TEST_CASE("torchtitan has PyTorch's schedules, ZB-V since February 2025, and splits no backward pass of a compiled model") {
  const auto refusals = [](const std::string& field, const std::string& fusion, Month as_of, const std::string& schedule = "zb-v") {
    const std::string text = with("training", "\"fusion\": \"" + fusion + "\"", with("parallel", "\"schedule\": \"" + schedule + "\""));
    const std::vector<Problem> all = stack_problems(parse_plan(text, "titan.json"), "torchtitan", as_of);
    return std::count_if(all.begin(), all.end(), [&](const Problem& p) { return p.field == field; });
  };
  CHECK(refusals("parallel.schedule", "eager", {2025, 1}) == 1);
  CHECK(refusals("parallel.schedule", "eager", {2025, 2}) == 0);
  CHECK(refusals("training.fusion", "eager", {2025, 2}) == 0);
  CHECK(refusals("training.fusion", "compiled", {2025, 2}) == 1);
  for (const char* schedule : {"zb-h1", "zb-h2", "v-half", "v-min"}) CHECK(refusals("parallel.schedule", "eager", {2025, 8}, schedule) == 1);
  for (const char* schedule : {"gpipe", "1f1b"}) CHECK(refusals("parallel.schedule", "eager", {2025, 8}, schedule) == 0);
}

TEST_CASE("the Trainium reference takes tensor 8, data up to 64, no pipeline and no dropout") {
  CHECK(refused(kTrainium, "neuron-megatron").empty());
  CHECK(refused(bent("\"tensor\": 8, \"data\": 64", "\"tensor\": 4, \"data\": 128", kTrainium), "neuron-megatron") ==
        Fields{"parallel.tensor", "parallel.data"});
  CHECK(refused(bent("\"data\": 64", "\"data\": 32, \"pipeline\": 2", kTrainium), "neuron-megatron") ==
        Fields{"parallel.pipeline"});
  CHECK(refused(with("training", "\"dropout\": {\"hidden\": 0.1}", kTrainium), "neuron-megatron") ==
        Fields{"training.dropout.hidden"});
  CHECK(refused(bent("\"data\": 64", "\"data\": 32, \"pipeline\": 2", kTrainium), "neuronx").empty());
}

TEST_CASE("neuronx runs 1F1B and interleaved pipelines, and overlaps only the sum of tensor ranks without sequence parallelism") {
  const auto fields = [](const std::string& parallel) { return refused(bent("\"data\": 64", parallel, kTrainium), "neuronx"); };
  const std::string stages = R"("data": 16, "pipeline": 4, "schedule": )";
  CHECK(fields(stages + R"("1f1b")").empty());
  for (const char* schedule : {"gpipe", "zb-h1", "zb-h2"}) CHECK(fields(stages + '"' + schedule + '"') == Fields{"parallel.schedule"});
  const std::string shared = R"("data": 64, "sequence_parallel": )";
  CHECK(fields(shared + R"(true, "tensor_overlap": true)") == Fields{"parallel.tensor_overlap"});
  CHECK(fields(shared + R"(true, "overlap_tensor_sum": true)") == Fields{"parallel.overlap_tensor_sum"});
  CHECK(fields(shared + R"(false, "overlap_tensor_sum": true)").empty());
}

TEST_CASE("DeepSpeed BERT is data parallel only, with ZeRO up to 2") {
  CHECK(refused(kBert, "deepspeed-bert").empty());
  CHECK(refused(bent("\"zero_stage\": 1", "\"zero_stage\": 3", kBert), "deepspeed-bert") ==
        Fields{"parallel.zero_stage"});
  CHECK(refused(kGoodPlan, "deepspeed-bert") ==
        Fields{"model.family", "parallel.tensor", "parallel.pipeline", "training.flash_attention"});
}

TEST_CASE("DeepSpeed's BERT is in bf16 on Gaudi and was in fp16 on V100") {
  const std::string half = with("training", "\"precision\": \"fp16\"", kBert);
  CHECK(refused(half, "deepspeed-bert") == Fields{"training.precision"});
  CHECK(refused(bent("hls-gaudi1", "dgx-1v", half), "deepspeed-bert").empty());
}

TEST_CASE("Trn1's runtime forms groups of 1, 2, 8, 16 and 32 cores") {
  const auto tensor = [](const std::string& degree) {
    const std::string shared = bent("\"tensor\": 8, \"data\": 64", "\"tensor\": " + degree + ", \"data\": " + std::to_string(512 / std::stoi(degree)), kTrainium);
    return refused(shared, "neuronx");
  };
  for (const char* degree : {"1", "2", "8", "16", "32"}) CHECK(tensor(degree).empty());
  CHECK(tensor("4") == Fields{"parallel.tensor"});
}

TEST_CASE("a plan is held to its own stack and to no other") {
  const std::string text = with("parallel", "\"zero_stage\": 2");
  CHECK_NOTHROW(parse_plan(text, "free.json"));
  CHECK_THROWS_AS(parse_plan(with_top("\"stack\": \"megatron-deepspeed\"", text), "bound.json"), InfeasibleError);
}

TEST_CASE("a refusal names the rule's reason, its source and what works") {
  const Plan plan = parse_plan(bent("\"data\": 64", "\"data\": 32, \"pipeline\": 2", kTrainium), "trn.json");
  const Problem p = stack_problems(plan, "neuron-megatron").front();
  CHECK(p.message() ==
        "trn.json: parallel.pipeline = 2: refused by stack neuron-megatron: pipeline parallelism is not supported "
        "(AWS Neuron documentation: Megatron-LM GPT pretraining tutorial); use 1");
}

// deepspeedai/DeepSpeed 0.19.7 (2026-09-16)
TEST_CASE("DeepSpeed has MiCS until September 2026") {
  const auto fields = [](const std::string& parallel, Month as_of) {
    const Plan plan = parse_plan(R"({"stack": "tandem", "model": {"preset": "gpt-1.3b"}, "parallel": {"data": 16, )" + parallel +
                                 R"(}, "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 16}, "cluster": {"preset": "dgx-h100", "devices": 16}})", "mics.json");
    Fields out;
    for (const Problem& p : stack_problems(plan, "megatron-deepspeed", as_of)) out.push_back(p.field);
    return out;
  };
  const std::string groups = R"("zero_stage": 3, "zero_group": 8)";
  CHECK(fields(groups, {2026, 8}).empty());
  CHECK(fields(groups, {2026, 9}) == Fields{"parallel.zero_group"});
  CHECK(fields(R"("zero_stage": 3)", {2026, 9}).empty());
}

// pytorch/torchtitan aa68af18e, 114151ad4, c4b409af2, 8e5554449, bcc09297a, f59c215e8, f84224af0 (2026-03 to 2026-08)
TEST_CASE("torchtitan has what its code of a month has") {
  const auto fields = [](const std::string& parallel, const std::string& training, Month as_of, const std::string& model = R"("preset": "llama3-8b")") {
    const Plan plan = parse_plan(R"({"stack": "tandem", "model": {)" + model + R"(}, "parallel": {)" + parallel + R"(}, "training": {"seq_length": 8192,
      "micro_batch_size": 1, "global_batch_size": 64)" + training + R"(}, "cluster": {"preset": "dgx-b200", "devices": 8}})", "titan.json");
    Fields out;
    for (const Problem& p : stack_problems(plan, "torchtitan", as_of)) out.push_back(p.field);
    return out;
  };
  const std::string tensor = R"("tensor": 2, "sequence_parallel": false)", ring = R"("context": 2, "context_mode": "ring")";
  CHECK(fields(tensor, "", {2026, 3}) == Fields{"parallel.sequence_parallel"});
  CHECK(fields(tensor, "", {2026, 4}).empty());
  CHECK(fields(ring, "", {2026, 5}).empty());
  CHECK(fields(ring, "", {2026, 6}) == Fields{"parallel.context_mode"});
  const std::string some = R"(, "recompute": "full", "recompute_layers": 16)", graph = R"(, "cuda_graphs": "iteration")";
  CHECK(fields("", some, {2026, 3}).empty());
  CHECK(fields("", some, {2026, 4}) == Fields{"training.recompute_layers"});
  CHECK(fields("", R"(, "loss_chunks": 4)", {2026, 4}) == Fields{"training.loss_chunks"});
  CHECK(fields("", R"(, "loss_chunks": 4)", {2026, 5}).empty());
  CHECK(fields("", R"(, "precision": "nvfp4")", {2026, 7}) == Fields{"training.precision"});
  CHECK(fields("", R"(, "precision": "nvfp4")", {2026, 8}).empty());
  CHECK(fields("", graph, {2026, 7}) == Fields{"training.cuda_graphs"});
  CHECK(fields("", graph, {2026, 8}).empty());
  CHECK(fields(R"("pipeline": 2)", graph, {2026, 8}) == Fields{"training.cuda_graphs"});
  const std::string experts = R"("preset": "qwen3-30b-a3b")";
  CHECK(fields(R"("tensor": 2, "expert": 4, "expert_tensor": 2, "sequence_parallel": true)", "", {2026, 4}, experts).empty());
  CHECK(fields(R"("tensor": 2, "expert": 4, "expert_tensor": 2, "sequence_parallel": true)", "", {2026, 5}, experts) == Fields{"parallel.expert_tensor"});
  const std::string bounded = R"("preset": "qwen3-30b-a3b", "moe": {"capacity_factor": 1.25})";
  CHECK(fields(R"("expert": 4)", graph, {2026, 8}, bounded) == Fields{"training.cuda_graphs"});
  const std::string modules = R"("preset": "deepseek-v3", "mtp": {"num_layers": 1})";
  CHECK(fields(R"("expert": 8)", "", {2026, 7}, modules) == Fields{"model.mtp.num_layers"});
  CHECK(fields(R"("expert": 8)", "", {2026, 8}, modules).empty());
}

TEST_CASE("torchtitan's defaults since June 2026 are those of its Trainer") {
  const auto plan = [](const std::string& month, const std::string& parallel) {
    return parse_plan(R"({"stack": {"name": "torchtitan", "as_of": ")" + month + R"("}, "model": {"preset": "llama3-8b"}, "parallel": {"zero_stage": 3)" + parallel +
                          R"(}, "training": {"seq_length": 8192, "micro_batch_size": 1, "global_batch_size": 64}, "cluster": {"preset": "dgx-h100", "devices": 8}})",
                      "titan.json", PlanContext{generation_of});
  };
  CHECK(plan("2026-05", "").training.recompute == Recompute::none);
  CHECK(plan("2026-06", "").training.recompute == Recompute::selective);
  CHECK(plan("2026-04", "").training.loss_chunks == 1);
  CHECK(plan("2026-05", "").training.loss_chunks == 8);
  CHECK(plan("2026-07", "").training.cuda_graphs == CudaGraphs::none);
  CHECK(plan("2026-08", "").training.cuda_graphs == CudaGraphs::iteration);
  CHECK(plan("2026-08", R"(, "pipeline": 2)").training.cuda_graphs == CudaGraphs::none);
  CHECK(plan("2026-06", R"(, "context": 2)").parallel.context_mode == ContextMode::all_gather);
}

TEST_CASE("trainers take the optimizers that their options name") {
  const auto optimizers = [](const char* stack) {
    Fields out;
    for (const char* name : {"adamw", "sgd", "muon", "lamb", "lans"})
      if (std::ranges::count(refused(with("training", std::string("\"optimizer\": \"") + name + "\""), stack), "training.optimizer") > 0) out.emplace_back(name);
    return out;
  };
  CHECK(optimizers("megatron-core") == Fields{"lamb", "lans"});
  CHECK(optimizers("nanotron") == Fields{"muon", "lamb", "lans"});
  CHECK(optimizers("torchtitan") == Fields{"sgd", "lamb", "lans"});
}
