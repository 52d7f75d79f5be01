// Which operations the CUDA backend has, and that plans of GPT and LLaMA lower to no others.
#include <filesystem>
#include <set>

#include "exec/device/works/work.hpp"
#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"
#include "tests/source_dir.hpp"

namespace tandem::exec::test {
namespace {

constexpr std::size_t kMostShared = std::size_t{163} << 10;  // of an Ampere's block, the least of the cards that are built for

std::vector<DType> types_of(const std::vector<tandem::Operand>& operands) {
  std::vector<DType> types;
  for (const auto& o : operands) types.push_back(o.dtype);
  return types;
}

/// What of a graph's computations a device refuses.
std::set<std::string> refused(const TaskGraph& graph) {
  std::set<std::string> all;
  for (const auto& t : graph.templates)
    for (const auto& task : t.tasks) {
      if (is_communication(task.op)) continue;
      const auto in = types_of(task.inputs), out = types_of(task.outputs);
      const Answer answer = device::can(task.op, {task.dtype, in, out}, kMostShared);
      if (!answer.possible) all.insert(answer.reason);
    }
  return all;
}

std::string reason(const Op& op, DType compute, std::vector<DType> in = {}, std::vector<DType> out = {}) {
  return device::can(op, {compute, in, out}, kMostShared).reason;
}

}  // namespace

TEST_CASE("every computation of GPT and LLaMA plans over tensor ranks, stages and data ranks has a kernel") {
  for (const char* precision : {"fp32", "tf32", "bf16", "fp16"})
    for (const bool llama : {false, true})
      for (const int zero : {0, 1})
        for (const bool flash : {false, true}) {
          tests::SmallPlan small;
          small.tensor = small.pipeline = small.data = 2;
          small.llama = llama;
          small.precision = precision;
          if (llama) small.dropout = 0;
          std::string json = small.json();
          json.replace(json.find("\"clip_grad\""), 0, std::string("\"flash_attention\": ") + (flash ? "true" : "false") + ", ");
          json.replace(json.find("\"bucket_bytes\""), 0, "\"zero_stage\": " + std::to_string(zero) + ", ");
          INFO(json);
          CHECK(refused(lower(parse_plan(json, "test.json"))) == std::set<std::string>{});
        }
}

TEST_CASE("every computation of the plans that a machine with a GPU runs has a kernel") {
  int plans = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(tests::source_dir() + "/experiments/device/plans")) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path());
    CHECK(refused(lower(load_plan(entry.path().string(), StackChoice{"tandem", std::nullopt}))) == std::set<std::string>{});
    ++plans;
  }
  CHECK(plans >= 10);
}

TEST_CASE("every computation of models with recurrences, gates and long heads has a kernel") {
  for (const char* precision : {"fp64", "fp32", "tf32", "bf16", "fp16"})
    for (const char* model : {R"("qk_norm": "head", "attention_gate": true, "recurrence": {"heads": 8, "key_heads": 4, "key_dim": 128,
                                 "value_dim": 128, "layers": "rrra"})",
                              R"("sublayers": "mfmf", "recurrence": {"rule": "mamba2", "heads": 8, "key_heads": 2, "key_dim": 256,
                                 "value_dim": 64, "conv_bias": true, "layers": "rraa"})",
                              R"("qk_norm": "head", "head_dim": 512)"})
      for (const char* parallel : {R"("data": 1)", R"("tensor": 2, "sequence_parallel": true)", R"("context": 2, "context_mode": "ulysses")"}) {
        const bool ranks = std::string(parallel).find("2") != std::string::npos;
        const std::string json = R"({"model": {"family": "llama", "num_layers": 4, "hidden_size": 24, "num_attention_heads": 4,)"
                                 R"( "ffn_hidden_size": 40, "vocab_size": 37, )" + std::string(model) + R"(}, "parallel": {)" + parallel +
                                 R"(}, "training": {"seq_length": 8, "micro_batch_size": 1, "global_batch_size": 8, "precision": ")" +
                                 precision + R"("}, "cluster": {"preset": "cpu-host", "devices": )" + (ranks ? "2" : "1") + "}}";
        INFO(json);
        CHECK(refused(lower(parse_plan(json, "test.json"))) == std::set<std::string>{});
      }
}

