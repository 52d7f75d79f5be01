// What plans have by their stack and its date where they do not say it themselves.

#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/fields/fusion_file.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/stack_text.hpp"
#include "tests/odd_stack.hpp"

using namespace tandem;
using namespace tandem::test;

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

TEST_CASE("vocabularies are padded by frameworks that pad them") {
  for (const char* stack : {"megatron-core", "megatron-deepspeed"}) CHECK(of(stack, "", kData).padded_vocab_size() == 1024);
  for (const char* stack : {"pytorch-fsdp", "torchtitan", "llm-foundry", "pytorch-ddp", "jax", "maxtext"})
    CHECK(of(stack, "", kData).padded_vocab_size() == 1000);
  CHECK(of("torchtitan").padded_vocab_size() == 1008);  // two tensor ranks
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
