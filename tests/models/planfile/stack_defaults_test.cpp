// What plans have by their stack and its date where they do not say it themselves.

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/fields/fusion_file.hpp"
#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "tests/odd_stack.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

Plan read(const std::string& text) { return parse_plan(text, "plan.json"); }
Plan of(const std::string& stack, const std::string& month = "", const std::string& text = kGoodPlan) {
  return read(under(stack, month, text));
}
std::string on(const std::string& preset, const std::string& text = kGoodPlan) { return bent("\"dgx-a100-80gb\"", "\"" + preset + "\"", text); }

const std::string kData = bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"data\": 8");
const std::string kUnnamed = bent(" \"stack\": \"tandem\",", "");
const std::string kInterleaved = with("parallel", "\"schedule\": \"interleaved\"");

}  // namespace

TEST_CASE("a plan that names no stack has the framework most used on its device, which refuses nothing") {
  const auto stack = [](const std::string& preset) { return read(on(preset, kUnnamed)).stack; };
  for (const char* preset : {"dgx-1v", "dgx-a100-80gb", "dgx-h100", "gb200-nvl72"}) CHECK(stack(preset).name == "megatron-core");
  for (const char* preset : {"pcie-rtx-4090", "g6e.48xlarge", "pcie-rtx-pro-6000"}) CHECK(stack(preset).name == "pytorch-fsdp");
  CHECK(stack("hls-gaudi2").name == "megatron-deepspeed");
  CHECK(stack("trn1.32xlarge").name == "neuronx");
  CHECK(stack("cpu-host").name == "tandem");
  CHECK_FALSE(stack("dgx-h100").refuses);
  CHECK(of("megatron-core").stack.refuses);
  const Plan noted = read(with("parallel", "\"schedule\": \"gpipe\"", kUnnamed));
  REQUIRE(noted.stack.facts.notes.size() == 1);
  CHECK(noted.stack.facts.notes.front().starts_with("parallel.schedule: refused by stack megatron-core"));
  CHECK_THROWS_AS(of("megatron-core", "", with("parallel", "\"schedule\": \"gpipe\"")), InfeasibleError);
}

TEST_CASE("a stack is a name, or a name with a month, and prints so that it reads the same again") {
  CHECK(read(with_top("\"stack\": \"megatron-core\"")).stack.as_of == Month{2026, 8});
  CHECK(of("megatron-core", "2024-07").stack.as_of == Month{2024, 7});
  for (const std::string& text : {kUnnamed, under("megatron-core", "2022-03"), kGoodPlan}) {
    const Plan plan = read(text);
    const Plan again = read(to_json(plan));
    CHECK(to_json(again) == to_json(plan));
    CHECK(again.stack.refuses == plan.stack.refuses);
  }
  for (const char* month : {"2024", "2024-13", "24-07", "2024-7", "soon"})
    CHECK_THROWS_WITH(of("megatron-core", month), Catch::Contains("stack.as_of") && Catch::Contains("2024-07"));
}

