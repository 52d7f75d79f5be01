#include "models/arguments/run_command.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>

#include "models/arguments/imported_plan.hpp"
#include "models/arguments/launcher.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/models/arguments/imported_field.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using nlohmann::json;
using tests::field;
using tests::TemporaryFolder;

namespace {

/// The plan of a command in a file of this folder.
arguments::ImportedPlan imported(const TemporaryFolder& folder, const std::string& text, std::int64_t devices = 0) {
  const std::string file = folder.at("run.sh");
  const auto table = arguments::table_of_run(text, file);
  REQUIRE(table.has_value());
  arguments::PlanNeeds needs{"dgx-h100", devices};
  needs.newest = {2026, 3};
  return arguments::import_arguments(text, file, *table, needs);
}

std::vector<std::string> refused(const arguments::ImportedPlan& plan) {
  std::vector<std::string> out;
  for (const auto& f : plan.features)
    if (f.refused) out.push_back(f.name);
  return out;
}

bool tells(const arguments::ImportedPlan& plan, const std::string& part) {
  return std::any_of(plan.features.begin(), plan.features.end(),
                     [&](const auto& f) { return !f.refused && f.name.find(part) != std::string::npos; });
}

const std::string kModel = "--model_name_or_path Qwen/Qwen3-8B ";

/// A script of one's own with the Trainer's options, behind a launcher.
std::string trainer(const std::string& launcher, const std::string& more = "") {
  return launcher + " train.py " + kModel + "--model_max_length 2048 --per_device_train_batch_size 4 --gradient_accumulation_steps 8 --max_steps 100 "
         "--output_dir out " + more;
}

const char* const kEngine = R"({"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"},
  "bf16": {"enabled": "auto"}, "train_batch_size": "auto", "gradient_clipping": "auto"})";

}  // namespace

// accelerate 16cb6eb8: commands/launch.py; the number of processes is that of all machines.
TEST_CASE("a batch script of accelerate and run_clm.py is a plan") {
  const TemporaryFolder folder;
  folder.file("fsdp.yaml", "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 4\n"
                          "fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true, fsdp_activation_checkpointing: false}\n");
  const arguments::ImportedPlan plan = imported(folder,
      "#!/bin/bash\n#SBATCH --nodes=2\nexport WANDB_MODE=offline\nGPUS=8\nARGS=(\n  --model_name_or_path ${MODEL:-Qwen/Qwen3-8B}\n"
      "  --per_device_train_batch_size 2 --gradient_accumulation_steps 4\n)\nARGS+=(--gradient_checkpointing --bf16)\n"
      "accelerate launch --config_file fsdp.yaml --num_machines $SLURM_NNODES --num_processes $((SLURM_NNODES * GPUS)) --machine_rank $RANK \\\n"
      "  run_clm.py \"${ARGS[@]}\" --block_size 4096 --learning_rate 2e-5 --warmup_ratio 0.03 --max_steps 1000 --lr_scheduler_type cosine \\\n"
      "  --weight_decay 0. --output_dir out/$(date +%s) 2>&1 | tee log\n");
  CHECK(field(plan, "stack") == "pytorch-fsdp");
  CHECK(field(plan, "model.preset") == "qwen3-8b");
  CHECK(field(plan, "cluster.devices") == 16);
  CHECK(field(plan, "parallel.zero_stage") == 3);
  CHECK(field(plan, "training.seq_length") == 4096);
  CHECK(field(plan, "training.micro_batch_size") == 2);
  CHECK(field(plan, "training.global_batch_size") == 2 * 4 * 16);
  CHECK(field(plan, "training.precision") == "bf16");
  CHECK(field(plan, "training.recompute") == "full");
  CHECK(field(plan, "training.warmup") == 30);
  CHECK(field(plan, "training.learning_rate_decay") == "cosine");
  CHECK(field(plan, "training.weight_decay") == 0);
  CHECK(refused(plan).empty());
}

