// What a plan means where it says nothing, and that a completed plan reads back to itself.

#include <nlohmann/json.hpp>

#include "models/base/presets.hpp"
#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

Plan parsed(const std::string& text) { return parse_plan(text, "test.json"); }

Plan of_family(const std::string& family) { return parsed(with("model", "\"family\": \"" + family + "\"")); }

}  // namespace

TEST_CASE("defaults are those of the schema") {
  const Plan p = parsed(kGoodPlan);
  CHECK(p.model.family == Family::gpt);
  CHECK(p.model.num_kv_heads == 8);
  CHECK(p.model.head_dim == 8);
  CHECK(p.model.ffn_hidden_size == 256);
  CHECK(p.model.pad_vocab_to == 256);
  CHECK(p.padded_vocab_size() == 1024);
  CHECK(p.model.max_position_embeddings == 32);
  CHECK(p.parallel.context == 1);
  CHECK(p.parallel.schedule == ScheduleKind::one_f_one_b);
  CHECK(p.parallel.zero_stage == 0);
  CHECK(p.training.precision == "bf16");
  CHECK(p.training.recompute == Recompute::none);
  CHECK(p.training.dropout.hidden == 0);
  CHECK(p.training.optimizer.kind == OptimizerKind::adamw);
  CHECK(p.training.optimizer.learning_rate.peak == 3e-4);
  CHECK(p.training.optimizer.beta1 == 0.9);
  CHECK(p.training.optimizer.beta2 == 0.95);
  CHECK(p.training.optimizer.epsilon == 1e-8);
  CHECK(p.training.optimizer.weight_decay == 0.1);
  CHECK(p.training.clip_grad == 1.0);
  CHECK(p.stack.name == "tandem");
  CHECK(p.cluster.ranks_per_device == 1);
}

TEST_CASE("a family sets the style of its block") {
  const ModelSpec llama = of_family("llama").model;
  CHECK(llama.activation == Activation::swiglu);
  CHECK(llama.normalization == Normalization::rmsnorm);
  CHECK(llama.position_embedding == PositionEmbedding::rope);
  CHECK(!llama.tie_embeddings);
  CHECK(!llama.linear_bias);
  CHECK(!llama.qkv_bias);
  CHECK(llama.ffn_hidden_size == 192);  // 8 x 64 / 3 = 170.7, rounded up to 64
  CHECK(of_family("bloom").model.position_embedding == PositionEmbedding::alibi);
  CHECK(of_family("bloom").model.embedding_norm);
  CHECK(of_family("bert").model.token_types == 2);
  CHECK(of_family("bert").model.norm_placement == NormPlacement::post);
  const Plan t5 = of_family("t5");
  CHECK(t5.model.num_decoder_layers == 8);
  CHECK(t5.training.decoder_seq_length == 32);
  CHECK(t5.model.position_embedding == PositionEmbedding::relative);
}

TEST_CASE("what a file says goes before what its family says") {
  const Plan p =
      parsed(with("model", R"("family": "llama", "tie_embeddings": true, "qkv_bias": true, "activation": "gelu")"));
  CHECK(p.model.tie_embeddings);
  CHECK(p.model.qkv_bias);
  CHECK(!p.model.linear_bias);
  CHECK(p.model.ffn_hidden_size == 256);
}

TEST_CASE("a precision fills the element types and a file may override each") {
  const DTypes fp32 = parsed(with("training", "\"precision\": \"fp32\"")).training.dtypes;
  CHECK(fp32.compute == DType::fp32);
  CHECK(fp32.master == fp32.weights);
  const DTypes fp64 = parsed(with("training", "\"precision\": \"fp64\"")).training.dtypes;
  CHECK(fp64.optimizer_state == DType::fp64);
  CHECK(fp64.master == fp64.weights);
  const DTypes fp16 = parsed(with("training", "\"precision\": \"fp16\"")).training.dtypes;
  CHECK(fp16.weights == DType::fp16);
  CHECK(fp16.gradients == DType::fp32);
  CHECK(fp16.master == DType::fp32);
  const DTypes fp8 =
      parsed(with("training", "\"precision\": \"fp8\", \"dtypes\": {\"gradient_reduce\": \"bf16\"}")).training.dtypes;
  CHECK(fp8.compute == DType::fp8);
  CHECK(fp8.weights == DType::bf16);
  CHECK(fp8.gradient_reduce == DType::bf16);
  const DTypes blocks = parsed(with("training", "\"precision\": \"fp8_block\"")).training.dtypes;
  CHECK((blocks.compute == DType::fp8_block && blocks.weights == DType::bf16 && blocks.gradients == DType::fp32));
}

