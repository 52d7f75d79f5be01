#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/cases.hpp"

using namespace tandem;
using namespace tandem::tests;
using nlohmann::json;

namespace {

/// A plan's field by its path; null if the plan does not say it.
json said(const std::string& more, std::string path, std::int64_t devices = 0) {
  std::replace(path.begin(), path.end(), '.', '/');
  const json document = json::parse(imported(some_options(more), devices).document->dump());
  const json::json_pointer pointer("/" + path);
  return document.contains(pointer) ? document[pointer] : json();
}

std::string refused(const std::string& more) {
  const std::vector<Problem> problems = arguments::refusals(imported(some_options(more)));
  return problems.empty() ? "" : problems.front().message();
}

}  // namespace

TEST_CASE("arguments of GPT-3 175B give its plan") {
  const json got = json::parse(imported("--nproc_per_node 8 --nnodes 128 --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 "
                                        "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 1536 --train-iters 500000 "
                                        "--adam-beta2 0.95 --init-method-std 0.006 --fp16 --lr 6e-5 --lr-decay-style cosine --min-lr 6e-6 "
                                        "--lr-warmup-fraction .001 --lr-decay-iters 430000 --tensor-model-parallel-size 8 "
                                        "--pipeline-model-parallel-size 16 --vocab-size 50257").document->dump());
  CHECK(got["cluster"] == json({{"preset", "dgx-h100"}, {"devices", 1024}}));
  CHECK(got["stack"] == "megatron-core");
  CHECK(got["model"]["ffn_hidden_size"] == 49152);
  CHECK(got["model"]["pad_vocab_to"] == 1024);
  CHECK(got["parallel"]["zero_stage"] == 0);
  CHECK(got["training"]["precision"] == "fp16");
  CHECK(got["training"]["warmup"] == 430);
  CHECK(got["training"]["dropout"]["hidden"] == 0.1);
  CHECK(got["training"]["weight_decay"] == 0.01);
}

