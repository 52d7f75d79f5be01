// Rule sets of frameworks: what each refuses is data, and so is why.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

/// Fields that `stack` refuses in a plan, in the order of its rules.
std::vector<std::string> refused(const std::string& text, const std::string& stack) {
  std::vector<std::string> fields;
  for (const Problem& p : stack_problems(parse_plan(text, "stack.json"), stack)) fields.push_back(p.field);
  return fields;
}

using Fields = std::vector<std::string>;

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
    for (const nlohmann::json& rule : file["rules"]) {
      CHECK(!rule["reason"].get<std::string>().empty());
      CHECK(!rule["source"].get<std::string>().empty());
    }
  }
  CHECK(preset_names("models/stacks") == Fields{"deepspeed-bert", "internevo", "jax", "llm.c", "megatron-core",
                                                "megatron-deepspeed", "neuron-megatron", "neuronx", "pytorch-ddp",
                                                "pytorch-fsdp", "tandem"});
}

TEST_CASE("NVIDIA's benchmarks store weights in 8 bits where they compute so, other plans only if they say it") {
  const auto weights = [](const std::string& training, const std::string& parallel, const std::string& preset = "dgx-h100") {
    const std::string text = with("training", training, with("parallel", parallel, with_top("\"stack\": \"megatron-core\"")));
    return parse_plan(bent("\"dgx-a100-80gb\"", "\"" + preset + "\"", text), "weights.json").training.dtypes.weights;
  };
  const std::string benchmark = R"("overlap_grad_reduce": true, "zero_stage": 1)", fp8 = R"("precision": "fp8")";
  CHECK(weights(fp8, benchmark) == DType::fp8);
  CHECK(weights(fp8, benchmark, "dgx-b200") == DType::fp8);
  CHECK(weights(fp8, R"("overlap_grad_reduce": false, "zero_stage": 1)") == DType::bf16);
  CHECK(weights(fp8, R"("overlap_grad_reduce": true, "zero_stage": 0)") == DType::bf16);
  CHECK(weights(R"("precision": "bf16")", benchmark) == DType::bf16);
  CHECK(weights(fp8 + R"(, "dtypes": {"weights": "bf16"})", benchmark) == DType::bf16);
}

TEST_CASE("Megatron-Core in deterministic mode has what its code sets, and refuses what its code refuses") {
  const auto plan = [](const std::string& training) {
    const std::string text = bent("\"dgx-a100-80gb\"", "\"dgx-h100\"", with("training", training, with_top("\"stack\": \"megatron-core\"")));
    return parse_plan(bent("\"num_layers\"", "\"family\": \"llama\", \"num_layers\"", text), "mode.json");
  };
  const Plan free = plan("\"seed\": 1"), fixed = plan("\"deterministic\": true");
  CHECK((free.training.fusion == FusionSet::megatron_bridge && fixed.training.fusion == FusionSet::transformer_engine));
  CHECK((!free.training.fill_uninitialized_memory && fixed.training.fill_uninitialized_memory));
  CHECK((free.cluster.override.nccl_algo.empty() && fixed.cluster.override.nccl_algo == "ring"));
  CHECK(fixed.ineffective.empty());
  CHECK_FALSE(plan("\"deterministic\": true, \"fill_uninitialized_memory\": false").training.fill_uninitialized_memory);
  CHECK_THROWS_WITH(plan("\"deterministic\": true, \"fusion\": \"megatron-bridge\""), Catch::Contains("cross-entropy unfused"));
  CHECK(parse_plan(to_json(fixed), "again.json").cluster.override.nccl_algo == "ring");
  CHECK_THROWS_AS(parse_plan(with("cluster", "\"override\": {\"nccl_algo\": \"tree\"}"), "tree.json"), ConfigError);
}

TEST_CASE("Tandem's own rule set refuses nothing") {
  CHECK(refused(with("parallel", "\"zero_stage\": 3"), "tandem").empty());
}

