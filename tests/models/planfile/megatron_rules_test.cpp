// What the rules of Megatron-LM and Megatron-DeepSpeed refuse, and since when.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/plan/plan.hpp"
#include "models/stack/gradient_buckets.hpp"
#include "tests/models/planfile/refused_fields.hpp"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("Megatron-DeepSpeed has ZeRO 2 and 3 only without a pipeline") {
  for (const int stage : {2, 3}) {
    const std::string member = "\"zero_stage\": " + std::to_string(stage);
    CHECK(refused(with("parallel", member), "megatron-deepspeed") == Fields{"parallel.zero_stage"});
    CHECK(refused(with("parallel", member, bent("\"pipeline\": 2, \"data\": 2", "\"data\": 4")), "megatron-deepspeed")
              .empty());
  }
  CHECK(refused(with("parallel", "\"zero_stage\": 1"), "megatron-deepspeed").empty());
}

TEST_CASE("Megatron-DeepSpeed has no experts under ZeRO 3") {
  const auto stage = [](const std::string& n) {
    return R"({"model": {"preset": "mixtral-8x7b"}, "parallel": {"data": 8, "expert": 8, "zero_stage": )" + n +
           R"(}, "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 8}, "cluster": {"preset": "dgx-h100", "devices": 8}})";
  };
  CHECK(refused(stage("3"), "megatron-deepspeed") == Fields{"parallel.zero_stage"});
  CHECK(refused(stage("2"), "megatron-deepspeed").empty());
}

TEST_CASE("Megatron-DeepSpeed has neither latent attention nor shared experts, Megatron-Core both since September 2024") {
  const auto fields = [](const std::string& model, const std::string& stack, const std::string& month) {
    const std::string text = R"({"stack": {"name": ")" + stack + R"(", "as_of": ")" + month + R"(", "rules": "note"}, "model": )" + model +
                             R"(, "parallel": {"data": 8, "expert": 8}, "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 8},
      "cluster": {"preset": "dgx-h100", "devices": 8}})";
    const Plan p = parse_plan(text, "latent.json");
    Fields out;
    for (const Problem& problem : stack_problems(p, stack, p.stack.as_of)) {
      CHECK(problem.remedy.find("use 0") == 0);
      out.push_back(problem.field);
    }
    return out;
  };
  const std::string both = R"({"preset": "deepseek-v2-lite"})", neither = R"({"preset": "mixtral-8x7b"})";
  const Fields named{"model.latent.kv_rank", "model.moe.num_shared_experts"};
  CHECK(fields(both, "megatron-deepspeed", "2024-09") == named);
  CHECK(fields(neither, "megatron-deepspeed", "2024-09").empty());
  CHECK(fields(both, "megatron-core", "2024-08") == named);
  CHECK(fields(both, "megatron-core", "2024-09").empty());
}

TEST_CASE("Megatron-Core has a pipeline of T5 from June 2021 to July 2025, interleaved from April 2025") {
  const auto plan = [](const std::string& schedule, const std::string& month) {
    return R"({"stack": {"name": "megatron-core", "as_of": ")" + month + R"(", "rules": "note"}, "model": {"preset": "t5-11b"},
      "parallel": {"tensor": 2, "pipeline": 2, "data": 2, )" + schedule + R"(},
      "training": {"seq_length": 512, "micro_batch_size": 1, "global_batch_size": 16, "flash_attention": false},
      "cluster": {"preset": "dgx-a100-80gb", "devices": 8}})";
  };
  const auto fields = [](const std::string& text) {
    Fields out;
    const Plan p = parse_plan(text, "t5.json");
    for (const Problem& problem : stack_problems(p, p.stack.name, p.stack.as_of)) out.push_back(problem.field);
    return out;
  };
  const std::string whole = "\"schedule\": \"1f1b\"", chunks = "\"schedule\": \"interleaved\", \"virtual_pipeline\": 2";
  CHECK(fields(plan(whole, "2021-05")) == Fields{"parallel.pipeline"});
  CHECK(fields(plan(whole, "2021-06")).empty());
  CHECK(fields(plan(whole, "2025-06")).empty());
  CHECK(fields(plan(whole, "2025-07")) == Fields{"parallel.pipeline"});
  CHECK(fields(plan(chunks, "2025-03")) == Fields{"parallel.schedule"});
  CHECK(fields(plan(chunks, "2025-04")).empty());
}