TEST_CASE("options say the fields of docs/coming-from.md") {
  CHECK(said("--swiglu", "model.activation") == "swiglu");
  CHECK(said("--swiglu", "model.ffn_hidden_size") == 2688);  // floor(8 x 1024 / 3 / 64) x 64
  CHECK(said("--group-query-attention --num-query-groups 4", "model.num_kv_heads") == 4);
  CHECK(said("--num-query-groups 4", "model.num_kv_heads").is_null());
  CHECK(said("--disable-bias-linear --add-qkv-bias", "model.linear_bias") == false);
  CHECK(said("--disable-bias-linear --add-qkv-bias", "model.qkv_bias") == true);
  CHECK(said("--window-size 127,0 --window-attn-skip-freq 4", "model.window.size") == 128);
  CHECK(said("--window-size 127,0 --window-attn-skip-freq 4", "model.window.layers") == "wwwf");
  const std::string rope = "--position-embedding-type rope ";  // transformer_config.py: of n layers the last has none
  for (const char* some : {"--no-rope-freq 4", "--no-rope-freq ([0]*3+[1])*2", "--window-size 127,0 --window-attn-skip-freq 4 --no-rope-freq 4"}) {
    CHECK(said(rope + some, "model.window.layers").get<std::string>().substr(0, 4) == "wwwf");
    CHECK(said(rope + some, "model.window.full_rotary") == false);
  }
  CHECK(refused(rope + "--window-size 127,0 --window-attn-skip-freq 2 --no-rope-freq 4").find("not those without a window") != std::string::npos);
  CHECK(said("--num-experts 8 --moe-layer-freq ([0]*1+[1]*7)", "model.moe.first_dense_layers") == 1);
  CHECK(said("--num-experts 8", "parallel.token_dispatcher") == "allgather");
  CHECK(said("--num-experts 8 --moe-router-load-balancing-type none --moe-aux-loss-coeff 0.1", "model.moe.aux_loss") == 0);
  CHECK(said("--num-experts 8 --moe-z-loss-coeff 1e-3", "model.moe.z_loss") == 1e-3);
  CHECK(said("--num-experts 8", "model.moe.z_loss").is_null());
  CHECK(said("--moe-z-loss-coeff 1e-3", "model.moe.z_loss").is_null());
  CHECK(said("--reset-attention-mask --reset-position-ids --eod-mask-loss", "training.documents") == "separate");
  CHECK(said("--reset-attention-mask --reset-position-ids", "training.documents").is_null());
  CHECK(said("--multi-latent-attention --qk-layernorm", "model.head_dim") == 192);
  CHECK(said("--use-distributed-optimizer", "parallel.zero_stage") == 1);
  CHECK(said("--use-megatron-fsdp --use-distributed-optimizer", "parallel.zero_stage") == 3);
  CHECK(said("--use-megatron-fsdp --use-distributed-optimizer", "parallel.overlap_param_gather") == true);
  CHECK(said("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", "parallel.overlap_grad_reduce") == true);
  CHECK(said("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", "parallel.overlap_param_gather") == false);
  CHECK(said("--use-megatron-fsdp --data-parallel-sharding-strategy optim", "parallel.overlap_grad_reduce") == false);
  CHECK(said("--sequence-parallel", "parallel.sequence_parallel") == false);  // one tensor rank
  CHECK(said("--context-parallel-size 2 --cp-comm-type a2a", "parallel.context_mode") == "ulysses");
  const std::string levels = "--context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes ";
  CHECK(said(levels + "2 2", "parallel.context_mode") == "ring");
  CHECK(said(levels + "2 2", "parallel.ulysses") == 2);
  CHECK(said("--context-parallel-size 4 --cp-comm-type p2p", "parallel.ulysses").is_null());
  CHECK(said("--num-distributed-optimizer-instances 4", "parallel.zero_group") == 2);
  CHECK(said("--recompute-activations", "training.recompute") == "selective");
  CHECK(said("--recompute-granularity selective --recompute-modules core_attn moe_act", "training.recompute_modules") == json({"core_attention", "moe_activation"}));
  CHECK(said("--recompute-granularity selective --recompute-modules mlp shared_experts", "training.recompute_modules") == json({"mlp", "shared_experts"}));
  CHECK(said("--fp8-format hybrid --fp8-recipe blockwise", "training.precision") == "fp8_block");
  CHECK(said("--grad-reduce-in-bf16", "training.dtypes.gradients") == "bf16");
  CHECK(said("--attention-backend unfused", "training.flash_attention") == false);
  CHECK(said("--train-samples 6400", "training.steps") == 100);
  CHECK(said("--lr 1e-4 --lr-decay-style WSD --lr-wsd-decay-style linear --train-iters 1000 --lr-wsd-decay-iters 100", "training.decay_start") == 900);
  CHECK(said("", "cluster.devices", 16) == 16);
}

TEST_CASE("a growing batch takes the steps that the frameworks count") {
  // NVIDIA/Megatron-LM: update_train_iters in megatron/training/training.py, run in Python over these arguments.
  const std::string gpt3 = "--global-batch-size 1536 --train-samples 146484375 ", bloom = "--global-batch-size 1024 --train-samples 300_000_000 ";
  CHECK(said(gpt3 + "--rampup-batch-size 16 16 5859375", "training.steps") == 111354);
  CHECK(said(bloom + "--rampup-batch-size 16 16 5_000_000", "training.steps") == 311541);
  CHECK(said(gpt3, "training.steps") == 95367);
  CHECK(said(gpt3 + "--rampup-batch-size 16 16 5859375 --train-iters 10", "training.steps") == 10);
  CHECK_THROWS_WITH(said("--train-samples many", "training.steps"), Catch::Contains("train_samples") && Catch::Contains("write a whole number"));
}

TEST_CASE("options that a plan cannot be without are asked for by name, all at once") {
  // NVIDIA/Megatron-LM: validate_args in megatron/training/arguments.py asserts these, in this order of its required_args.
  const auto missing = [](const std::string& options) {
    std::vector<std::string> names;
    try {
      imported(options, 1);
    } catch (const ConfigError& e) {
      for (const Problem& p : e.problems()) names.push_back(p.field);
    }
    return names;
  };
  CHECK(missing("pretrain_gpt.py --num-layers 2 --num-attention-heads 4 --vocab-size 50257") ==
        std::vector<std::string>{"hidden_size", "seq_length", "micro_batch_size"});
  CHECK(missing("pretrain_gpt.py --hidden-size 64 --num-attention-heads 4 --seq-length 64 --pipeline-model-parallel-size 2 "
                "--num-layers-per-virtual-pipeline-stage 1") == std::vector<std::string>{"num_layers", "micro_batch_size", "vocab_size"});
  CHECK_THROWS_WITH(said("--kv-lora-rank 8 --multi-latent-attention --qk-head-dim None", "model.head_dim"),
                    Catch::Contains("run.args: qk_head_dim: is missing; give a number"));
}