TEST_CASE("options of accelerate launch take the place of its file") {
  const TemporaryFolder folder;
  const std::string rest = " train.py " + kModel + "--block_size 2048 --per_device_train_batch_size 1 --max_steps 9";
  const auto plan = imported(folder, "accelerate launch --use_deepspeed --zero_stage 2 --offload_optimizer_device cpu --num_processes 4 --mixed_precision bf16" + rest);
  CHECK(field(plan, "stack") == "deepspeed");
  CHECK(field(plan, "cluster.devices") == 4);
  CHECK(field(plan, "parallel.zero_stage") == 2);
  CHECK(field(plan, "parallel.offload.optimizer") == true);
  CHECK(field(plan, "training.precision") == "bf16");
  folder.file("a.yaml", "distributed_type: FSDP\nnum_processes: 4\nmixed_precision: 'no'\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\n");
  const auto other = imported(folder, "python -m accelerate.commands.launch --config_file=a.yaml --mixed_precision fp16 --fsdp_sharding_strategy SHARD_GRAD_OP" + rest);
  CHECK(field(other, "cluster.devices") == 4);
  CHECK(field(other, "parallel.zero_stage") == 2);
  CHECK(field(other, "training.precision") == "fp16");
  CHECK_THROWS_AS(imported(folder, "accelerate launch --config_file absent.yaml --num_processes 2" + rest), ConfigError);
}

TEST_CASE("the processes of a launcher are the plan's devices") {
  const TemporaryFolder folder;
  folder.file("hosts", "# cluster\nworker-1 slots=8\nworker-2 slots=8\nworker-3 slots=4\n");
  folder.file("ds.json", kEngine);
  const auto devices = [&](const std::string& launcher) { return field(imported(folder, trainer(launcher)), "cluster.devices"); };
  CHECK(devices("torchrun --nproc_per_node=4 --master_port=<port>") == 4);
  CHECK(devices("torchrun --nnodes 4 --nproc-per-node 8 --rdzv_endpoint $HOST:29500") == 32);
  CHECK(devices("python -m torch.distributed.launch --nproc_per_node 2") == 2);
  CHECK(devices("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node gpu") == 2);
  CHECK(devices("deepspeed --num_gpus 8") == 8);
  CHECK(devices("deepspeed --num_gpus 4 --num_nodes 2") == 8);
  CHECK(devices("deepspeed --hostfile hosts") == 20);
  CHECK(devices("deepspeed --hostfile hosts --num_nodes 2 --num_gpus 4") == 8);
  CHECK(devices("deepspeed --include worker-1:0,1,2@worker-2:5") == 4);
  CHECK(devices("CUDA_VISIBLE_DEVICES=0,1,2 deepspeed") == 3);
  CHECK(devices("srun -n 16 python") == 16);
  CHECK(devices("CUDA_VISIBLE_DEVICES=3 python") == 1);
  for (const char* open : {"python", "torchrun --nnodes $N --nproc_per_node 8", "torchrun --nnodes 1:4 --nproc_per_node 8", "deepspeed", "accelerate launch"}) {
    CAPTURE(open);
    CHECK_THROWS_WITH(imported(folder, trainer(open)), Catch::Contains("world_size: is missing"));
    CHECK(field(imported(folder, trainer(open), 24), "training.global_batch_size") == 4 * 8 * 24);
  }
}

TEST_CASE("options of a script's own are told, unless they are slips or may change what is trained") {
  const TemporaryFolder folder;
  const std::string launcher = "torchrun --nproc_per_node 8";
  const arguments::ImportedPlan plan = imported(folder, trainer(launcher, "--data_path d.json --lazy_preprocess True --evaluation_strategy no --use_lora False "
      "--fsdp \"full_shard auto_wrap\" --fsdp_transformer_layer_cls_to_wrap 'LlamaDecoderLayer' --tf32 True --bf16 True"));
  CHECK(refused(plan).empty());
  CHECK(tells(plan, "options of the script's own"));
  CHECK(tells(plan, "a length that an option of the script's own says"));
  CHECK(plan.unknown == std::vector<std::string>{"data_path", "lazy_preprocess"});
  CHECK(field(plan, "training.seq_length") == 2048);
  CHECK(field(plan, "training.global_batch_size") == 4 * 8 * 8);
  CHECK(field(plan, "parallel.zero_stage") == 3);
  CHECK(refused(imported(folder, trainer(launcher, "--gradient_chekpointing True"))) == std::vector<std::string>{"an option that is nearly gradient_checkpointing"});
  for (const char* more : {"--use_lora True", "--lora_r 8", "--bits 4", "--load_in_8bit True", "--zero_stage 3", "--use_gradient_checkpointing True", "--sequence_parallel_size 2"})
    CHECK(refused(imported(folder, trainer(launcher, more))) == std::vector<std::string>{"an option of the script's own that may change what is trained"});
}