TEST_CASE("Megatron-DeepSpeed has ZeRO 2 and 3 only without a pipeline") {
  for (const int stage : {2, 3}) {
    const std::string member = "\"zero_stage\": " + std::to_string(stage);
    CHECK(refused(with("parallel", member), "megatron-deepspeed") == Fields{"parallel.zero_stage"});
    CHECK(refused(with("parallel", member, bent("\"pipeline\": 2, \"data\": 2", "\"data\": 4")), "megatron-deepspeed")
              .empty());
  }
  CHECK(refused(with("parallel", "\"zero_stage\": 1"), "megatron-deepspeed").empty());
}

TEST_CASE("Megatron-DeepSpeed on Gaudi trains in bf16 or fp8, never in fp16") {
  const std::string gaudi = bent("dgx-a100-80gb", "hls-gaudi2");
  CHECK(refused(with("training", "\"precision\": \"fp16\"", gaudi), "megatron-deepspeed") ==
        Fields{"training.precision"});
  CHECK(refused(with("training", "\"precision\": \"fp8\"", gaudi), "megatron-deepspeed").empty());
  CHECK(refused(with("training", "\"precision\": \"fp16\""), "megatron-deepspeed").empty());
}

TEST_CASE("Ulysses in Megatron-DeepSpeed goes with neither tensor nor pipeline parallelism") {
  const std::string shared = bent("\"data\": 2", "\"data\": 1, \"context\": 2, \"context_mode\": \"ulysses\"");
  CHECK(refused(shared, "megatron-deepspeed") == Fields{"parallel.tensor", "parallel.pipeline"});
}

TEST_CASE("a rule about a derived number names the field to change") {
  const std::string uneven = bent("\"pipeline\": 2, \"data\": 2", "\"pipeline\": 4, \"schedule\": \"interleaved\"",
                                  bent("\"global_batch_size\": 16", "\"global_batch_size\": 12"));
  CHECK(refused(uneven, "megatron-deepspeed") == Fields{"training.global_batch_size"});
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

TEST_CASE("a GPT of Megatron-LM on an A100 drops 10 % unless it says what it drops, others nothing") {
  const auto dropout = [](const std::string& text) { return parse_plan(text, "stack.json").training.dropout; };
  for (const char* stack : {"megatron-core", "megatron-deepspeed"}) {
    INFO(stack);
    const std::string plan = with_top("\"stack\": \"" + std::string(stack) + "\"");
    CHECK(dropout(plan).hidden == 0.1);
    CHECK(dropout(plan).attention == 0.1);
    const Dropout given = dropout(with("training", "\"dropout\": {\"hidden\": 0.0, \"attention\": 0.2}", plan));
    CHECK(given.hidden == 0);
    CHECK(given.attention == 0.2);
    CHECK(dropout(with("training", "\"dropout\": {\"hidden\": 0.0}", plan)).attention == 0.1);
    CHECK(dropout(with("model", "\"family\": \"llama\"", plan)).hidden == 0);
    CHECK(dropout(bent("dgx-a100-80gb", "dgx-h100", plan)).hidden == 0);
  }
  const std::string data_parallel = bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"data\": 8");
  CHECK(dropout(with_top("\"stack\": \"pytorch-ddp\"", data_parallel)).hidden == 0);
}

TEST_CASE("experts of Megatron-Core on GPUs get even shares, others have room for uneven ones") {
  const auto bound = [](const std::string& text) { return parse_plan(text, "moe.json").model.moe.rows_bound; };
  const std::string moe = with("parallel", "\"sequence_parallel\": true", with("model", "\"moe\": {\"num_experts\": 4}"));
  const std::string own = with_top("\"stack\": \"megatron-core\"", moe);
  CHECK(bound(own) == 1);
  CHECK(bound(moe) == 2);
  CHECK(bound(bent("\"num_experts\": 4", "\"num_experts\": 4, \"rows_bound\": 3", own)) == 3);
  CHECK(bound(bent("dgx-a100-80gb", "gb200-nvl72", own)) == 1);
  CHECK(bound(bent("dgx-a100-80gb", "cpu-host", own)) == 2);  // trains, and must have room for what the router does
}