TEST_CASE("a variable that makes another framework's tensors bf16 is told, and changes nothing") {
  const std::string options = some_options();
  const arguments::ImportedPlan read = imported("XLA_USE_BF16=1 " + options.substr(0, options.find(" --bf16")));
  REQUIRE(read.features.size() == 1);
  CHECK(read.features[0].name.find("XLA_USE_BF16") != std::string::npos);
  CHECK(json::parse(read.document->dump())["training"]["precision"] == "fp32");
  CHECK(imported(options).features.empty());
}

TEST_CASE("a log names no program: its tokenizer tells BERT, its decoder's length T5") {
  const auto family = [](const std::string& more) {
    std::string log = "------------------------ arguments ------------------------\n";
    for (const char* argument : {"num_layers ....................................... 4", "hidden_size ...................................... 64",
                                 "num_attention_heads .............................. 4", "seq_length ....................................... 32",
                                 "max_position_embeddings .......................... 32", "vocab_size ....................................... 256",
                                 "micro_batch_size ................................. 1", "world_size ....................................... 8"})
      log += "  " + std::string(argument) + "\n";
    const arguments::ImportedPlan read = imported(log + more + "-------------------- end of arguments ---------------------\n");
    return std::pair(json::parse(read.document->dump())["model"]["family"].get<std::string>(), read.features.size());
  };
  const std::string word_piece = "  tokenizer_type ................................... BertWordPieceCase\n";
  CHECK(family("") == std::pair(std::string("gpt"), std::size_t{0}));
  CHECK(family(word_piece) == std::pair(std::string("bert"), std::size_t{1}));  // told: a log does not name it
  CHECK(family(word_piece + "  decoder_seq_length ............................... 16\n") == std::pair(std::string("t5"), std::size_t{1}));
}

TEST_CASE("layers of stages are split as options say") {
  const std::string stages = "--pipeline-model-parallel-size 4 ";
  CHECK(said(stages, "parallel.pipeline_split").is_null());
  CHECK(said(stages + "--decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 1", "parallel.pipeline_split") == json({1, 3, 3, 1}));
  CHECK(said("--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --num-layers 6 "
             "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", "parallel.pipeline_split") == json({1, 2, 2, 1}));
  CHECK(said(stages + "--pipeline-model-parallel-layout Ett|t*3|tt|tL", "parallel.pipeline_split") == json({2, 3, 2, 1}));
  CHECK(said("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2", "parallel.virtual_pipeline") == 2);
  CHECK(said("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2", "parallel.schedule") == "interleaved");
  CHECK_THROWS_AS(said(stages + "--decoder-first-pipeline-num-layers 1", "parallel.pipeline"), ConfigError);  // 7 layers on 3 stages
}