TEST_CASE("Megatron-Core's attention is one kernel whether positions are learned, rotary or none") {
  const auto flash = [](const std::string& positions) {
    const std::string plan = under("megatron-core", "", with("model", "\"position_embedding\": \"" + positions + "\""));
    return parse_plan(plan, "plan.json").training.flash_attention;
  };
  CHECK(flash("learned"));
  CHECK(flash("rope"));
  CHECK(flash("none"));
  CHECK_FALSE(flash("alibi"));
}

TEST_CASE("Megatron-FSDP reduces gradients in buckets beside the backward pass, and gathers weights beside both if it shards them") {
  const auto spec = [](int zero_stage) {
    const std::string degrees = "\"data\": 8, \"zero_stage\": " + std::to_string(zero_stage);
    return parse_plan(under("megatron-core", "", bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", degrees)), "plan.json").parallel;
  };
  CHECK_FALSE(spec(1).overlap_grad_reduce);
  CHECK(spec(2).overlap_grad_reduce);
  CHECK(spec(2).bucket_bytes < spec(1).bucket_bytes);
  CHECK_FALSE(spec(2).overlap_param_gather);
  CHECK(spec(3).overlap_grad_reduce);
  CHECK(spec(3).overlap_param_gather);
}

TEST_CASE("Megatron-LM aligns reductions of whole gradients alone, as their lowering does") {
  Plan plan = parse_plan(under("megatron-core", "2024-01", kGoodPlan), "plan.json");
  plan.parallel.schedule = ScheduleKind::interleaved;
  plan.parallel.overlap_grad_reduce = true;
  for (const int stage : {0, 1, 2, 3}) {
    plan.parallel.zero_stage = stage;
    CHECK(gradient_buckets(plan).aligned == (stage < 2));
  }
}

TEST_CASE("Megatron-DeepSpeed on Gaudi trains in bf16 or fp8, never in fp16") {
  const std::string gaudi = bent("dgx-a100-80gb", "hls-gaudi2");
  CHECK(refused(with("training", "\"precision\": \"fp16\"", gaudi), "megatron-deepspeed") ==
        Fields{"training.precision"});
  CHECK(refused(with("training", "\"precision\": \"fp8\"", gaudi), "megatron-deepspeed").empty());
  CHECK(refused(with("training", "\"precision\": \"fp16\""), "megatron-deepspeed").empty());
}

TEST_CASE("Megatron-Core's context ranks exchange heads inside a ring, since November 2024") {
  const auto fields = [](const std::string& levels, Month as_of) {
    const std::string text = bent("\"pipeline\": 2, \"data\": 2", "\"context\": 4, " + levels);
    Fields out;
    for (const Problem& p : stack_problems(parse_plan(text, "levels.json"), "megatron-core", as_of)) out.push_back(p.field);
    return out;
  };
  CHECK(fields("\"ulysses\": 2", {2024, 10}) == Fields{"parallel.ulysses"});
  CHECK(fields("\"ulysses\": 2", {2024, 11}).empty());
  CHECK(fields("\"ulysses\": 1", {2024, 10}).empty());
  CHECK(fields("\"ulysses\": 2, \"context_mode\": \"all_gather\"", {2024, 11}) == Fields{"parallel.ulysses"});
  CHECK(fields("\"context_mode\": \"all_gather\"", {2024, 11}).empty());
}

TEST_CASE("Megatron-Core's context ranks share the heads of Mamba 2 since July 2025 and those of gated DeltaNet since April 2026") {
  const auto refuses = [](const std::string& rule, Month as_of) {
    const Plan plan = parse_plan(R"({"model": {"family": "llama", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
      "ffn_hidden_size": 64, "vocab_size": 64, "recurrence": {"rule": ")" + rule + R"(", "heads": 4, "layers": "ra"}},
      "parallel": {"context": 2}, "training": {"seq_length": 64, "micro_batch_size": 1, "global_batch_size": 2},
      "cluster": {"preset": "dgx-h100", "devices": 2}, "stack": "tandem"})", "hybrid.json");
    const std::vector<Problem> problems = stack_problems(plan, "megatron-core", as_of);
    return std::any_of(problems.begin(), problems.end(), [](const Problem& p) { return p.field == "parallel.context"; });
  };
  CHECK(refuses("mamba2", {2025, 6}));
  CHECK_FALSE(refuses("mamba2", {2025, 7}));
  CHECK(refuses("gated_delta", {2026, 3}));
  CHECK_FALSE(refuses("gated_delta", {2026, 4}));
}

