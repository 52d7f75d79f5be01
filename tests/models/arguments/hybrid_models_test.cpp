// Hybrid models, gated delta nets, sparse attention and yarn in Megatron-LM's options.

#include <nlohmann/json.hpp>

#include "models/arguments/exported_options.hpp"
#include "models/arguments/hybrid_pattern.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/cases.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::tests;
using nlohmann::json;

namespace {

const std::string kStack = " --spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec ";

/// Options of NVIDIA/Megatron-LM d98e8a64, examples/post_training/modelopt/conf, with the program's and the vocabulary's beside them.
std::string published(const std::string& program, const std::string& options) {
  return "torchrun --nnodes 8 --nproc-per-node 8 " + program + " --micro-batch-size 1 --global-batch-size 64 --bf16 --disable-bias-linear "
         "--untie-embeddings-and-output-weights --normalization RMSNorm --seq-length 4096 --make-vocab-size-divisible-by 1 " + options;
}

Plan plan_of(const std::string& options) { return parse_plan(imported(options).document->dump(), "plan.json", PlanContext{generation_of}); }

std::int64_t parameters(const Plan& plan) { return count_parameters(plan.model, plan.model.vocab_size).total; }

std::string refused(const std::string& more) {
  const std::vector<Problem> problems = arguments::refusals(imported(some_options(more)));
  return problems.empty() ? "" : problems.front().message();
}

json said(const std::string& more, const std::string& part) {
  return json::parse(imported(some_options(more)).document->dump())["model"].value(part, json());
}

/// Fields of the options' plan that its exported command does not say.
std::vector<std::string> lost(const std::string& options) {
  const arguments::Table table = arguments::read_table("megatron-core");
  const Plan plan = plan_of(options);
  return arguments::unsaid_fields(plan, arguments::export_plan(plan, table, 8), table, PlanContext{generation_of});
}

}  // namespace