TEST_CASE("gradients of NVIDIA's benchmarks are of 16 bits, those of Megatron-LM's own runs of 32") {
  const auto types = [](const std::string& text) { return parse_plan(text, "types.json").training.dtypes; };
  const std::string own = with_top("\"stack\": \"megatron-core\"",
                                   with("parallel", "\"overlap_grad_reduce\": true", bent("dgx-a100-80gb", "dgx-h100")));
  for (const std::string& text : {own, with("training", "\"precision\": \"fp8\"", own), with("parallel", "\"zero_stage\": 1", own)}) {
    CHECK(types(text).gradients == DType::bf16);
    CHECK(types(text).gradient_reduce == DType::bf16);
    CHECK(types(text).master == DType::fp32);
  }
  CHECK(types(with("training", "\"dtypes\": {\"gradients\": \"fp32\"}", own)).gradients == DType::fp32);
  CHECK(types(with("training", "\"precision\": \"fp16\"", own)).gradients == DType::fp16);
  CHECK(types(bent("\"overlap_grad_reduce\": true", "\"overlap_grad_reduce\": false", own)).gradients == DType::fp32);
  CHECK(types(bent("dgx-h100", "dgx-a100-80gb", own)).gradients == DType::fp32);
  CHECK(types(with("parallel", "\"zero_stage\": 3", own)).gradients == DType::fp32);
}

TEST_CASE("Megatron-Core sums an input's gradient beside its matrix' where one queue keeps the order of kernels") {
  const auto beside = [](const std::string& text) { return parse_plan(text, "sums.json").parallel.overlap_tensor_sum; };
  const std::string own = with_top("\"stack\": \"megatron-core\"");
  CHECK(beside(own));
  CHECK(beside(bent("dgx-a100-80gb", "dgx-h100", own)));
  CHECK(beside(with("training", "\"precision\": \"fp16\"", bent("dgx-a100-80gb", "dgx-h100", own))));
  CHECK_FALSE(beside(kGoodPlan));
  CHECK_FALSE(beside(with("parallel", "\"overlap_tensor_sum\": false", own)));
  CHECK_FALSE(beside(bent("dgx-a100-80gb", "dgx-b200", own)));
  CHECK_FALSE(beside(with("training", "\"precision\": \"fp16\"", own)));
  CHECK_FALSE(beside(with("parallel", "\"zero_stage\": 3", own)));
  CHECK_FALSE(beside(bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"data\": 8", own)));
}

TEST_CASE("PyTorch's op-level recomputation repeats every second product") {
  const std::string plan = bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"data\": 8, \"zero_stage\": 3");
  CHECK_FALSE(parse_plan(plan, "own.json").training.recompute_products);
  CHECK(parse_plan(with_top("\"stack\": \"pytorch-fsdp\"", plan), "fsdp.json").training.recompute_products);
}

TEST_CASE("a layer's recomputation stops early where PyTorch's own checkpoints, XLA's and the runtime here do it") {
  const auto stops = [](const std::string& stack, const std::string& plan) {
    return parse_plan(with_top("\"stack\": \"" + stack + "\"", plan), "stack.json").training.recompute_early_stop;
  };
  const std::string alone = bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"data\": 8");
  CHECK(parse_plan(alone, "own.json").training.recompute_early_stop);
  for (const char* stack : {"pytorch-fsdp", "pytorch-ddp", "jax"}) CHECK(stops(stack, alone));
  for (const char* stack : {"megatron-core", "megatron-deepspeed"}) CHECK_FALSE(stops(stack, alone));
}