TEST_CASE("Megatron-LM's Muon is read with its own defaults, and what would cost other time is refused") {
  const std::string muon = "--optimizer muon ";
  CHECK(said(muon, "training.optimizer") == "muon");
  CHECK(said(muon, "training.momentum") == 0.9);
  CHECK(said(muon, "training.muon.nesterov") == false);
  CHECK(said(muon, "training.muon.scale") == 1);
  CHECK(said(muon + "--muon-scale-mode shape_scaling --muon-nesterov", "training.muon.scale_mode") == "shape");
  CHECK(said(muon + "--muon-scale-mode unit_rms_norm", "training.muon.scale_mode") == "unit_rms");
  CHECK(said(muon + "--muon-num-ns-steps 6", "training.muon.newton_schulz_steps") == 6);
  CHECK(said("", "training.muon.scale").is_null());
  CHECK(refused(muon).empty());
  CHECK(said(muon, "parallel.zero_stage", 8) == 0);
  CHECK(said("--optimizer dist_muon", "training.optimizer", 8) == "muon");
  CHECK(said("--optimizer dist_muon", "parallel.zero_stage", 8) == 1);
  CHECK(said("--optimizer dist_muon", "parallel.zero_stage", 1) == 0);
  CHECK(refused("--optimizer dist_muon").empty());
  // NVIDIA/Megatron-LM d98e8a64: megatron/training/arguments.py, dist_muon is deprecated for these two options.
  CHECK(said(muon + "--use-distributed-optimizer", "parallel.zero_stage") == 1);
  CHECK(refused(muon + "--use-megatron-fsdp").find("--use-distributed-optimizer") != std::string::npos);
  CHECK(refused(muon + "--tensor-model-parallel-size 2").find("gathered from tensor ranks") != std::string::npos);
  CHECK(refused(muon + "--tensor-model-parallel-size 2 --muon-tp-mode blockwise").empty());
  CHECK(refused(muon + "--muon-no-split-qkv").find("as one matrix") != std::string::npos);
  CHECK(refused(muon + "--muon-use-syrk").find("symmetric products") != std::string::npos);
}

TEST_CASE("routers have a bias beside biases of linear layers since September 2025") {
  const auto bias = [](const std::string& more, Month newest) {
    arguments::PlanNeeds needs{"dgx-h100"};
    needs.newest = newest;
    const arguments::ImportedPlan plan = arguments::import_arguments(some_options(more), "run.args", arguments::read_table("megatron-core"), needs);
    return json::parse(plan.document->dump())["model"].value(json::json_pointer("/moe/router_bias"), false);
  };
  CHECK(bias("--num-experts 8", {2025, 9}));
  CHECK_FALSE(bias("--num-experts 8", {2025, 8}));
  CHECK_FALSE(bias("--num-experts 8 --disable-bias-linear", {2025, 9}));
  CHECK_FALSE(bias("", {2025, 9}));
}

TEST_CASE("what no plan says is refused, told, ignored or unknown by name") {
  CHECK(refused("--optimizer lion").find("optimizer = \"lion\"") != std::string::npos);
  CHECK(refused("--recompute-granularity selective --recompute-modules gdn_norm_out").find("recomputation of one of these modules") != std::string::npos);
  CHECK(refused("--decoder-num-layers 4").find("not implemented: an encoder and a decoder") != std::string::npos);
  CHECK(refused("--fp8-format hybrid --first-last-layers-bf16").find("first and last layers in bf16") != std::string::npos);
  CHECK(refused("--first-last-layers-bf16").empty());
  CHECK(refused("--fp8-format hybrid --first-last-layers-bf16 --num-layers-at-start-in-bf16 0 --num-layers-at-end-in-bf16 0").empty());
  CHECK(refused("--delay-wgrad-compute").empty());
  const arguments::ImportedPlan got = imported(some_options("--delay-wgrad-compute --log-interval 1 --dataloader-type cyclic --hiden-dropout 0 --use-ring-exchange-p2p"));
  CHECK(got.features.size() == 3);
  CHECK(arguments::refusals(got).size() == 2);
  CHECK(got.ignored == std::vector<std::string>{"dataloader_type", "log_interval"});
  CHECK(got.unsaid == std::vector<std::string>{"use_ring_exchange_p2p"});
  CHECK(got.unknown == std::vector<std::string>{"hiden_dropout (the nearest is --hidden-dropout)"});
}

TEST_CASE("reductions that no stage aligns are told of pipelines") {
  // NVIDIA/Megatron-LM d98e8a64: megatron/core/pipeline_parallel/schedules.py. Without grad_sync_func stages reduce a chunk beside its
  // last backward pass. With it interleaved stages align, and those of one chunk reduce so on the first stage alone, as plans do.
  const std::string staged = "--pipeline-model-parallel-size 2 --overlap-grad-reduce ";
  const std::string interleaved = staged + "--num-layers-per-virtual-pipeline-stage 1 ";
  const auto told = [](const std::string& options) {
    const arguments::ImportedPlan got = imported(some_options(options));
    CHECK(arguments::refusals(got).empty());
    CHECK(got.unsaid.empty());
    return got.features.size();
  };
  CHECK(told(staged) == 0);
  CHECK(told(staged + "--no-align-grad-reduce") == 1);
  CHECK(told("--overlap-grad-reduce --no-align-grad-reduce") == 0);
  CHECK(told(interleaved) == 0);
  CHECK(told(interleaved + "--no-align-grad-reduce") == 1);
}

