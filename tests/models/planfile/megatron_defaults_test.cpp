// What plans of Megatron-LM, Megatron-Core and NVIDIA's recipes have by their date where they do not say it themselves.

#include "tests/catch.hpp"
#include "tests/models/planfile/stack_text.hpp"

using namespace tandem;
using namespace tandem::test;

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
  const std::string moe = with("parallel", "\"sequence_parallel\": true", with("model", "\"linear_bias\": false, \"moe\": {\"num_experts\": 4}"));
  const auto bound = [](const std::string& stack, const std::string& text) { return of(stack, "", text).model.moe.rows_bound; };
  CHECK(bound("megatron-core", moe) == 1);
  CHECK(bound("tandem", moe) == 2);
  CHECK(bound("megatron-core", bent("\"num_experts\": 4", "\"num_experts\": 4, \"rows_bound\": 3", moe)) == 3);
  CHECK(bound("megatron-core", on("cpu-host", moe)) == 2);  // trains, and must have room for what the router does
}

TEST_CASE("Megatron-Core weighs what an expert's activation gives since April 2025, others the rows that come back") {
  const auto weighs = [](const std::string& stack, const std::string& month) {
    const std::string experts = with("model", "\"linear_bias\": false, \"moe\": {\"num_experts\": 4, \"experts_per_token\": 2}", with("parallel", "\"sequence_parallel\": true"));
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

TEST_CASE("routers of Megatron-Core have a bias beside biases of other matrices, since September 2025") {
  const std::string moe = "\"moe\": {\"num_experts\": 4}";
  const auto bias = [](const std::string& stack, const std::string& month, const std::string& model) {
    return of(stack, month, with("model", model, with("parallel", "\"sequence_parallel\": true, \"expert_tensor\": 1"))).model.moe.router_bias;
  };
  CHECK_FALSE(bias("megatron-core", "2025-04", moe));
  CHECK(bias("megatron-core", "2025-09", moe));
  CHECK_FALSE(bias("megatron-core", "2025-09", moe + ", \"linear_bias\": false"));
  CHECK_FALSE(bias("megatron-core", "2025-09", "\"moe\": {\"num_experts\": 4, \"router_bias\": false}"));
  CHECK_FALSE(bias("megatron-core", "2025-09", "\"linear_bias\": true"));
  CHECK_FALSE(bias("tandem", "", moe));
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