TEST_CASE("Trainium keeps fp32 masters and gradients only with ZeRO 1, and the first Megatron reference nowhere") {
  const auto types = [](const std::string& text) { return parse_plan(text, "trn.json").training.dtypes; };
  const std::string bf16 = with("training", "\"precision\": \"bf16\"", kTrainium);
  const std::string megatron = with_top("\"stack\": \"neuron-megatron\"", bf16), later = with_top("\"stack\": \"neuronx\"", bf16);
  for (const std::string& whole : {megatron, bent("\"data\": 64", "\"data\": 64, \"zero_stage\": 0", later)}) {
    CHECK(types(whole).gradients == DType::bf16);
    CHECK(types(whole).master == DType::bf16);
    CHECK(types(whole).optimizer_state == DType::bf16);
  }
  const DTypes sharded = types(bent("\"data\": 64", "\"data\": 64, \"zero_stage\": 1", later));
  CHECK(sharded.gradients == DType::fp32);
  CHECK(sharded.master == DType::fp32);
}

TEST_CASE("every default of a stack says who says so") {
  for (const std::string& name : preset_names("models/stacks")) {
    const nlohmann::json file = read_json(find_preset("models/stacks", name));
    for (const nlohmann::json& entry : file.value("defaults", nlohmann::json::array())) {
      INFO(name + ": " + entry.dump());
      CHECK(!entry["source"].get<std::string>().empty());
      CHECK(entry["verified"].is_boolean());
    }
  }
}

TEST_CASE("a refusal names the rule's reason, its source and what works") {
  const Plan plan = parse_plan(bent("\"data\": 64", "\"data\": 32, \"pipeline\": 2", kTrainium), "trn.json");
  const Problem p = stack_problems(plan, "neuron-megatron").front();
  CHECK(p.message() ==
        "trn.json: parallel.pipeline = 2: refused by stack neuron-megatron: pipeline parallelism is not supported "
        "(AWS Neuron documentation: Megatron-LM GPT pretraining tutorial); use 1");
}

