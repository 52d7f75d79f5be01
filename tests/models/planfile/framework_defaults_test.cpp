// What plans of DeepSpeed, of PyTorch's own frameworks and of other devices' ports have where they do not say it themselves.

#include "tests/catch.hpp"
#include "tests/models/planfile/stack_text.hpp"

using namespace tandem;
using namespace tandem::test;

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

TEST_CASE("torchtitan's tensor ranks take the loss of their share of the vocabulary, other eager PyTorch of all of it") {
  const std::string cut = bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"tensor\": 2, \"data\": 4");
  CHECK(of("torchtitan", "", cut).training.fusion.name == "eager-loss-parallel");
  CHECK_FALSE(of("torchtitan", "", cut).training.fusion.whole_logits);
  CHECK(of("pytorch-fsdp", "", with("parallel", "\"zero_stage\": 3", kData)).training.fusion.whole_logits);
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