TEST_CASE("DeepSpeed reduces 5e8 elements at once, of whatever type it reduces them in") {
  const auto bytes = [](const std::string& training, const std::string& parallel = "") {
    const std::string text = with("training", training);
    return of("megatron-deepspeed", "", parallel.empty() ? text : with("parallel", parallel, text)).parallel.bucket_bytes.count();
  };
  CHECK(bytes("\"precision\": \"bf16\"") == 1'000'000'000);
  CHECK(bytes("\"precision\": \"fp16\"") == 1'000'000'000);
  CHECK(bytes("\"precision\": \"fp32\"") == 2'000'000'000);
  CHECK(bytes("\"precision\": \"bf16\", \"dtypes\": {\"gradient_reduce\": \"fp32\"}") == 2'000'000'000);
  CHECK(bytes("\"precision\": \"bf16\"", "\"bucket_bytes\": 300000000") == 300'000'000);
  CHECK(of("tandem").parallel.bucket_bytes.count() == 160'000'000);
}

TEST_CASE("Megatron-LM reduces 40 M elements at once, or 1 M for each data-parallel rank, and all without overlap") {
  const auto bytes = [](const std::string& stack, const std::string& parallel, const std::string& dtypes = "fp32") {
    const std::string devices = bent("\"devices\": 8", "\"devices\": 512", bent("\"global_batch_size\": 16", "\"global_batch_size\": 512"));
    const std::string text = bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", parallel, devices);
    return of(stack, "", with("training", "\"precision\": \"bf16\", \"dtypes\": {\"gradient_reduce\": \"" + dtypes + "\"}", text)).parallel.bucket_bytes.count();
  };
  const std::string overlap = ", \"overlap_grad_reduce\": true", wide = "\"tensor\": 2, \"pipeline\": 4, \"data\": 64";
  CHECK(bytes("megatron-core", "\"tensor\": 8, \"pipeline\": 2, \"data\": 32" + overlap) == 160'000'000);
  CHECK(bytes("megatron-core", wide + overlap) == 256'000'000);
  CHECK(bytes("megatron-core", wide + overlap, "bf16") == 128'000'000);
  CHECK(bytes("megatron-core", "\"data\": 64, \"context\": 8" + overlap) == 2'048'000'000);
  CHECK(bytes("megatron-core", wide) > 1'000'000'000'000);
  CHECK(bytes("megatron-core", wide + overlap + ", \"bucket_bytes\": 300000000") == 300'000'000);
  CHECK(bytes("nemo", wide) == 536'870'912);  // 128 Mi elements: Megatron-Bridge overlaps unless told otherwise
  CHECK(bytes("nemo", wide, "bf16") == 268'435'456);
  CHECK(bytes("nemo", wide + ", \"overlap_grad_reduce\": false") > 1'000'000'000'000);
}

TEST_CASE("a stack from the command line takes the place of the plan's") {
  const StackChoice choice = parse_stack_choice("megatron-core@2022-03");
  const Plan plan = parse_plan(kGoodPlan, "plan.json", choice);
  CHECK(plan.stack.name == "megatron-core");
  CHECK(plan.stack.as_of == Month{2022, 3});
  CHECK(plan.training.dropout.hidden == 0.1);
  CHECK(parse_plan(under("megatron-core", "2022-03"), "plan.json", parse_stack_choice("tandem")).training.dropout.hidden == 0);
  for (const char* bad : {"", "@2024-07", "tandem@", "tandem@2024"}) CHECK_THROWS_AS(parse_stack_choice(bad), ConfigError);
}

TEST_CASE("a month later than the code that was read is told") {
  CHECK(of("megatron-core", "2026-08").stack.facts.notes.empty());
  const Plan later = of("megatron-core", "2027-01");
  REQUIRE(later.stack.facts.notes.size() == 1);
  CHECK(later.stack.facts.notes.front().find("2027-01 is later than the code") != std::string::npos);
}

TEST_CASE("a fusion set that a stack has for the plan's precision and not for bf16 is told") {
  const auto notes = [](const std::string& members, const std::string& stack) {
    return of(stack, "2025-08", with("training", members, on("dgx-h100", kData))).stack.facts.notes;
  };
  const auto narrow = notes(R"("precision": "fp8")", "pytorch-fsdp");
  REQUIRE(narrow.size() == 1);
  CHECK(narrow.front() == "training.fusion: stack pytorch-fsdp has compiled-blocks in fp8 and eager in bf16; name one to compare precisions alone");
  CHECK(notes(R"("precision": "bf16")", "pytorch-fsdp").empty());
  CHECK(notes(R"("precision": "fp8", "fusion": "compiled-blocks")", "pytorch-fsdp").empty());
  CHECK(notes(R"("precision": "fp8")", "megatron-core").empty());
}

TEST_CASE("a rule holds from the month of `since` on and no longer in that of `until`") {
  const auto overlaps = [](const std::string& month) { return of("megatron-core", month, kInterleaved).parallel.overlap_p2p; };
  CHECK_FALSE(overlaps("2023-09"));
  CHECK(overlaps("2023-10"));
  const auto set = [](const std::string& month, const std::string& preset) { return of("megatron-core", month, on(preset)).training.fusion.name; };
  CHECK(set("2022-01", "dgx-a100-80gb") == "megatron-lm-2021");
  CHECK(set("2022-02", "dgx-a100-80gb") == "megatron-2022");
  CHECK(set("2024-01", "dgx-a100-80gb") == "transformer-engine-2024-ampere");
  CHECK(set("2024-01", "dgx-h100") == "transformer-engine-2024");
  CHECK(set("2025-04", "dgx-h100") == "transformer-engine");
  CHECK(set("2025-04", "dgx-1v") == "megatron");
  CHECK(set("2025-04", "pcie-l40s") == "transformer-engine-ampere");  // FlashAttention 2 below compute capability 9.0
  CHECK(set("2025-04", "pcie-rtx-pro-6000") == "transformer-engine");
}

TEST_CASE("Ada and RTX Blackwell have flash attention in every framework, and no mxfp8 in Transformer Engine") {
  for (const char* preset : {"pcie-rtx-4090", "pcie-rtx-pro-6000"})
    for (const char* stack : {"tandem", "megatron-core", "pytorch-fsdp"}) {
      INFO(preset << " " << stack);
      CHECK(of(stack, "", on(preset, kData)).training.flash_attention);
    }
  const std::string mxfp8 = with("training", "\"precision\": \"mxfp8\"");
  CHECK_THROWS_AS(of("megatron-core", "", on("pcie-rtx-pro-6000", mxfp8)), InfeasibleError);
  CHECK_NOTHROW(of("megatron-core", "", on("dgx-b200", mxfp8)));
}

TEST_CASE("plans of Megatron-LM drop 10 % unless they say what they drop, LLaMAs nothing") {
  for (const char* stack : {"megatron-core", "megatron-deepspeed"}) {
    INFO(stack);
    CHECK(of(stack).training.dropout.hidden == 0.1);
    CHECK(of(stack).training.dropout.attention == 0.1);
    const Dropout given = of(stack, "", with("training", "\"dropout\": {\"hidden\": 0.0, \"attention\": 0.2}")).training.dropout;
    CHECK((given.hidden == 0 && given.attention == 0.2));
    CHECK(of(stack, "", with("training", "\"dropout\": {\"hidden\": 0.0}")).training.dropout.attention == 0.1);
    CHECK(of(stack, "", with("model", "\"family\": \"llama\"")).training.dropout.hidden == 0);
  }
  for (const char* stack : {"nemo", "tandem", "pytorch-fsdp"}) CHECK(of(stack, "", kData).training.dropout.hidden == 0);
}

TEST_CASE("gradients of NVIDIA's recipes are of 16 bits, those of Megatron-LM of 32") {
  const std::string h100 = on("dgx-h100");
  for (const char* precision : {"bf16", "fp8"}) {
    const std::string text = with("training", "\"precision\": \"" + std::string(precision) + "\"", h100);
    CHECK(of("nemo", "", text).training.dtypes.gradients == DType::bf16);
    CHECK(of("nemo", "", text).training.dtypes.gradient_reduce == DType::bf16);
    CHECK(of("megatron-core", "", text).training.dtypes.gradients == DType::fp32);
  }
  const std::string half = with("training", "\"precision\": \"fp16\"");
  CHECK(of("megatron-core", "", half).training.dtypes.gradients == DType::fp16);
  CHECK(of("megatron-deepspeed", "", half).training.dtypes.gradient_reduce == DType::fp16);
  CHECK(of("nemo").parallel.overlap_grad_reduce);
  CHECK_FALSE(of("megatron-core").parallel.overlap_grad_reduce);
}

TEST_CASE("NVIDIA's recipes store weights in 8 bits where they compute so under ZeRO 1, other plans only if they say it") {
  const auto weights = [](const std::string& stack, const std::string& training, const std::string& parallel) {
    return of(stack, "", with("training", training, with("parallel", parallel, on("dgx-h100")))).training.dtypes.weights;
  };
  const std::string fp8 = R"("precision": "fp8")", sharded = R"("zero_stage": 1)";
  CHECK(weights("nemo", fp8, sharded) == DType::fp8);
  CHECK(weights("nemo", fp8, R"("zero_stage": 0)") == DType::bf16);
  CHECK(weights("nemo", R"("precision": "bf16")", sharded) == DType::bf16);
  CHECK(weights("nemo", fp8 + R"(, "dtypes": {"weights": "bf16"})", sharded) == DType::bf16);
  CHECK(weights("megatron-core", fp8, sharded) == DType::bf16);
}

TEST_CASE("deterministic mode of Megatron-LM has what its code sets at that time") {
  const std::string fixed = with("training", "\"deterministic\": true", on("dgx-h100"));
  CHECK(of("megatron-core", "", fixed).training.fill_uninitialized_memory);
  CHECK_FALSE(of("megatron-core", "2026-09", fixed).training.fill_uninitialized_memory);
  CHECK(of("megatron-core", "", fixed).cluster.override.nccl_algo == "ring");
  CHECK(of("megatron-core").cluster.override.nccl_algo.empty());
  CHECK(of("nemo", "", fixed).training.fusion.name == "transformer-engine");
  CHECK(of("nemo", "", on("dgx-h100")).training.fusion.name == "megatron-bridge");
  CHECK_THROWS_WITH(of("megatron-core", "", with("training", "\"deterministic\": true, \"fusion\": \"megatron-bridge\"")),
                    Catch::Contains("cross-entropy unfused"));
}

TEST_CASE("AMD's devices have the stacks, layers and attention kernels of their ports") {
  struct Case {
    const char *preset, *stack, *set;
    AttentionKernel kernel;
  };
  const auto c = GENERATE(values<Case>({{"mi300x-8x400g", "megatron-core", "transformer-engine", AttentionKernel::tuned},
                                        {"mi355x-8x400g", "megatron-core", "transformer-engine", AttentionKernel::tuned},
                                        {"frontier", "megatron-deepspeed", "megatron-2021", AttentionKernel::flash2}}));
  CAPTURE(c.preset);
  const Plan plan = read(on(c.preset, kUnnamed));
  CHECK(plan.stack.name == c.stack);
  CHECK(plan.training.fusion.name == c.set);
  CHECK(plan.training.attention_kernel == c.kernel);
  const Plan eager = of("pytorch-fsdp", "", on(c.preset));
  CHECK(eager.training.flash_attention);
  CHECK(eager.training.attention_kernel == AttentionKernel::triton);
}

TEST_CASE("Megatron-Core sums an input's gradient beside its matrix' before Blackwell, since September 2021") {
  const auto beside = [](const std::string& preset, const std::string& month, const std::string& text = kGoodPlan) {
    return of("megatron-core", month, on(preset, text)).parallel.overlap_tensor_sum;
  };
  CHECK(beside("dgx-a100-80gb", ""));
  CHECK(beside("dgx-h100", "2021-09"));
  CHECK_FALSE(beside("dgx-a100-80gb", "2021-08"));
  CHECK_FALSE(beside("dgx-b200", ""));
  CHECK_FALSE(beside("dgx-a100-80gb", "", bent("\"pipeline\": 2, \"data\": 2", "\"data\": 4, \"zero_stage\": 3")));
  CHECK_FALSE(beside("dgx-a100-80gb", "", kData));
}

TEST_CASE("vocabularies are padded by frameworks that pad them") {
  for (const char* stack : {"megatron-core", "megatron-deepspeed"}) CHECK(of(stack, "", kData).padded_vocab_size() == 1024);
  for (const char* stack : {"pytorch-fsdp", "torchtitan", "llm-foundry", "pytorch-ddp", "jax", "maxtext"})
    CHECK(of(stack, "", kData).padded_vocab_size() == 1000);
  CHECK(of("torchtitan").padded_vocab_size() == 1008);  // two tensor ranks
}

TEST_CASE("Gaudi's Megatron-DeepSpeed has fused attention since 2024, without ALiBi") {
  const auto fused = [](const std::string& preset, const std::string& month, const std::string& text = kGoodPlan) {
    return of("megatron-deepspeed", month, on(preset, text)).training.flash_attention;
  };
  CHECK(fused("hls-gaudi3", ""));
  CHECK(fused("hls-gaudi2", "2024-03"));
  CHECK_FALSE(fused("hls-gaudi2", "2023-12"));
  CHECK_FALSE(fused("hls-gaudi1", ""));
  CHECK_FALSE(fused("hls-gaudi2", "", with("model", "\"position_embedding\": \"alibi\"")));
}

TEST_CASE("devices without bf16 compute in fp16 unless the plan says otherwise") {
  CHECK(read(on("dgx-1v", kUnnamed)).training.precision == "fp16");
  CHECK(read(on("dgx-1v", with("training", "\"precision\": \"fp32\"", kUnnamed))).training.precision == "fp32");
  CHECK(read(on("dgx-a100-80gb", kUnnamed)).training.precision == "bf16");
}

TEST_CASE("Tandem's own stack has room for all rows where that is cheap, and attention that sinks and indexers need") {
  const auto bound = [](const std::string& preset, const std::string& parallel, const std::string& more = "") {
    const std::string experts = with("model", "\"moe\": {\"num_experts\": 16" + more + "}");
    const std::string ranks = bent("\"devices\": 8", "\"devices\": 16", bent("\"global_batch_size\": 16", "\"global_batch_size\": 32", experts));
    return read(on(preset, bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", parallel, ranks))).model.moe.rows_bound;
  };
  CHECK(bound("cpu-host", "\"expert\": 2") == 2);
  CHECK(bound("cpu-host", "\"expert\": 4") == 4);
  CHECK(bound("cpu-host", "\"expert\": 16") == 16);
  CHECK(bound("cpu-host", "\"expert\": 4", ", \"rows_bound\": 3") == 3);
  CHECK(bound("cpu-host", "\"expert\": 4", ", \"capacity_factor\": 1") == 2);  // unread
  CHECK(bound("dgx-a100-80gb", "\"expert\": 8") == 8);
  CHECK(bound("dgx-a100-80gb", "\"expert\": 16") == 2);  // most of a device's memory
  const std::string sinks = on("cpu-host", with("model", "\"attention_sinks\": true"));
  CHECK(read(sinks).training.flash_attention);
  CHECK_FALSE(read(on("cpu-host")).training.flash_attention);
  CHECK_THROWS_WITH(require_lowerable(read(with("training", "\"flash_attention\": false", sinks))),
                    Catch::Contains("training.flash_attention = false: not implemented") && Catch::Contains("supports sinks with flash attention: set it to true"));
  const std::string latent = "\"position_embedding\": \"rope\", \"qkv_bias\": false, \"head_dim\": 12, \"latent\": {\"kv_rank\": 8, "
                             "\"query_rank\": 4, \"rotary_dim\": 4}, \"indexer\": {\"heads\": 2, \"topk\": 4}";
  CHECK(read(on("cpu-host", with("model", latent))).training.flash_attention);
}

TEST_CASE("Megatron-LM of a month refuses what came later") {
  struct Came { const char *part, *member, *before, *since; };
  const auto [part, member, before, since] = GENERATE(
      Came{"parallel", "\"schedule\": \"interleaved\", \"virtual_pipeline\": 2", "2021-01", "2021-02"},
      Came{"training", "\"precision\": \"bf16\", \"flash_attention\": false", "2021-02", "2021-03"},
      Came{"parallel", "\"zero_stage\": 1", "2022-01", "2022-02"}, Came{"parallel", "\"sequence_parallel\": true", "2022-03", "2022-04"},
      Came{"training", "\"recompute\": \"selective\"", "2022-04", "2022-05"},
      Came{"training", "\"flash_attention\": true", "2022-11", "2022-12"});
  CAPTURE(member);
  const std::string fp16 = with("training", "\"precision\": \"fp16\", \"flash_attention\": false");
  const std::string text = part == std::string("training") ? with(part, member) : with(part, member, fp16);
  CHECK_THROWS_AS(of("megatron-core", before, text), InfeasibleError);
  CHECK_NOTHROW(of("megatron-core", since, text));
}

TEST_CASE("experts of Megatron-Core on GPUs get even shares, others have room for uneven ones") {
  const std::string moe = with("parallel", "\"sequence_parallel\": true", with("model", "\"moe\": {\"num_experts\": 4}"));
  const auto bound = [](const std::string& stack, const std::string& text) { return of(stack, "", text).model.moe.rows_bound; };
  CHECK(bound("megatron-core", moe) == 1);
  CHECK(bound("tandem", moe) == 2);
  CHECK(bound("megatron-core", bent("\"num_experts\": 4", "\"num_experts\": 4, \"rows_bound\": 3", moe)) == 3);
  CHECK(bound("megatron-core", on("cpu-host", moe)) == 2);  // trains, and must have room for what the router does
}

TEST_CASE("frameworks on PyTorch's FSDP have their own habits by name, whatever the model") {
  const std::string sharded = with("parallel", "\"zero_stage\": 3", kData);
  for (const std::string& text : {sharded, with("model", "\"family\": \"llama\"", sharded), bent("1000", "128256", sharded)}) {
    const Plan plain = of("pytorch-fsdp", "", text), foundry = of("llm-foundry", "", text), fms = of("fms-fsdp", "", text);
    const Plan titan = of("torchtitan", "2025-06", text);
    CHECK((plain.training.fusion.name == "eager" && foundry.training.fusion.name == "llm-foundry"));
    CHECK((fms.training.fusion.name == "compiled-blocks" && titan.training.fusion.name == "eager"));
    CHECK((plain.parallel.unit_copies == UnitCopies::per_parameter && titan.parallel.unit_copies == UnitCopies::per_parameter));
    CHECK((foundry.parallel.unit_copies == UnitCopies::flat && fms.parallel.unit_copies == UnitCopies::flat));
    CHECK((plain.training.dtypes.gradient_reduce == DType::bf16 && titan.training.dtypes.gradient_reduce == DType::fp32));
    CHECK((titan.parallel.root_unit && !of("torchtitan", "2025-08", text).parallel.root_unit));
    CHECK((titan.training.recompute_products && !plain.training.recompute_products));
    CHECK((titan.training.recompute_early_stop && !of("torchtitan", "2025-09", text).training.recompute_early_stop));
  }
  CHECK(of("pytorch-fsdp", "2024-06", sharded).parallel.unit_copies == UnitCopies::flat);
  const std::string narrow = with("training", "\"precision\": \"fp8\"", on("dgx-h100", sharded));
  CHECK(of("torchtitan", "2025-03", narrow).training.fusion.name == "compiled-blocks");
  CHECK(of("torchtitan", "2025-04", narrow).training.fusion.name == "compiled");
  CHECK(of("pytorch-fsdp", "2024-06", narrow).training.fusion.name == "eager");
  CHECK(of("pytorch-fsdp", "2024-07", narrow).training.fusion.name == "compiled-blocks");
  CHECK(of("pytorch-fsdp", "", with("parallel", "\"zero_stage\": 3")).parallel.overlap_grad_reduce == false);  // behind the last backward pass
  CHECK(of("pytorch-fsdp", "", sharded).parallel.overlap_grad_reduce);
}

TEST_CASE("DeepSpeed sums gradients of bf16 weights in bf16 under ZeRO since the end of January 2023, else in fp32") {
  const auto gradients = [](const std::string& month, int zero_stage, const std::string& precision = "bf16") {
    const std::string fields = "\"precision\": \"" + precision + "\"";
    return of("megatron-deepspeed", month, with("parallel", "\"zero_stage\": " + std::to_string(zero_stage), with("training", fields)))
        .training.dtypes.gradients;
  };
  for (const char* month : {"2023-02", "2023-11", ""}) {
    CHECK(gradients(month, 1) == DType::bf16);
    CHECK(gradients(month, 0) == DType::fp32);
    CHECK(gradients(month, 1, "fp16") == DType::fp16);
    CHECK(gradients(month, 1, "fp32") == DType::fp32);
  }
  const std::string gaudi = with("parallel", "\"zero_stage\": 1", with("training", "\"precision\": \"bf16\"", on("hls-gaudi2")));
  CHECK(of("megatron-deepspeed", "2024-03", gaudi).training.dtypes.gradients == DType::fp32);  // BF16_Optimizer
  CHECK(gradients("2023-01", 1) == DType::fp32);
  CHECK(gradients("2022-03", 1) == DType::fp32);
}

TEST_CASE("DeepSpeed's gradients in 8 and 4 bits are those of its bf16 engine") {
  const auto dtypes = [](const std::string& precision, const std::string& preset, const char* stage) {
    const std::string text = with("training", "\"precision\": \"" + precision + "\"", on(preset, with("parallel", "\"zero_stage\": " + std::string(stage))));
    const std::string noted = R"("stack": {"name": "megatron-deepspeed", "as_of": "2024-03", "rules": "note"})";
    return read(with_top(noted, text)).training.dtypes;
  };
  for (const char* stage : {"0", "1"}) {
    for (const char* precision : {"fp8", "fp8_block", "mxfp8", "nvfp4"}) {
      INFO(precision << ", ZeRO " << stage);
      const DTypes narrow = dtypes(precision, "dgx-b200", stage), wide = dtypes("bf16", "dgx-b200", stage);
      CHECK((narrow.gradients == wide.gradients && narrow.gradient_reduce == wide.gradient_reduce));
      CHECK(narrow.gradient_reduce == DType::bf16);
    }
    const DTypes gaudi = dtypes("fp8", "hls-gaudi2", stage);
    CHECK((gaudi.gradients == DType::fp32 && gaudi.gradient_reduce == DType::bf16));
  }
}

TEST_CASE("DeepSpeed's engine of pipelines refers to the logits of two micro-batches, where it runs") {
  const auto kept = [](const std::string& stack, const std::string& parallel) {
    return of(stack, "", with("parallel", parallel)).stack.facts.kept_outputs;
  };
  CHECK(kept("megatron-deepspeed", "\"zero_stage\": 1") == 2);
  CHECK(kept("megatron-deepspeed", "\"zero_stage\": 0") == 2);
  CHECK(kept("megatron-core", "\"zero_stage\": 1") == 0);
  const std::string whole = with("parallel", "\"zero_stage\": 3", kData);
  CHECK(of("megatron-deepspeed", "", whole).stack.facts.kept_outputs == 0);
}

TEST_CASE("DeepSpeed's and Aleph Alpha's collectives around the update copy 5e8 elements, whatever the fusion set") {
  const auto elements = [](const std::string& stack, const std::string& fields) {
    return of(stack, "2023-11", with("parallel", "\"zero_stage\": 1", with("training", fields))).training.fusion.collective_elements;
  };
  for (const char* fields : {"\"precision\": \"bf16\"", "\"fusion\": \"eager\"", "\"fusion\": \"megatron\""}) {
    CHECK(elements("megatron-deepspeed", fields) == 500'000'000);
    CHECK(elements("aleph-scaling", fields) == 500'000'000);
    CHECK(elements("megatron-core", fields) == 0);
  }
  CHECK(elements("megatron-core", "\"fusion\": \"megatron-2021\"") == 0);
}

TEST_CASE("Megatron-Core weighs what an expert's activation gives since April 2025, others the rows that come back") {
  const auto weighs = [](const std::string& stack, const std::string& month) {
    const std::string experts = with("model", "\"moe\": {\"num_experts\": 4, \"experts_per_token\": 2}", with("parallel", "\"sequence_parallel\": true"));
    return of(stack, month, experts).training.fusion.weighted_activations;
  };
  for (const char* stack : {"megatron-core", "nemo"}) {
    CHECK_FALSE(weighs(stack, "2025-03"));
    CHECK(weighs(stack, "2025-04"));
    CHECK(weighs(stack, ""));
  }
  CHECK_FALSE(weighs("tandem", ""));
  CHECK_FALSE(weighs("megatron-deepspeed", ""));
  CHECK_FALSE(of("megatron-core").training.fusion.weighted_activations);
}

TEST_CASE("Megatron-LM interleaves whole groups of micro-batches alone before November 2024") {
  const auto plan = [](int micro_batches) {
    return bent("\"global_batch_size\": 16", "\"global_batch_size\": " + std::to_string(4 * micro_batches),
                with("parallel", "\"schedule\": \"interleaved\", \"virtual_pipeline\": 2", bent("\"pipeline\": 2, \"data\": 2", "\"pipeline\": 4")));
  };
  CHECK_NOTHROW(of("megatron-core", "2024-10", plan(8)));
  CHECK_NOTHROW(of("megatron-core", "2024-11", plan(9)));
  try {
    of("megatron-core", "2024-10", plan(9));
    FAIL("nine micro-batches on four stages were taken");
  } catch (const InfeasibleError& e) {
    CHECK(e.problems().front().field == "training.global_batch_size");
    CHECK(e.problems().front().remedy.find("multiple") != std::string::npos);
  }
}

TEST_CASE("PyTorch's attention without a score matrix is FlashAttention 1 before release 2.2 of January 2024") {
  const auto kernel = [](const std::string& stack, const std::string& month) {
    return of(stack, month, with("parallel", "\"zero_stage\": 3", kData)).training.attention_kernel;
  };
  CHECK(kernel("pytorch-fsdp", "2023-10") == AttentionKernel::flash1);
  CHECK(kernel("pytorch-fsdp", "2024-01") == AttentionKernel::flash1);
  CHECK(kernel("pytorch-fsdp", "2024-02") == AttentionKernel::flash2);
  CHECK(kernel("fms-fsdp", "2024-05") == AttentionKernel::flash2);
  CHECK(kernel("llm-foundry", "2023-10") == AttentionKernel::triton);  // calls flash-attn's kernel itself
  const std::string flash = with("training", "\"flash_attention\": true", kData);
  CHECK(of("pytorch-ddp", "2023-10", flash).training.attention_kernel == AttentionKernel::flash1);
  CHECK(of("pytorch-ddp", "", flash).training.attention_kernel == AttentionKernel::flash2);
  const std::string given = with("training", "\"attention_kernel\": \"flash2\"", flash);
  CHECK(of("pytorch-ddp", "2023-10", given).training.attention_kernel == AttentionKernel::flash2);
}

TEST_CASE("a stack may split embedding, layers, final norm and head evenly, the first stages taking what is left over") {
  const auto split = [](const std::string& stack, int layers, int stages) {
    const std::string text = bent("\"num_layers\": 8", "\"num_layers\": " + std::to_string(layers));
    const std::string parallel = "\"tensor\": 1, \"pipeline\": " + std::to_string(stages) + ", \"data\": " + std::to_string(8 / stages);
    return of(stack, "", bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", parallel, text)).parallel.pipeline_split;
  };
  using Layers = std::vector<std::int64_t>;
  CHECK(split("aleph-scaling", 40, 1).empty());
  CHECK(split("aleph-scaling", 40, 2) == Layers{21, 19});          // 22 and 21 of 43
  CHECK(split("aleph-scaling", 40, 4) == Layers{10, 11, 11, 8});   // 11, 11, 11 and 10
  CHECK(split("aleph-scaling", 41, 4) == Layers{10, 11, 11, 9});   // four times 11
  CHECK(split("aleph-scaling", 8, 4).empty());                     // the last stage would have no layer
  CHECK(split("megatron-core", 40, 4).empty());
}

TEST_CASE("torchtitan's tensor ranks take the loss of their share of the vocabulary, other eager PyTorch of all of it") {
  const std::string cut = bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"tensor\": 2, \"data\": 4");
  CHECK(of("torchtitan", "", cut).training.fusion.name == "eager-loss-parallel");
  CHECK_FALSE(of("torchtitan", "", cut).training.fusion.whole_logits);
  CHECK(of("pytorch-fsdp", "", with("parallel", "\"zero_stage\": 3", kData)).training.fusion.whole_logits);
}

TEST_CASE("flash attention is a default where a framework's kernels have the device, the type and the positions") {
  const auto flash = [](const std::string& stack, const std::string& month, const std::string& text) {
    return of(stack, month, text).training.flash_attention;
  };
  CHECK(flash("megatron-core", "", kGoodPlan));
  CHECK_FALSE(flash("megatron-core", "2023-12", kGoodPlan));
  CHECK_FALSE(flash("megatron-core", "", on("dgx-1v", with("training", "\"precision\": \"fp16\""))));
  CHECK(flash("pytorch-fsdp", "", kData));
  CHECK_FALSE(flash("pytorch-fsdp", "2023-02", kData));
  CHECK(flash("tandem", "", on("hls-gaudi2")));
  CHECK_FALSE(flash("tandem", "", on("hls-gaudi1")));
  CHECK_FALSE(flash("tandem", "", with("training", "\"precision\": \"fp32\"")));
  CHECK_FALSE(flash("tandem", "", with("model", R"("family": "t5")")));  // relative positions are added to a score matrix
  CHECK(flash("tandem", "", with("model", R"("family": "t5", "position_embedding": "learned")")));
}

TEST_CASE("a layer's recomputation stops early where PyTorch's own checkpoints, XLA's and the runtime here do it") {
  for (const char* stack : {"pytorch-fsdp", "pytorch-ddp", "jax", "tandem"}) CHECK(of(stack, "", kData).training.recompute_early_stop);
  for (const char* stack : {"megatron-core", "megatron-deepspeed"}) CHECK_FALSE(of(stack, "", kData).training.recompute_early_stop);
  CHECK_FALSE(of("pytorch-ddp", "2023-09", kData).training.recompute_early_stop);
}

TEST_CASE("Trainium keeps fp32 masters and gradients only with ZeRO 1, and the first Megatron reference nowhere") {
  const std::string trn = on("trn1.32xlarge", bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"tensor\": 8"));
  for (const Plan& plan : {of("neuron-megatron", "", with("training", "\"flash_attention\": false", trn)), of("neuronx", "", trn)}) {
    const DTypes& types = plan.training.dtypes;
    CHECK((types.gradients == DType::bf16 && types.master == DType::bf16 && types.optimizer_state == DType::bf16));
  }
  const DTypes sharded = of("neuronx", "", with("parallel", "\"zero_stage\": 1", trn)).training.dtypes;
  CHECK((sharded.gradients == DType::fp32 && sharded.master == DType::fp32));
}

TEST_CASE("explain can say which rule filled a field, and since when") {
  const Plan plan = of("torchtitan", "2025-09", kData);
  const auto& defaults = plan.stack.facts.defaults;
  const auto stop = std::find_if(defaults.begin(), defaults.end(), [](const StackDefault& d) { return d.field == "training.recompute_early_stop"; });
  REQUIRE(stop != defaults.end());
  CHECK(stop->since == Month{2025, 9});
  CHECK(stop->source.find("25413d224") != std::string::npos);
  const auto remembered = [](const Plan& p, const char* field) {
    const auto& all = p.stack.facts.defaults;
    return std::count_if(all.begin(), all.end(), [&](const StackDefault& d) { return d.field == field; });
  };
  for (const char* field : {"training.fusion", "parallel.overlap_p2p", "parallel.scatter_gather_tensors_in_pipeline"}) {
    CHECK(remembered(of("megatron-core"), field) == 1);
    CHECK(remembered(of("megatron-core", "", with("parallel", "\"overlap_p2p\": true, \"scatter_p2p\": true",
                                                  with("training", "\"fusion\": \"eager\""))), field) == 0);
  }
  CHECK(remembered(of("megatron-core", "2023-09", kInterleaved), "parallel.overlap_p2p") == 1);
}

TEST_CASE("no condition of a stack names a preset, a vocabulary, a model or its family") {
  for (const std::string& name : preset_names("models/stacks")) {
    INFO(name);
    const nlohmann::json file = read_json(find_preset("models/stacks", name));
    for (const auto& [key, list] : file.items()) {
      if (!list.is_array()) continue;
      for (const nlohmann::json& entry : list) {
        if (!entry.is_object()) continue;
        for (const char* guess : {"cluster.preset", "model.vocab_size", "model.name", "model.family"})
          CHECK_FALSE(entry.value("when", nlohmann::json::object()).contains(guess));
        if (key != "facts") CHECK_FALSE(entry["source"].get<std::string>().empty());
      }
    }
  }
}

TEST_CASE("a stack whose defaults are not of their form is refused, and told what is wrong with them") {
  const auto [defaults, wrong] = GENERATE(table<std::string, std::string>({
      {R"({})", "is not a list"},
      {R"([{"field": "training.clip_grad", "value": 2}])", "an entry lacks source"},
      {R"([{"field": "training.absent", "value": 2, "source": "s", "verified": true}])", "is no field of a plan"},
      {R"([{"field": "training.seq_length", "value": 2, "source": "s", "verified": true}])", "every plan gives this field"},
      {R"([{"field": "training.precision", "value": "fp15", "source": "s", "verified": true}])", "the value"},
      {R"([{"field": "training.clip_grad", "value": 2, "wenn": {}, "source": "s", "verified": true}])", "is no key"},
      {R"([{"field": "training.clip_grad", "value": 2, "since": "2024", "source": "s", "verified": true}])", "since is no month"},
      {R"([{"field": "training.clip_grad", "value": 2, "since": "2024-02", "until": "2024-02", "source": "s", "verified": true}])", "until must be behind since"},
      {R"([{"field": "training.clip_grad", "value": 2, "when": {"absent": {"min": 1}}, "source": "s", "verified": true}])", "no field \"absent\""},
      {R"([{"field": "training.clip_grad", "value": 2, "when": {"cluster.preset": {"allowed": ["dgx-h100"]}}, "source": "s", "verified": true}])", "may not name cluster.preset"},
      {R"([{"field": "training.clip_grad", "value": 2, "when": {"model.vocab_size": {"max": 1}}, "source": "s", "verified": true}])", "may not name model.vocab_size"},
      {R"([{"field": "training.clip_grad", "value": 2, "when": [], "source": "s", "verified": true}])", "must be an object"},
      {R"([{"field": "training.clip_grad", "value": 2, "when": {"training.seq_length": 3}, "source": "s", "verified": true}])", "must be an object"},
      {R"([{"field": "training.clip_grad", "value": 2, "when": {"training.seq_length": {"max": "1"}}, "source": "s", "verified": true}])", "max must be a number"},
      {R"([{"field": "training.clip_grad", "value": 2, "when": {"training.seq_length": {"allowed": 1}}, "source": "s", "verified": true}])", "allowed must be a list"},
      {R"([{"field": "training.clip_grad", "value": 2, "when": {"training.seq_length": {"multiple_of": 0}}, "source": "s", "verified": true}])", "multiple_of must be"},
  }));
  tests::check_refused("defaults", defaults, wrong, [] { of("odd"); });
}

TEST_CASE("every stack is read, at its newest and at an old date") {
  for (const std::string& name : preset_names("models/stacks"))
    for (const char* month : {"", "2019-01"}) {
      INFO(name << " " << month);
      try {
        of(name, month);
      } catch (const InfeasibleError&) {  // its rules may refuse this plan
      }
    }
}