TEST_CASE("a shell's variable is refused where a plan depends on it") {
  const TemporaryFolder folder;
  const std::string launcher = "torchrun --nproc_per_node 8 --master_addr $ADDR";
  CHECK(refused(imported(folder, trainer(launcher, "--output_dir $OUT --data_path $DATA"))).empty());
  CHECK_THROWS_WITH(imported(folder, trainer(launcher, "--learning_rate $LR")), Catch::Contains("--learning_rate $LR") && Catch::Contains("variable of a shell"));
  CHECK(field(imported(folder, "#!/bin/sh\nLR=3e-5\n" + trainer(launcher, "--learning_rate $LR")), "training.learning_rate") == 3e-5);
  const std::string conditional = "#!/bin/sh\nif [ -d x ]; then\n" + trainer(launcher) + "\nfi\n";
  CHECK_THROWS_WITH(imported(folder, conditional), Catch::Contains("stands in a condition"));
  CHECK_THROWS_WITH(imported(folder, "#!/bin/sh\n" + trainer(launcher) + "\n" + trainer(launcher)), Catch::Contains("starts a second program"));
  CHECK(field(imported(folder, "#!/bin/sh\npython prepare.py --out d\n" + trainer(launcher)), "cluster.devices") == 8);
}

// transformers 5.24.0: hf_argparser.py; switches have a value or none, --no_x turns one off that is on, groups of fields are JSON.
TEST_CASE("switches, groups and files of the Trainer's parser") {
  const TemporaryFolder folder;
  folder.file("ds.json", kEngine);
  folder.file("fsdp.json", R"({"activation_checkpointing": true})");
  const auto with = [&](const std::string& more) { return imported(folder, trainer("torchrun --nproc_per_node 8", more)); };
  CHECK(field(with("--gradient-checkpointing"), "training.recompute") == "full");
  CHECK(field(with("--gradient_checkpointing False"), "training.recompute") == "none");
  const auto groups = with("--gradient_checkpointing --gradient_checkpointing_kwargs '{\"use_reentrant\": true}'");
  CHECK(field(groups, "training.recompute_early_stop") == false);
  CHECK(field(with("--fsdp full_shard --fsdp_config '{\"activation_checkpointing\": true}'"), "training.recompute") == "full");
  CHECK(field(with("--fsdp full_shard --fsdp_config fsdp.json"), "training.recompute") == "full");
  const auto engine = with("--deepspeed ds.json --bf16");
  CHECK(field(engine, "stack") == "deepspeed");
  CHECK(field(engine, "parallel.zero_stage") == 3);
  CHECK_THROWS_AS(with("--deepspeed absent.json --bf16"), ConfigError);
  CHECK_THROWS_AS(with("--fsdp full_shard --fsdp_config absent.json"), ConfigError);
}

// integrations/deepspeed.py, trainer_config_finalize: hidden_size squared; Qwen3-8B has 4096.
TEST_CASE("a bucket that is left to the Trainer has the square of the width") {
  const TemporaryFolder folder;
  folder.file("ds.json", kEngine);
  const auto plan = imported(folder, trainer("deepspeed --num_gpus 8", "--deepspeed ds.json --bf16"));
  CHECK(field(plan, "parallel.bucket_bytes") == 4096 * 4096 * 2);
  CHECK(tells(plan, "sizes of what ZeRO 3 gathers ahead"));
  const auto file = [&](const std::string& name, const std::string& text) {
    arguments::PlanNeeds needs{"dgx-h100", 8, "", 0, {2026, 3}};
    needs.configuration = folder.at("ds.json");
    return arguments::import_arguments(text, "run.yaml", arguments::read_table(name), needs);
  };
  CHECK(field(file("llama-factory", "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\ndo_train: true\nfinetuning_type: full\ncutoff_len: 1024\n"
                                    "deepspeed: ds.json\nbf16: true\nmax_steps: 9\n"), "parallel.bucket_bytes") == 4096 * 4096 * 2);
  arguments::PlanNeeds needs{"dgx-h100", 8, "llama2-7b", 4096, {2026, 8}};
  needs.set = {{"bf16.enabled", true}, {"train_micro_batch_size_per_gpu", 1}};
  CHECK(field(arguments::import_arguments(kEngine, "ds.json", arguments::read_table("deepspeed"), needs), "parallel.bucket_bytes") == 4096 * 4096 * 2);
}