TEST_CASE("DeepSpeed's gate chooses more than two experts since September 2024, and Megatron-DeepSpeed has no norms of queries and keys") {
  const auto fields = [](const std::string& preset, Month as_of) {
    Fields out;
    for (const Problem& p : stack_problems(parse_plan(R"({"model": {"preset": ")" + preset + R"("}, "parallel": {"data": 8},
      "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 8},
      "cluster": {"preset": "hls-gaudi2", "devices": 8}})", "gate.json"), "megatron-deepspeed", as_of)) out.push_back(p.field);
    return out;
  };
  CHECK(fields("mixtral-8x7b", {2024, 3}).empty());
  CHECK(fields("qwen3-30b-a3b", {2024, 8}) == Fields{"model.qk_norm", "model.moe.experts_per_token"});
  CHECK(fields("qwen3-30b-a3b", {2024, 9}) == Fields{"model.qk_norm"});
  CHECK(fields("llama3-8b", {2024, 3}).empty());
}

TEST_CASE("Megatron-Core's experts have biases since September 2025 again, on one tensor rank, and NVFP4 weights since April 2026") {
  const auto fields = [](const std::string& training, const std::string& parallel, bool biases, Month as_of) {
    const Plan plan = parse_plan(R"({"model": {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128, "linear_bias": )" +
                                     std::string(biases ? "true" : "false") + R"(, "moe": {"num_experts": 8}}, "parallel": {"data": 2, "tensor": 2,
      "sequence_parallel": true)" + parallel + R"(}, "training": {"seq_length": 64, "micro_batch_size": 1, "global_batch_size": 8)" + training +
                                     R"(}, "cluster": {"preset": "dgx-b200", "devices": 4}})",
                                 "experts.json");
    Fields out;
    for (const Problem& p : stack_problems(plan, "megatron-core", as_of)) out.push_back(p.field);
    return out;
  };
  const std::string cut = R"(, "expert_tensor": 2)", whole = R"(, "expert_tensor": 1)";
  CHECK(fields("", whole, true, {2025, 4}).empty());
  CHECK(fields("", whole, true, {2025, 8}) == Fields{"model.linear_bias"});
  CHECK(fields("", cut, true, {2025, 9}) == Fields{"parallel.expert_tensor"});
  CHECK(fields("", whole, true, {2025, 9}).empty());
  CHECK(fields("", cut, false, {2025, 9}).empty());
  const std::string four = R"(, "precision": "nvfp4", "dtypes": {"weights": "nvfp4"})";
  CHECK(fields(four, whole, false, {2026, 3}) == Fields{"training.dtypes.weights"});
  CHECK(fields(four, whole, false, {2026, 4}).empty());
  const std::string graphs = R"(, "cuda_graphs": "iteration")";
  const std::string exchanged = R"(, "expert": 2, "token_dispatcher": "deepep")";
  CHECK(fields(graphs, exchanged, false, {2026, 4}) == Fields{"training.cuda_graphs"});
  CHECK(fields(graphs, exchanged, false, {2026, 5}).empty());
  CHECK(fields(graphs, "", false, {2026, 5}) == Fields{"training.cuda_graphs"});
  CHECK(fields(graphs, "", false, {2025, 7}) == Fields{"training.cuda_graphs", "training.cuda_graphs"});  // and rows that the host counts
}

