#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/models/arguments/cases.hpp"

using namespace tandem;
using namespace tandem::tests;
using nlohmann::json;

namespace {

json plan_of(const std::string& more) { return json::parse(imported(some_options(more)).document->dump()); }

}  // namespace

TEST_CASE("spellings of 2019 to 2022 say recomputation, and date the framework") {
  // NVIDIA/Megatron-LM v2.5: megatron/arguments.py; bbab79f869 (2022-05-16) took them out.
  const json whole = plan_of("--checkpoint-activations");
  CHECK(whole["training"]["recompute"] == "full");
  CHECK(whole["stack"] == json({{"name", "megatron-core"}, {"as_of", "2022-04"}}));
  CHECK(plan_of("--activations-checkpoint-method uniform")["training"]["recompute"] == "full");
  CHECK(plan_of("--activations-checkpoint-method block --activations-checkpoint-num-layers 3")["training"]["recompute_layers"] == 3);
  CHECK(plan_of("")["stack"] == "megatron-core");
}

TEST_CASE("what older options ask for and no plan says is refused") {
  const auto refused = [](const std::string& more) { return !arguments::refusals(imported(some_options(more))).empty(); };
  CHECK(refused("--checkpoint-activations --checkpoint-num-layers 2"));
  CHECK_FALSE(refused("--checkpoint-activations --checkpoint-num-layers 1"));
  CHECK(refused("--checkpoint-activations --distribute-checkpointed-activations"));
}

TEST_CASE("torch's data parallelism overlaps the reduction of gradients, and Megatron's own of then does not") {
  CHECK(plan_of("--DDP-impl torch")["parallel"]["overlap_grad_reduce"] == true);
  CHECK(plan_of("--DDP-impl local")["parallel"]["overlap_grad_reduce"] == false);
  CHECK(plan_of("--DDP-impl local")["stack"]["as_of"] == "2023-08");  // 3fb3e95ec6 (2023-09-05)
}

TEST_CASE("an option that no field says is refused by its name, and told where it is only printed") {
  const arguments::ImportedPlan got = imported(some_options("--use-ring-exchange-p2p --hiden-dropout 0"));
  const std::vector<Problem> problems = arguments::refusals(got);
  REQUIRE(problems.size() == 2);
  CHECK(problems[0].message().find("hiden_dropout = 0: not implemented: an option that is not known here") != std::string::npos);
  CHECK(problems[1].message().find("use_ring_exchange_p2p = true") != std::string::npos);
  CHECK(arguments::refusals(imported(some_options("--loss-scale-window 500"))).empty());  // bf16 has no loss scale
  const std::string block = "--- arguments ---\n  num_layers ....................................... 8\n  hidden_size .................................... 64\n"
                            "  num_attention_heads .............................. 4\n  seq_length ...................................... 64\n"
                            "  max_position_embeddings ......................... 64\n  padded_vocab_size .............................. 128\n"
                            "  micro_batch_size ................................. 1\n  global_batch_size ................................ 8\n"
                            "  world_size ....................................... 8\n  of_some_other_code ............................... 7\n";
  const arguments::ImportedPlan printed = imported(block);
  CHECK(arguments::refusals(printed).empty());
  CHECK(printed.unsaid == std::vector<std::string>{"of_some_other_code"});
}

TEST_CASE("BERT and T5 of Megatron-LM are the families with its layers") {
  const auto read = [](const std::string& program, const std::string& more) {
    std::string text = some_options(more);
    text.replace(text.find("pretrain_gpt.py"), 15, program);
    if (program == "pretrain_t5.py") text.replace(text.find("--num-layers"), 12, "--encoder-num-layers");
    return json::parse(imported(text).document->dump())["model"];
  };
  const json bert = read("pretrain_bert.py", "--bert-no-binary-head");
  CHECK(bert["family"] == "bert");
  CHECK(bert["norm_placement"] == "pre");
  CHECK(bert["embedding_norm"] == false);
  CHECK(bert["norm_epsilon"] == 1e-5);
  CHECK(bert["token_types"] == 0);
  const json t5 = read("pretrain_t5.py", "--decoder-num-layers 6 --vocab-extra-ids 100 --decoder-seq-length 128");
  CHECK(t5["family"] == "t5");
  CHECK(t5["num_layers"] == 8);
  CHECK(t5["num_decoder_layers"] == 6);
  CHECK(t5["vocab_size"] == 50357);
  CHECK(t5["output_bias"] == true);
}

TEST_CASE("options of a launcher that are not known change nothing, and those of the program are refused") {
  const auto problems = [](const std::string& launcher, const std::string& more) {
    std::string text = some_options(more);
    text.replace(0, text.find("pretrain_gpt.py"), launcher + " ");
    return arguments::refusals(imported(text)).size();
  };
  const std::string srun = "srun -N 1 -n 8 --output %x.log --container-image nemo.sqsh --container-mounts /a:/a,/b:/b --gpus-per-node 8 --cpus-per-task=12 python -u";
  CHECK(problems(srun, "") == 0);
  CHECK(problems(srun, "--cpus-per-task 12") == 1);
}

TEST_CASE("launchers say how many devices there are") {
  const auto devices = [](const std::string& launcher) {
    std::string text = some_options();
    text.replace(0, text.find("pretrain_gpt.py"), launcher + " ");
    return json::parse(imported(text).document->dump())["cluster"]["devices"];
  };
  CHECK(devices("srun --nodes=2 --ntasks-per-node=8 python -u") == 16);
  CHECK(devices("deepspeed --num_nodes 2 --num_gpus 4") == 8);
  CHECK(devices("mpirun -np 32 python") == 32);
  CHECK(devices("srun --nodes 2 --ntasks-per-node 8 python") == 16);
  CHECK(devices("srun -N 4 -n 4 torchrun --nnodes 4 --nproc-per-node 8") == 32);  // a task a node starts its ranks
  CHECK(devices("torchrun --nnodes 2 --nproc-per-node 8 --rdzv-id 7") == 16);
}