TEST_CASE("patterns of hybrid models have the parameters that their models have on the hub") {
  // Files of nvidia/Nemotron-H-8B-Base-8K and nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16; the latter's also hold 23 x 128 correction biases.
  const std::string old = published("pretrain_hybrid.py", kStack + "--use-rotary-position-embeddings --squared-relu --hidden-size 4096 --ffn-hidden-size 21504 "
      "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --hybrid-layer-pattern M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M- "
      "--mamba-head-dim 64 --mamba-num-heads 128 --mamba-num-groups 8 --mamba-state-dim 128 --max-position-embeddings 8192 --vocab-size 131072");
  CHECK(parameters(plan_of(old)) == 8'100'852'736);
  CHECK(lost(old) == std::vector<std::string>{});
  const std::string nano = published("pretrain_hybrid.py", kStack + "--num-experts 128 --moe-router-topk 6 --moe-router-score-function sigmoid "
      "--moe-router-topk-scaling-factor 2.5 --moe-router-enable-expert-bias --moe-shared-expert-intermediate-size 3712 --moe-grouped-gemm "
      "--mamba-num-heads 64 --mamba-head-dim 64 --hybrid-layer-pattern MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME --position-embedding-type none "
      "--squared-relu --hidden-size 2688 --num-attention-heads 32 --group-query-attention --num-query-groups 2 --ffn-hidden-size 1856 --kv-channels 128 "
      "--max-position-embeddings 8192 --vocab-size 131072 --moe-token-dispatcher-type alltoall");
  CHECK(parameters(plan_of(nano)) == 31'577'940'288 - 23 * 128);
  CHECK(lost(nano) == std::vector<std::string>{});
}

TEST_CASE("a hybrid pattern says layers, chunks and heads") {
  const json got = json::parse(imported(some_options(kStack + "--pipeline-model-parallel-size 2 --hybrid-layer-pattern M-M|*-M|M-|M*")).document->dump());
  CHECK(got["model"]["num_layers"] == 10);  // not --num-layers' 8
  CHECK(got["model"]["sublayers"] == "mfm");  // the shortest that repeats
  CHECK(got["model"]["recurrence"] == json({{"rule", "mamba2"}, {"heads", 32}, {"key_heads", 8}, {"key_dim", 128}, {"value_dim", 64}, {"conv_bias", true},
                                            {"layers", "raraar"}}));
  CHECK(got["parallel"]["pipeline_split"] == json({3, 3, 2, 2}));
  CHECK(got["parallel"]["virtual_pipeline"] == 2);
  CHECK(lost(some_options(kStack + "--disable-bias-linear --pipeline-model-parallel-size 2 --hybrid-layer-pattern M-M|*-M|M-|M*")) == std::vector<std::string>{});
  CHECK(said(kStack + "--hybrid-override-pattern GGG*", "recurrence")["rule"] == "gated_delta");
  CHECK(said(kStack + "--hybrid-override-pattern GGG*", "recurrence")["heads"] == 32);
  CHECK(said(kStack + "--hybrid-layer-pattern M-*-ME*E --num-experts 8", "moe")["first_dense_layers"] == 4);
  CHECK(said(kStack + "--hybrid-layer-pattern M-*- --num-experts 8", "moe").is_null());  // no layer has experts
}

TEST_CASE("what no plan says of a hybrid model is refused by name") {
  CHECK(refused("--hybrid-layer-pattern M-M* --spec my.module stack").find("a specification of one's own") != std::string::npos);
  CHECK(refused(kStack + "--hybrid-layer-pattern M-X*").find("none of M G * + D - E") != std::string::npos);
  CHECK(refused(kStack + "--hybrid-layer-pattern MG-*").find("Mamba 2 (M) beside gated delta nets (G)") != std::string::npos);
  CHECK(refused(kStack + "--hybrid-layer-pattern MEM- --num-experts 8").find("behind one with experts") != std::string::npos);
  CHECK(refused(kStack + "--hybrid-layer-pattern M-M-/*E").find("multi-token prediction in a hybrid model") != std::string::npos);
  CHECK(refused("--experimental-attention-variant gdn2 --linear-attention-freq 4").find("this variant of attention") != std::string::npos);
}

TEST_CASE("ratios of hybrid layers give the pattern of Megatron-LM's pattern_from_ratios") {
  // Its results, run in Python.
  CHECK(arguments::pattern_of_ratios(24, 0.08, 0.5) == "M-M-M--*M-M-M-M-*M--M-M-");
  CHECK(arguments::pattern_of_ratios(8, 0.25, 0.5) == "M-*-M*--");
  CHECK(arguments::pattern_of_ratios(12, 0.17, 0.4) == "M-M*-M-M*-M-");
  CHECK(arguments::pattern_of_ratios(4, 0, 0) == "MMMM");
  CHECK_THROWS_AS(arguments::pattern_of_ratios(8, 1.5, 0), ConfigError);
  const arguments::ImportedPlan got = imported(some_options("--hybrid-attention-ratio 0.25 --hybrid-mlp-ratio 0.5" + kStack));
  CHECK(json::parse(got.document->dump())["model"]["sublayers"] == "mfmfmmff");
  CHECK(text_of(got.as_of) == "2026-01");  // options of older code
}

// NVIDIA/Megatron-LM 7418b1b8fb (2026-02-26): --hybrid-layer-pattern takes the place of --num-layers and --hybrid-override-pattern;
// 60408d5f12 (2026-04-22): pretrain_mamba.py is pretrain_hybrid.py.
TEST_CASE("hybrid models are exported with the options of the stack's month") {
  const arguments::Table table = arguments::read_table("megatron-core");
  const std::string hybrid = "--hybrid-layer-pattern M-M-M*-- --mamba-num-heads 32 --disable-bias-linear" + kStack;
  json document = json::parse(imported(some_options(hybrid)).document->dump());
  const auto text = [&](const char* month) {
    document["stack"] = {{"name", "megatron-core"}, {"as_of", month}};
    const Plan plan = parse_plan(document.dump(), "plan.json", PlanContext{generation_of});
    const arguments::ExportedOptions made = arguments::export_plan(plan, table, 8);
    CHECK(arguments::unsaid_fields(plan, made, table, PlanContext{generation_of}) == std::vector<std::string>{});
    return made.text;
  };
  CHECK(text("2025-06").find("pretrain_mamba.py \\\n  --num-layers 8 \\\n  --hybrid-override-pattern 'M-M-M*--' \\\n") != std::string::npos);
  CHECK(text("2025-06").find("--spec megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec") != std::string::npos);
  CHECK(text("2026-03").find("pretrain_mamba.py \\\n  --hybrid-layer-pattern 'M-M-M*--' \\\n") != std::string::npos);
  CHECK(text("2026-08").find("pretrain_hybrid.py \\\n  --hybrid-layer-pattern 'M-M-M*--' \\\n") != std::string::npos);
}

TEST_CASE("gated delta nets and indexers of GPT models are read and written") {
  const std::string delta = "--disable-bias-linear --experimental-attention-variant gdn --linear-num-value-heads 16 --linear-num-key-heads 8 ";
  CHECK(said(delta + "--linear-attention-freq 4", "recurrence") == json({{"rule", "gated_delta"}, {"heads", 16}, {"key_heads", 8}, {"key_dim", 128}, {"value_dim", 128},
                                                                         {"conv_width", 4}, {"layers", "rrra"}}));
  CHECK(said(delta + "--linear-attention-freq ([1]*2+[0]*2)*2", "recurrence")["layers"] == "rraa");
  CHECK(said("--linear-attention-freq 4", "recurrence").is_null());  // without the variant, all layers have attention
  for (const char* frequency : {"4", "([1]*2+[0]*2)*2", "[1,0,1,1,1,1,1,1]"}) CHECK(lost(some_options(delta + "--linear-attention-freq " + frequency)) == std::vector<std::string>{});
  const std::string sparse = "--disable-bias-linear --multi-latent-attention --qk-layernorm --normalization RMSNorm --position-embedding-type rope --q-lora-rank 256 "
                             "--experimental-attention-variant dsa --dsa-indexer-n-heads 8 --dsa-indexer-head-dim 64 --dsa-indexer-topk 256 "
                             "--dsa-indexer-loss-coeff 1 --dsa-indexer-use-sparse-loss ";
  CHECK(said(sparse, "indexer") == json({{"heads", 8}, {"head_dim", 64}, {"topk", 256}}));
  CHECK(imported(some_options(sparse)).features.empty());
  CHECK(lost(some_options(sparse)) == std::vector<std::string>{});
}

TEST_CASE("yarn has other options and defaults with latent attention") {
  const std::string latent = "--disable-bias-linear --multi-latent-attention --qk-layernorm --normalization RMSNorm --q-lora-rank 256 --position-embedding-type rope ";
  CHECK(said(latent, "rope_scaling").is_null());  // yarn by a factor of 1 stretches nothing
  CHECK(said(latent + "--rope-type rope --rotary-scaling-factor 40", "rope_scaling").is_null());
  CHECK(said(latent + "--rotary-scaling-factor 40 --mscale 1 --mscale-all-dim 1", "rope_scaling") ==
        json({{"type", "yarn"}, {"factor", 40}, {"original_max_position_embeddings", 4096}, {"mscale_all_dim", 1}}));
  CHECK(imported(some_options(latent + "--rotary-scaling-factor 40 --mscale 1 --mscale-all-dim 1")).features.empty());
  CHECK(imported(some_options(latent + "--rotary-scaling-factor 40")).features.front().name.find("--mscale-all-dim") != std::string::npos);
  CHECK(lost(some_options(latent + "--rotary-scaling-factor 40 --mscale 1 --mscale-all-dim 1")) == std::vector<std::string>{});
  const std::string plain = "--position-embedding-type yarn --rotary-scaling-factor 32 --yarn-beta-slow 2 --no-yarn-correction-range-round-to-int";
  CHECK(said(plain, "rope_scaling") == json({{"type", "yarn"}, {"factor", 32}, {"original_max_position_embeddings", 4096}, {"beta_slow", 2}, {"truncate", false}}));
  CHECK(said(plain, "position_embedding") == "rope");
  CHECK(lost(some_options(plain)) == std::vector<std::string>{});
}

TEST_CASE("moe-layer-recompute adds the experts to what is computed again") {
  const auto modules = [](const std::string& more) {
    return json::parse(imported(some_options("--num-experts 8 --moe-layer-recompute " + more)).document->dump())["training"]["recompute_modules"];
  };
  CHECK(modules("") == json({"core_attention", "moe"}));
  CHECK(modules("--recompute-modules moe_act") == json({"moe_activation", "moe"}));
}