TEST_CASE("interleaved without chunks means one layer a chunk") {
  CHECK(parsed(with("parallel", "\"schedule\": \"interleaved\"")).parallel.virtual_pipeline == 4);
}

TEST_CASE("the chunks of a V are two, also where layers do not divide") {
  for (const char* layers : {"8", "7"}) {
    const std::string plan = bent("\"num_layers\": 8", std::string("\"num_layers\": ") + layers);
    CHECK(parsed(with("parallel", "\"schedule\": \"dualpipe-v\"", plan)).parallel.virtual_pipeline == 2);
    for (const std::string schedule : {"zb-v", "v-half", "v-min"})
      CHECK(parsed(with("parallel", "\"schedule\": \"" + schedule + "\"", plan)).parallel.virtual_pipeline == 2);
  }
}

TEST_CASE("a preset is a starting point that the file overrides") {
  const Plan p = parse_plan(R"({"model": {"preset": "mixtral-8x7b", "num_layers": 2, "moe": {"capacity_factor": 1.25}},
    "parallel": {"preset": "fully-sharded", "data": 8, "zero_stage": 2},
    "training": {"preset": "gpt3-175b", "global_batch_size": 8}, "cluster": {"preset": "dgx-a100-80gb", "devices": 8}})",
                            "preset.json");
  CHECK(p.model.num_layers == 2);
  CHECK(p.model.moe.num_experts == 8);
  CHECK(p.model.moe.capacity_factor == 1.25);
  CHECK(p.model.moe.ffn_hidden_size == 14336);
  CHECK(p.parallel.zero_stage == 2);
  CHECK(p.parallel.overlap_param_gather);
  CHECK(p.training.optimizer.learning_rate.peak == 6e-5);
  CHECK(p.training.global_batch_size == 8);
}

TEST_CASE("to recompute blocks, whatever else, is full recomputation") {
  for (const char* modules : {R"(["block"])", R"(["mlp", "block"])"}) {
    const std::string member = R"("recompute": "selective", "recompute_layers": 2, "recompute_modules": )" + std::string(modules);
    const Plan p = parsed(with("training", member));
    CHECK(p.training.recompute == Recompute::full);
    CHECK(p.training.recompute_modules.empty());
    CHECK(p.training.recompute_layers == 2);
  }
  CHECK(parsed(with("training", R"("recompute": "selective", "recompute_modules": ["mlp"])")).training.recompute == Recompute::selective);
}

TEST_CASE("units and names reach the plan") {
  const Plan p =
      parsed(with("parallel", "\"bucket_bytes\": \"25 MiB\", \"notes\": \"why\"",
                  with("cluster", "\"override\": {\"scale_out_per_node\": \"400 Gb/s\", \"ranks_per_device\": 1}")));
  CHECK(p.parallel.bucket_bytes == Bytes(25 << 20));
  CHECK(p.parallel.notes == "why");
  CHECK(p.cluster.override.scale_out_per_node == Bandwidth::bytes_per_second(50e9));
  CHECK(!p.cluster.override.oversubscription);
}

TEST_CASE("a completed plan reads back to itself") {
  for (const std::string& text :
       {kGoodPlan, with("model", "\"family\": \"t5\""),
        with("parallel", "\"pipeline_split\": [3, 5], \"name\": \"split\""),
        with("training", R"("batch_rampup": {"start": 8, "increment": 4, "samples": 1000}, "seed": 9007199254740991)"),
        with("training", R"("recompute": "selective", "dropout": {"hidden": 0.1, "attention": 0.2})"),
        with("cluster",
             R"("override": {"scale_up_per_device": "333.3 GB/s", "oversubscription": 1.5, "devices_per_node": 4})"),
        with("cluster", R"("override": {"algorithms": {"all_reduce": "halving_doubling", "all_to_all": "tree"}})"),
        with_top(R"("notes": "all", "$schema": "plan.schema.json")", test::under("megatron-core", "2023-01"))}) {
    const std::string printed = to_json(parsed(text));
    CHECK(to_json(parsed(printed)) == printed);
  }
}

TEST_CASE("a completed plan prints every default") {
  const nlohmann::json doc = nlohmann::json::parse(to_json(parsed(kGoodPlan)));
  CHECK(doc["parallel"]["schedule"] == "1f1b");
  CHECK(doc["parallel"]["pipeline_split"] == "auto");
  CHECK(doc["training"]["dtypes"]["master"] == "fp32");
  CHECK(doc["model"]["moe"]["num_experts"] == 0);
  CHECK(!doc["training"].contains("batch_rampup"));
  CHECK(!doc["cluster"]["override"].contains("oversubscription"));
  CHECK(!doc["cluster"]["override"].contains("algorithms"));
}