TEST_CASE("every computation of dropless experts has a kernel, whichever ranks share them") {
  for (const char* precision : {"fp64", "fp32", "tf32", "bf16", "fp16"})
    for (const char* capacity : {"0", "2"})
      for (const char* parallel : {R"("data": 1)", R"("data": 2, "expert": 2)", R"("tensor": 2, "sequence_parallel": true, "expert": 2)",
                                   R"("data": 4, "expert": 2, "expert_tensor": 2, "zero_stage": 1)"}) {
        const std::string text = parallel;
        const int ranks = text.find("4") != std::string::npos ? 4 : text.find("\"expert\"") != std::string::npos ? 2 : 1;
        const std::string json =
            R"({"model": {"family": "gpt", "num_layers": 2, "hidden_size": 24, "num_attention_heads": 4, "ffn_hidden_size": 40,)"
            R"( "vocab_size": 37, "moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16, "num_shared_experts": 1,)"
            R"( "rows_bound": 4, "aux_loss": 0.1, "capacity_factor": )" + std::string(capacity) + R"(}}, "parallel": {)" + text +
            R"(}, "training": {"seq_length": 8, "micro_batch_size": 1, "global_batch_size": 8, "precision": ")" + precision +
            R"("}, "cluster": {"preset": "cpu-host", "devices": )" + std::to_string(ranks) + "}}";
        INFO(json);
        CHECK(refused(lower(parse_plan(json, "test.json"))) == std::set<std::string>{});
      }
}

TEST_CASE("what a device has no kernel for is refused by name and type") {
  CHECK(reason(MatMul{1, 1, 1}, DType::fp8) == "matmul in fp8");
  CHECK(reason(MatMul{1, 1, 1}, DType::bf16, {DType::bf16, DType::fp32}) == "");  // rounded first
  CHECK(reason(MatMul{1, 1, 1}, DType::bf16, {DType::bf16, DType::fp16}) == "matmul in bf16 with an operand in fp16");
  CHECK(reason(MatMul{1, 1, 1}, DType::fp32, {}, {DType::bf16}) == "matmul in fp32 with a result in bf16");
  CHECK(reason(MatMul{1, 1, 1, false, false, false, true, DType::fp64}, DType::bf16) == "matmul in bf16 added up in fp64");
  const MatMul added{1, 1, 1, false, false, false, true, DType::fp32};
  CHECK(reason(added, DType::bf16, {DType::bf16, DType::bf16, DType::fp32}, {DType::fp32}) == "");
  FlashAttention chosen{{1, 1, 4, 8}, 0, false};
  chosen.chosen = true;
  CHECK(reason(chosen, DType::bf16) == "");
  chosen.sinks = true;
  CHECK(reason(chosen, DType::bf16) == "flash_attention of chosen keys with bias, sinks, dropout, a cap or a ring");
  IndexTopK blocks{{1, 1, 4, 800, 2}};
  CHECK(reason(blocks, DType::bf16) == "");
  blocks.dims.block = 2;
  CHECK(reason(blocks, DType::bf16) == "index_topk of blocks");
  CHECK(reason(HeadNorm{{1, 1, 4, 1025}, 1e-5}, DType::bf16) == "head_norm of heads of more than 1024 dimensions");
  CHECK(reason(FlashAttentionBackward{{1, 1, 4, 256}, 0, false}, DType::fp64) ==
        "flash_attention_backward in fp64 with heads that long: 200960 bytes of shared memory are more than this device's 166912");
  const HeadNormBackward norm{{1, 1, 4, 1024}, 1e-5};
  constexpr std::size_t kOfAda = std::size_t{99} << 10;
  CHECK(device::can(norm, {DType::fp64, {}, {}}, kOfAda).reason ==
        "head_norm_backward in fp64 with heads that long: 131072 bytes of shared memory are more than this device's 101376");
  CHECK(device::can(norm, {DType::fp32, {}, {}}, kOfAda).possible);
}

}  // namespace tandem::exec::test