TEST_CASE("commands with a file of fields have the file's table, and their options come last") {
  const TemporaryFolder folder;
  folder.file("lf.yaml", "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\ndo_train: true\nfinetuning_type: full\ncutoff_len: 4096\n"
                        "per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\nmax_steps: 100\nbf16: true\npacking: true\nlearning_rate: 1e-4\n");
  const auto factory = imported(folder, "FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=8 llamafactory-cli train lf.yaml learning_rate=1e-5 gradient_accumulation_steps=4");
  CHECK(field(factory, "cluster.devices") == 16);
  CHECK(field(factory, "training.global_batch_size") == 1 * 4 * 16);
  CHECK(field(factory, "training.learning_rate") == 1e-5);
  CHECK(field(factory, "training.seq_length") == 4096);
  folder.file("sft.yaml", "model_name_or_path: Qwen/Qwen3-8B\ndataset_name: a/b\nmax_length: 8192\nper_device_train_batch_size: 1\nmax_steps: 10\n");
  const auto trl = imported(folder, "trl sft --config sft.yaml --packing --accelerate_config zero3 --no_gradient_checkpointing");
  CHECK(field(trl, "stack") == "deepspeed");
  CHECK(field(trl, "cluster.devices") == 8);
  CHECK(field(trl, "training.documents") == "separate");
  CHECK(field(trl, "training.recompute") == "none");
  CHECK(field(trl, "training.seq_length") == 8192);
  const auto script = imported(folder, "accelerate launch --num_processes 8 --mixed_precision bf16 scripts/run_sft.py sft.yaml --max_length=1024");
  CHECK(field(script, "training.seq_length") == 1024);
  CHECK(field(script, "training.global_batch_size") == 8);
  folder.file("ax.yml", "base_model: Qwen/Qwen3-8B\nsequence_len: 4096\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\noptimizer: adamw_torch_fused\n"
                       "lr_scheduler: cosine\nlearning_rate: 2e-4\nbf16: true\nsample_packing: true\nmax_steps: 500\n");
  const auto axolotl = imported(folder, "CUDA_VISIBLE_DEVICES=0,1,2,3 axolotl train ax.yml --micro-batch-size 4");
  CHECK(field(axolotl, "training.global_batch_size") == 4 * 4 * 4);
  CHECK(field(imported(folder, "axolotl train examples/one/ax.yml", 3), "training.global_batch_size") == 2 * 4 * 3);  // without its folders
  CHECK(field(imported(folder, "accelerate launch --num_processes 2 -m axolotl.cli.train ax.yml"), "cluster.devices") == 2);
  CHECK_THROWS_WITH(imported(folder, "tune run --nproc_per_node 8 full_finetune_distributed --config llama3_1/8B_full batch_size=4"),
                    Catch::Contains("names a file that is not at"));
}