TEST_CASE("a plan has what its stack does unless it says otherwise") {
  const auto types = [](const std::string& text) { return parse_plan(text, "types.json").training.dtypes; };
  const std::string fp16 = with("training", "\"precision\": \"fp16\""), own = with_top("\"stack\": \"megatron-deepspeed\"", fp16);
  CHECK(types(fp16).gradients == DType::fp32);
  CHECK(types(own).gradients == DType::fp16);
  CHECK(types(own).gradient_reduce == DType::fp16);
  CHECK(types(own).master == DType::fp32);
  CHECK(types(with("training", "\"dtypes\": {\"gradients\": \"fp32\"}", own)).gradients == DType::fp32);
  CHECK(types(with_top("\"stack\": \"megatron-deepspeed\"", with("training", "\"precision\": \"bf16\""))).gradients == DType::fp32);
  const std::string ddp = with_top("\"stack\": \"pytorch-ddp\"", bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"data\": 8"));
  CHECK(parse_plan(ddp, "ddp.json").parallel.overlap_grad_reduce);
  CHECK_FALSE(parse_plan(with("parallel", "\"overlap_grad_reduce\": false", ddp), "ddp.json").parallel.overlap_grad_reduce);
  const auto reduces_beside = [&](const std::string& stack, const std::string& parallel) {
    const std::string text = bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", parallel);
    return parse_plan(with_top("\"stack\": \"" + stack + "\"", text), "sharded.json").parallel.overlap_grad_reduce;
  };
  const std::string eight = bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"data\": 8");
  const std::string sharded = with_top("\"stack\": \"pytorch-fsdp\"", eight);
  CHECK(types(sharded).gradient_reduce == DType::bf16);  // LLM Foundry's, of GPTs
  CHECK(types(sharded).gradients == DType::fp32);
  const auto llama = [&](const std::string& vocabulary, const std::string& precision = "bf16", const std::string& on = "dgx-a100-80gb") {
    const std::string text = with("training", "\"precision\": \"" + precision + "\"", with("model", "\"family\": \"llama\"", sharded));
    return parse_plan(bent("dgx-a100-80gb", on, bent("1000", vocabulary, text)), "llama.json");
  };
  CHECK(llama("32000").training.dtypes.gradient_reduce == DType::bf16);  // fms-fsdp's
  CHECK(llama("128256").training.dtypes.gradient_reduce == DType::fp32);  // torchtitan's
  CHECK(llama("32000").parallel.unit_copies == UnitCopies::flat);
  CHECK(llama("128256").parallel.unit_copies == UnitCopies::per_parameter);
  CHECK_FALSE(llama("32000").parallel.root_unit);
  CHECK(llama("128256").parallel.root_unit);  // torchtitan's of 2024
  CHECK_FALSE(llama("128256", "bf16", "dgx-b200").parallel.root_unit);
  CHECK(llama("32000").training.fusion == FusionSet::compiled_blocks);
  CHECK(llama("128256").training.fusion == FusionSet::eager);
  CHECK(llama("128256", "fp8", "dgx-h100").training.fusion == FusionSet::compiled_blocks);
  CHECK(llama("128256", "fp8", "dgx-h200").training.fusion == FusionSet::compiled);
  CHECK(parse_plan(sharded, "gpt.json").parallel.unit_copies == UnitCopies::flat);
  CHECK(parse_plan(sharded, "gpt.json").training.flash_attention);
  CHECK(parse_plan(eight, "gpt.json").training.flash_attention);
  CHECK(parse_plan(bent("dgx-a100-80gb", "hls-gaudi2", eight), "gaudi.json").training.flash_attention);
  CHECK_FALSE(parse_plan(bent("dgx-a100-80gb", "hls-gaudi1", eight), "gaudi.json").training.flash_attention);
  CHECK_FALSE(llama("32000", "fp32").training.flash_attention);  // its kernels are of 16 and 8 bits
  CHECK_FALSE(llama("32000", "fp16", "dgx-1v").training.flash_attention);  // and of Ampere on
  CHECK_FALSE(parse_plan(with("training", "\"flash_attention\": false", sharded), "scores.json").training.flash_attention);
  // Relative positions, which the family says and not the file, are added to a score matrix.
  CHECK_FALSE(parse_plan(with("model", R"("family": "t5")"), "t5.json").training.flash_attention);
  CHECK(parse_plan(with("model", R"("family": "t5", "position_embedding": "learned")"), "t5.json").training.flash_attention);
  const auto copies = [&](const std::string& stack, const std::string& training) {
    const std::string three = bent("\"data\": 8", "\"data\": 8, \"zero_stage\": 3", with("training", training, eight));
    return parse_plan(with_top("\"stack\": \"" + stack + "\"", three), "copies.json").parallel.unit_copies;
  };
  const std::string operations = "\"recompute\": \"selective\", \"recompute_modules\": [\"operations\"]";
  CHECK(copies("megatron-core", operations) == UnitCopies::per_parameter);  // PaxML's
  CHECK(copies("megatron-core", "\"recompute\": \"selective\"") == UnitCopies::none);
  CHECK(copies("megatron-core", "\"recompute\": \"none\", \"recompute_modules\": [\"operations\"]") == UnitCopies::none);
  CHECK(copies("jax", operations) == UnitCopies::flat);
  CHECK(reduces_beside("pytorch-fsdp", "\"data\": 8, \"zero_stage\": 3"));
  CHECK_FALSE(reduces_beside("pytorch-fsdp", "\"pipeline\": 2, \"data\": 4, \"zero_stage\": 3"));  // behind the last backward pass
  CHECK(reduces_beside("megatron-deepspeed", "\"data\": 8, \"zero_stage\": 3"));
  CHECK_FALSE(reduces_beside("megatron-deepspeed", "\"data\": 8, \"zero_stage\": 2"));
}