TEST_CASE("other programs and missing facts are refused") {
  CHECK_THROWS_AS(imported("pretrain_ict.py " + some_options().substr(some_options().find("--num-layers"))), InfeasibleError);
  const auto problem = [](const std::string& options) {
    try {
      imported(options);
      return std::string();
    } catch (const ConfigError& e) {
      return e.problems().front().message();
    }
  };
  CHECK(problem("--num-layers 8").find("nothing says on how many devices the program runs; give --devices N") != std::string::npos);
  const std::string sizes = "--world-size 8 --num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1";
  CHECK(problem(sizes).find("vocab_size: is missing") != std::string::npos);
}

// deepspeedai/DeepSpeed edaa72212: ops/adam/fused_adam.py, ops/lamb/fused_lamb.py; 442166559 (2026-06-23): runtime/constants.py;
// huggingface/transformers 5.24.0: training_args.py, max_grad_norm, which the Trainer writes for "auto".
TEST_CASE("what a configuration of DeepSpeed leaves out has DeepSpeed's defaults, not the plan's") {
  const arguments::Table table = arguments::read_table("deepspeed");
  const auto read = [&](json changes, Month newest = {2024, 3}) {
    json file = {{"train_micro_batch_size_per_gpu", 2}, {"bf16", {{"enabled", true}}}, {"zero_optimization", {{"stage", 2}}}};
    file.merge_patch(changes);
    const auto got = arguments::import_arguments(file.dump(), "ds.json", table, {"dgx-h100", 16, "llama3-8b", 4096, newest});
    return json(json::parse(got.document->dump())["training"]);
  };
  const json adam = {{"optimizer", {{"type", "AdamW"}, {"params", json::object()}}}};
  CHECK(read(adam)["learning_rate"] == 1e-3);
  CHECK(read(adam)["beta1"] == 0.9);
  CHECK(read(adam)["beta2"] == 0.999);
  CHECK(read(adam)["epsilon"] == 1e-8);
  CHECK(read(adam)["weight_decay"] == 0);
  CHECK(read({{"optimizer", {{"type", "AdamW"}, {"params", {{"torch_adam", true}}}}}})["weight_decay"] == 0.01);
  CHECK(read({{"optimizer", {{"type", "Adam"}, {"params", {{"torch_adam", true}, {"adam_w_mode", false}}}}}})["weight_decay"] == 0);
  CHECK_FALSE(read({{"optimizer", {{"type", "AdamW"}, {"params", {{"lr", "auto"}}}}}}).contains("learning_rate"));
  CHECK(read({{"optimizer", {{"type", "SGD"}, {"params", {{"lr", 0.1}}}}}})["momentum"] == 0);
  CHECK_FALSE(read(json::object()).contains("beta2"));  // the program makes the optimizer
  CHECK(read(adam)["clip_grad"] == 0);
  CHECK(read(adam, {2026, 7})["clip_grad"] == 1);
  CHECK(read({{"gradient_clipping", "auto"}})["clip_grad"] == 1);
}

TEST_CASE("a switch of a file may be a word or a number, as its program reads it") {
  const arguments::Table table = arguments::read_table("deepspeed");
  const auto precision = [&](const json& enabled) {
    const json file = {{"train_micro_batch_size_per_gpu", 2}, {"bf16", {{"enabled", enabled}}}};
    return json::parse(arguments::import_arguments(file.dump(), "ds.json", table, {"dgx-h100", 16, "llama3-8b", 4096, {2024, 3}}).document->dump())["training"]["precision"];
  };
  for (const json& on : std::vector<json>{true, "true", "True", "on", 1}) CHECK(precision(on) == "bf16");
  for (const json& off : std::vector<json>{false, "false", "no", 0, nullptr}) CHECK(precision(off) == "fp32");
  try {
    precision("bf16");
    FAIL("not refused");
  } catch (const ConfigError& e) {
    CHECK(e.problems().front().message() == "ds.json: bf16.enabled = \"bf16\": is neither true nor false; write true or false");
  }
}