TEST_CASE("Megatron-Core overlaps only what its arguments allow") {
  CHECK(refused(with("parallel", "\"tensor_overlap\": true"), "megatron-core") == Fields{"parallel.tensor_overlap"});
  CHECK(refused(with("parallel", "\"tensor_overlap\": true, \"sequence_parallel\": true"), "megatron-core").empty());
  const std::string both = "\"overlap_param_gather\": true, \"overlap_grad_reduce\": true";
  CHECK(refused(with("parallel", both), "megatron-core") == Fields{"parallel.overlap_param_gather"});
  CHECK(refused(with("parallel", "\"zero_stage\": 1, " + both), "megatron-core").empty());
  CHECK(refused(with("parallel", "\"zero_stage\": 1, \"overlap_grad_reduce\": false, \"overlap_param_gather\": true"), "megatron-core") ==
        Fields{"parallel.overlap_param_gather"});
}

// NVIDIA/Megatron-LM d98e8a64: megatron/core/transformer/transformer_config.py, __post_init__
TEST_CASE("Megatron-Core overlaps the exchange of several expert ranks that no recomputation repeats") {
  const auto refused_by = [](const nlohmann::json& change, Month as_of = {2026, 8}) {
    nlohmann::json text = {{"model", {{"preset", "mixtral-8x7b"}}}, {"parallel", {{"data", 8}, {"expert", 8}, {"overlap_experts", true}}},
                           {"training", {{"seq_length", 2048}, {"micro_batch_size", 1}, {"global_batch_size", 8}}},
                           {"cluster", {{"preset", "dgx-h100"}, {"devices", 8}}}};
    text.merge_patch(change);
    Fields out;
    for (const Problem& p : stack_problems(parse_plan(text.dump(), "overlap.json"), "megatron-core", as_of)) out.push_back(p.field);
    return out;
  };
  const auto modules = [](const std::vector<std::string>& words, const char* precision = "bf16") {
    return nlohmann::json{{"training", {{"recompute", "selective"}, {"recompute_modules", words}, {"precision", precision}}}};
  };
  const Fields overlap{"parallel.overlap_experts"};
  CHECK(refused_by(nlohmann::json::object()).empty());
  CHECK(refused_by({{"parallel", {{"expert", 1}}}}) == overlap);
  CHECK(refused_by({{"model", {{"mtp", {{"num_layers", 2}}}}}}) == overlap);
  CHECK(refused_by({{"model", {{"mtp", {{"num_layers", 1}}}}}}).empty());
  CHECK(refused_by(modules({"norm", "moe"})) == overlap);
  CHECK(refused_by(modules({"norm", "moe_activation"})).empty());
  nlohmann::json apart = modules({"norm", "moe"});
  apart["parallel"]["overlap_experts"] = false;
  CHECK(refused_by(apart).empty());
  // Before 781e765818 (2025-08-19): moe_act and layernorm recompute cannot work with fp8.
  nlohmann::json narrow = modules({"moe_activation"}, "fp8");
  narrow["parallel"]["overlap_experts"] = false;
  CHECK(refused_by(narrow, {2025, 7}) == Fields{"training.precision"});
  CHECK(refused_by(narrow, {2025, 8}).empty());
}

// NVIDIA/Megatron-LM 3df200905e (2025-11-18); NVIDIA-NeMo/Megatron-Bridge 3c4ea2ff9 (2025-08-18) and c8e34f71e (2025-11-21)
TEST_CASE("DeepEP runs on Blackwell since November 2025") {
  const auto fields = [](const std::string& cluster, Month as_of) {
    const Plan plan = parse_plan(R"({"stack": "pytorch-fsdp", "model": {"preset": "qwen3-30b-a3b"}, "parallel": {"data": 16, "expert": 8,
      "token_dispatcher": "deepep"}, "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 16}, "cluster": {"preset": ")" +
                                 cluster + R"(", "devices": 16}})", "exchange.json");
    Fields out;
    for (const Problem& p : stack_problems(plan, "nemo", as_of)) out.push_back(p.field);
    return out;
  };
  CHECK(fields("gb200-nvl72", {2025, 10}) == Fields{"parallel.token_dispatcher"});
  CHECK(fields("gb200-nvl72", {2025, 11}).empty());
  CHECK(fields("dgx-h100", {2025, 10}).empty());
}