TEST_CASE("a stack whose defaults are not of their form is refused, and told what is wrong with them") {
  namespace fs = std::filesystem;
  const auto [defaults, wrong] = GENERATE(table<std::string, std::string>({
      {R"({})", "is not a list"},
      {R"([{"field": "training.clip_grad", "value": 2}])", "lacks its field, value, source or verified"},
      {R"([{"field": "training.absent", "value": 2, "source": "s", "verified": true}])", "needs a field of the plan that may be left out"},
      {R"([{"field": "training.seq_length", "value": 2, "source": "s", "verified": true}])", "needs a field of the plan that may be left out"},
      {R"([{"field": "training.precision", "value": "fp15", "source": "s", "verified": true}])", "the value"},
      {R"([{"field": "training.clip_grad", "value": 2, "wenn": {}, "source": "s", "verified": true}])", "no key \"wenn\""},
      {R"([{"field": "training.clip_grad", "value": 2, "when": {"absent": {"min": 1}}, "source": "s", "verified": true}])", "no field \"absent\""},
      {R"([{"field": "training.clip_grad", "value": 2, "when": [], "source": "s", "verified": true}])", "must be an object"},
      {R"([{"field": "training.clip_grad", "value": 2, "when": {"model.vocab_size": 3}, "source": "s", "verified": true}])", "must be an object"},
      {R"([{"field": "training.clip_grad", "value": 2, "when": {"model.vocab_size": {"max": "1"}}, "source": "s", "verified": true}])", "max must be a number"},
      {R"([{"field": "training.clip_grad", "value": 2, "when": {"model.vocab_size": {"allowed": 1}}, "source": "s", "verified": true}])", "allowed must be a list"},
      {R"([{"field": "training.clip_grad", "value": 2, "when": {"model.vocab_size": {"multiple_of": 0}}, "source": "s", "verified": true}])", "multiple_of must be"},
  }));
  const fs::path folder = fs::temp_directory_path() / ("tandem_stack_" + std::to_string(reinterpret_cast<std::uintptr_t>(&defaults)));
  fs::create_directories(folder / "models/stacks");
  std::ofstream(folder / "models/stacks/odd.json") << R"({"name": "odd", "rules": [], "defaults": )" << defaults << "}";
  setenv("TANDEM_PRESETS", folder.c_str(), 1);
  try {
    parse_plan(with_top("\"stack\": \"odd\""), "plan.json");
    FAIL("nothing was refused");
  } catch (const ConfigError& e) {
    INFO(e.what());
    CHECK(e.problems().front().field == "defaults");
    CHECK(e.problems().front().reason.find(wrong) != std::string::npos);
  }
  unsetenv("TANDEM_PRESETS");
  fs::remove_all(folder);
}

TEST_CASE("a stack that does not say well where layers that are left over go is refused") {
  namespace fs = std::filesystem;
  const std::string remainder = GENERATE(R"("last")", R"({"stages": "first", "source": "s", "verified": true})",
                                         R"({"stages": "last", "verified": true})", R"({"stages": "last", "source": "s"})");
  const fs::path folder = fs::temp_directory_path() / ("tandem_split_" + std::to_string(reinterpret_cast<std::uintptr_t>(&remainder)));
  fs::create_directories(folder / "models/stacks");
  std::ofstream(folder / "models/stacks/odd.json")
      << R"({"name": "odd", "rules": [], "transfers": {"overlap": [], "scatter": false, "source": "s", "verified": true}, "remainder": )"
      << remainder << "}";
  setenv("TANDEM_PRESETS", folder.c_str(), 1);
  try {
    parse_plan(with_top("\"stack\": \"odd\"", bent("\"num_layers\": 8", "\"num_layers\": 7")), "plan.json");
    FAIL("nothing was refused");
  } catch (const ConfigError& e) {
    INFO(e.what());
    CHECK(e.problems().front().field == "remainder");
  }
  unsetenv("TANDEM_PRESETS");
  fs::remove_all(folder);
}

TEST_CASE("the defaults of every stack are read") {
  for (const std::string& name : preset_names("models/stacks")) {
    INFO(name);
    try {
      parse_plan(with_top("\"stack\": \"" + name + "\""), "plan.json");
    } catch (const InfeasibleError&) {  // its rules may refuse this plan
    }
  }
}
