// Which operations the CUDA backend has, and that plans of GPT and LLaMA lower to no others.
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
  for (const char* name : {"gpt-125m", "llama-300m", "tiny-gpt", "tiny-moe"}) {
    const std::string file = tests::source_dir() + "/experiments/device/plans/" + name + ".json";
    CHECK(refused(lower(load_plan(file, StackChoice{"tandem", std::nullopt}))) == std::set<std::string>{});
  }
}

TEST_CASE("what a device has no kernel for is refused by name and type") {
  CHECK(reason(GroupedMatMul{1, 2, 4, 4, 4, false, true}, DType::bf16) ==
        "grouped_matmul without a capacity, of rows whose number only the device knows");
  CHECK(reason(MatMul{1, 1, 1}, DType::fp8) == "matmul in fp8");
  CHECK(reason(MatMul{1, 1, 1}, DType::bf16, {DType::bf16, DType::fp32}) == "");  // rounded first
  CHECK(reason(MatMul{1, 1, 1}, DType::bf16, {DType::bf16, DType::fp16}) == "matmul in bf16 with an operand in fp16");
  CHECK(reason(MatMul{1, 1, 1}, DType::fp32, {}, {DType::bf16}) == "matmul in fp32 with a result in bf16");
  CHECK(reason(MatMul{1, 1, 1, false, false, false, true, DType::fp64}, DType::bf16) == "matmul in bf16 added up in fp64");
  const MatMul added{1, 1, 1, false, false, false, true, DType::fp32};
  CHECK(reason(added, DType::bf16, {DType::bf16, DType::bf16, DType::fp32}, {DType::fp32}) == "");
  FlashAttention chosen{{1, 1, 4, 8}, 0, false};
  chosen.chosen = true;
  CHECK(reason(chosen, DType::bf16) == "flash_attention of keys that an indexer chose");
  CHECK(reason(IndexTopK{{1, 1, 4, 8, 2}}, DType::bf16) == "index_topk");
  CHECK(reason(IndexTarget{{1, 1, 4, 8}}, DType::bf16) == "index_target");
  CHECK(reason(IndexTopKBackward{{1, 1, 4, 8, 2}}, DType::bf16) == "index_topk_backward");
  CHECK(reason(FlashAttentionBackward{{1, 1, 4, 256}, 0, false}, DType::fp64) ==
        "flash_attention_backward in fp64 with heads that long: 200960 bytes of shared memory are more than this device's 166912");
}

}  // namespace tandem::exec::test