TEST_CASE("a configuration of DeepSpeed is read beside a model") {
  const arguments::Table table = arguments::read_table("deepspeed");
  const auto read = [&](const json& file, Month newest = {2024, 3}) {
    return arguments::import_arguments(file.dump(), "ds.json", table, {"dgx-h100", 16, "llama3-8b", 4096, newest});
  };
  const json file = {{"train_micro_batch_size_per_gpu", 2}, {"gradient_accumulation_steps", 4}, {"fp16", {{"enabled", true}, {"initial_scale_power", 12}}},
                     {"zero_optimization", {{"stage", 2}, {"reduce_bucket_size", 1000}, {"overlap_comm", false}, {"offload_optimizer", {{"device", "cpu"}}}}},
                     {"optimizer", {{"type", "Adam"}, {"params", {{"lr", 1e-4}, {"betas", {0.8, 0.99}}}}}}, {"gradient_clipping", "auto"}, {"zero_optimisation", 3}};
  CHECK(table.recognises(file));
  CHECK_FALSE(table.recognises(json{{"model_type", "llama"}}));
  const arguments::ImportedPlan got = read(file);
  const json plan = json::parse(got.document->dump());
  CHECK(plan["model"]["preset"] == "llama3-8b");
  CHECK(plan["training"]["global_batch_size"] == 128);  // 2 x 4 x 16
  CHECK(plan["training"]["seq_length"] == 4096);
  CHECK(plan["training"]["precision"] == "fp16");
  CHECK(plan["training"]["loss_scale"]["initial"] == 4096);
  CHECK(plan["training"]["beta2"] == 0.99);
  CHECK(plan["training"]["clip_grad"] == 1.0);
  CHECK(plan["parallel"]["zero_stage"] == 2);
  CHECK(plan["parallel"]["overlap_grad_reduce"] == false);
  CHECK(plan["parallel"]["bucket_bytes"] == 2000);
  CHECK(plan["parallel"]["offload"]["optimizer"] == true);
  CHECK(got.automatic == std::vector<std::string>{"gradient_clipping"});
  CHECK(got.unknown == std::vector<std::string>{"zero_optimisation"});
  const json trainers = {{"train_micro_batch_size_per_gpu", "auto"}, {"bf16", {{"enabled", "auto"}}}, {"fp16", {{"enabled", "auto"}}}};
  const auto with = [&](std::vector<std::pair<std::string, json>> set) {
    return arguments::import_arguments(trainers.dump(), "ds.json", table, {"dgx-h100", 16, "llama3-8b", 4096, {2024, 3}, std::nullopt, "", false, std::move(set)});
  };
  for (const char* missing : {"train_micro_batch_size_per_gpu", "bf16.enabled"}) {
    try {
      with(missing[0] == 't' ? std::vector<std::pair<std::string, json>>{} : std::vector<std::pair<std::string, json>>{{"train_micro_batch_size_per_gpu", 2}});
      FAIL("no error");
    } catch (const ConfigError& e) {
      CHECK(e.problems().front().field == missing);
      CHECK(e.problems().front().remedy.find("--set " + std::string(missing)) != std::string::npos);
    }
  }
  const arguments::ImportedPlan filled = with({{"train_micro_batch_size_per_gpu", 2}, {"bf16.enabled", true}});
  CHECK((*filled.document)["training"]["precision"] == "bf16");
  CHECK((*filled.document)["training"]["micro_batch_size"] == 2);
  CHECK(filled.automatic == std::vector<std::string>{"fp16.enabled"});
  const auto refused_set = [&](const std::string& name, const json& value) -> std::string {
    try {
      with({{"train_micro_batch_size_per_gpu", 2}, {name, value}});
    } catch (const ConfigError& e) {
      return e.problems().front().reason;
    }
    return "";
  };
  CHECK(refused_set("bf16.enabled", "True") == "is neither true nor false");
  CHECK(refused_set("train_micro_batch_size_per_gpu.x", 1).find("is a value, not a section") != std::string::npos);
  const auto refused_feature = [&](json more) {
    json all = file;
    all.merge_patch(more);
    const std::vector<Problem> problems = arguments::refusals(read(all));
    return problems.empty() ? "" : problems.front().reason;
  };
  CHECK(refused_feature({{"zero_optimization", {{"zero_quantized_weights", true}}}}) == "not implemented: ZeRO++");
  CHECK(refused_feature({{"optimizer", {{"type", "OneBitAdam"}}}}) == "not implemented: this optimizer");
  CHECK(refused_feature({{"zero_optimisation", nullptr}}).empty());
  CHECK_THROWS_AS(read({{"train_batch_size", "auto"}}), ConfigError);
}