// modelscope/ms-swift 3602360a5: arguments/base_args/model_args.py _init_mixed_precision, trainers/arguments.py, sft_args.py, config/zero3.json.
TEST_CASE("swift sft is the Trainer with defaults and files of DeepSpeed of its own") {
  const TemporaryFolder folder;
  const std::string rest = " swift sft --model Qwen/Qwen3-8B --dataset 'a/b#500' --max_length 8192 --max_steps 2000 --warmup_ratio 0.05 ";
  const auto full = imported(folder, "NPROC_PER_NODE=8 CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7" + rest +
                                         "--tuner_type full --torch_dtype bfloat16 --gradient_accumulation_steps 2 --packing true --deepspeed zero3");
  CHECK(field(full, "stack") == "deepspeed");
  CHECK(field(full, "cluster.devices") == 8);
  CHECK(field(full, "parallel.zero_stage") == 3);
  CHECK(field(full, "parallel.overlap_grad_reduce") == false);
  CHECK(field(full, "parallel.bucket_bytes") == 4096 * 4096 * 2);
  CHECK(field(full, "training.global_batch_size") == 1 * 2 * 8);
  CHECK(field(full, "training.precision") == "bf16");
  CHECK(field(full, "training.recompute") == "full");
  CHECK(field(full, "training.recompute_early_stop") == false);  // use_reentrant where DeepSpeed is
  CHECK(field(full, "training.learning_rate") == 1e-5);
  CHECK(field(full, "training.learning_rate_decay") == "cosine");
  CHECK(field(full, "training.beta2") == 0.95);
  CHECK(field(full, "training.weight_decay") == 0.1);
  CHECK(field(full, "training.warmup") == 100);
  CHECK(field(full, "training.documents") == "separate");
  CHECK(refused(full).empty());
  const auto lora = imported(folder, "NNODES=1 NPROC_PER_NODE=4" + rest + "--train_type lora --per_device_train_batch_size 3");
  CHECK(field(lora, "training.lora.rank") == 8);
  CHECK(field(lora, "training.lora.alpha") == 32);
  CHECK(field(lora, "training.lora.targets") == json({"q", "k", "v", "proj", "gate", "up", "fc2"}));
  CHECK(field(lora, "training.learning_rate") == 1e-4);
  CHECK(field(lora, "training.global_batch_size") == 3 * 2 * 4);  // 16 / (3 x 4), rounded up
  CHECK(field(lora, "training.recompute_early_stop") == true);
  const auto plain = imported(folder, "NPROC_PER_NODE=4" + rest + "--tuner_type full --torch_dtype bfloat16");
  CHECK(field(plain, "training.dtypes.master") == "bf16");  // weights stay in the type in which they are loaded
  CHECK(field(imported(folder, "NPROC_PER_NODE=4" + rest + "--tuner_type full --torch_dtype float32"), "training.precision") == "fp16");
  const auto names = [&](const std::string& more) { return refused(imported(folder, "NPROC_PER_NODE=4" + rest + more)); };
  CHECK(names("--quant_method bnb --quant_bits 4").empty());
  CHECK(names("--quant_method bnb --quant_bits 8").size() == 1);
  CHECK(names("--tuner_type adalora").size() == 1);
  CHECK(names("--rlhf_type dpo").size() == 1);
  CHECK(names("--an_option_of_mine 1").size() == 1);
}

TEST_CASE("adapters of PEFT in a script's options are TRL's") {
  const TemporaryFolder folder;
  const auto plan = imported(folder, "accelerate launch --num_processes 2 train.py " + kModel + "--per_device_train_batch_size 1 --max_steps 1 --use_peft --lora_r 4 --max_length 64");
  CHECK(field(plan, "training.lora.rank") == 4);
  CHECK(field(plan, "training.precision") == "bf16");
}

TEST_CASE("commands of other frameworks stay theirs") {
  for (const char* text : {"torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 2", "deepspeed pretrain_gpt.py --zero-stage 1", "--num-layers 2 --bf16"})
    CHECK_FALSE(arguments::table_of_run(text, "run.args").has_value());
  CHECK(arguments::looks_like_run("llamafactory-cli train x.yaml", "run.txt"));
  CHECK_FALSE(arguments::looks_like_run("a note about x.yaml", "run.txt"));
  CHECK_FALSE(arguments::looks_like_run("{\"a\": 1}", "run.json"));
}

TEST_CASE("a number of processes that no cluster has is unknown") {
  arguments::Arguments command{std::make_shared<json>(json::object()), "train.py", false};
  command.launchers = {"torchrun"};
  const auto processes = [&](std::int64_t nodes) {
    command.launched = std::make_shared<json>(json{{"nnodes", nodes}, {"nproc_per_node", 8}});
    return arguments::process_count_of(command, false, "run.sh");
  };
  CHECK(processes(1000) == 8000);
  CHECK(!processes(std::int64_t{1} << 61));  // times 8 is no number of 64 bits
}