TEST_CASE("DeepSpeed's optimizers are read in small and capital letters, with what a plan's do otherwise") {
  // deepspeedai/DeepSpeed 0.19.8: DeepSpeedConfig compares the name in small letters.
  const arguments::Table table = arguments::read_table("deepspeed");
  const auto read = [&](const std::string& type, const json& params = json::object()) {
    const json file = {{"train_batch_size", 64}, {"train_micro_batch_size_per_gpu", 1}, {"bf16", {{"enabled", true}}},
                       {"zero_optimization", {{"stage", 1}}}, {"optimizer", {{"type", type}, {"params", params}}}};
    return arguments::import_arguments(file.dump(), "ds.json", table, {"dgx-h100", 8, "llama3-8b", 4096, {2024, 3}});
  };
  const auto optimizer = [&](const std::string& type) { return json::parse(read(type).document->dump())["training"]["optimizer"]; };
  for (const char* type : {"Lamb", "lamb", "LAMB"}) CHECK(optimizer(type) == "lamb");
  for (const char* type : {"Adam", "adam", "AdamW", "ADAMW"}) CHECK(optimizer(type) == "adamw");
  CHECK(optimizer("SGD") == "sgd");
  const auto told = [&](const std::string& type, const json& params) {
    const arguments::ImportedPlan got = read(type, params);
    CHECK(got.unknown.empty());
    CHECK(arguments::refusals(got).empty());
    return got.features.size();
  };
  CHECK(told("AdamW", {{"torch_adam", true}, {"adam_w_mode", true}, {"bias_correction", true}, {"amsgrad", false}}) == 0);
  CHECK(told("AdamW", {{"adam_w_mode", false}}) == 0);  // its name decides
  CHECK(told("Adam", {{"adam_w_mode", false}}) == 1);
  CHECK(told("Adam", {{"bias_correction", false}}) == 1);
  CHECK(told("Lamb", {{"max_coeff", 0.3}, {"min_coeff", 0.01}}) == 1);
  CHECK_FALSE(arguments::refusals(read("AdamW", {{"amsgrad", true}})).empty());
}

TEST_CASE("bf16 without ZeRO is what DeepSpeed of the stack's month does") {
  // deepspeedai/DeepSpeed 889f0ead2, released in 0.17.6 (2025-09-19).
  const arguments::Table table = arguments::read_table("deepspeed");
  const auto read = [&](Month newest, json more = json::object()) {
    json file = {{"train_micro_batch_size_per_gpu", 1}, {"bf16", {{"enabled", true}}}};
    file.merge_patch(more);
    return json::parse(arguments::import_arguments(file.dump(), "ds.json", table, {"dgx-h100", 8, "llama3-8b", 4096, newest}).document->dump());
  };
  CHECK(read({2024, 3})["parallel"]["zero_stage"] == 1);
  CHECK(read({2024, 3})["training"]["dtypes"]["gradients"] == "fp32");
  CHECK(read({2025, 9})["parallel"]["zero_stage"] == 0);
  CHECK(read({2025, 9})["training"]["dtypes"]["gradients"] == "bf16");
  CHECK(read({2025, 9}, {{"pipeline", {{"stages", 2}}}})["parallel"]["zero_stage"] == 1);
  CHECK(read({2024, 3}, {{"zero_optimization", {{"stage", 2}}}})["parallel"]["zero_stage"] == 2);
}
