// What op-level recomputation keeps and repeats where every second product is repeated too, against formulas by hand from
// torchtitan's policy (see models/lowering/shapes/shapes.cpp).

#include <algorithm>

#include "models/ops/op.hpp"
#include "tests/models/lowering/memory_case.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

// In units of activations of 2 bytes, the fp32 statistics of 4 heads count as 8.
constexpr std::int64_t kHidden = 64, kFfn = 192, kSeq = 32, kBatch = 4;

struct Llama {
  std::string recompute = "none";
  bool products = false;
  std::int64_t tensor = 1;
  std::string activation = "swiglu";
  bool flash = true;
  std::string fusion = "reference";
  bool attention = false;  ///< repeated, too

  TaskGraph lowered() const {
    nlohmann::json modules{"operations"};
    if (attention) modules.push_back("core_attention");
    const nlohmann::json p = {
        {"model",
         {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", kHidden}, {"num_attention_heads", 4}, {"num_kv_heads", 2},
          {"ffn_hidden_size", kFfn}, {"activation", activation}, {"vocab_size", 128}, {"pad_vocab_to", 128}}},
        {"parallel", {{"tensor", tensor}, {"sequence_parallel", tensor > 1}}},
        {"training",
         {{"seq_length", kSeq}, {"micro_batch_size", kBatch}, {"global_batch_size", kBatch}, {"precision", "bf16"},
          {"flash_attention", flash}, {"recompute", recompute}, {"recompute_modules", modules},
          {"recompute_products", products}, {"fusion", fusion}}},
        {"cluster", {{"preset", "cpu-host"}, {"devices", tensor}}}};
    TaskGraph graph = lower(parse_plan(p.dump(), "llama.json"));
    graph.check();
    return graph;
  }

  std::int64_t kept() const {
    const TaskGraph graph = lowered();
    const StageOf stage(graph, 0);
    return stage.behind(stage.find("block_forward", 0, 0, Phase::forward), "saved").bytes.count();
  }

  std::int64_t backward_flops() const {
    const TaskGraph graph = lowered();
    const StageOf stage(graph, 0);
    std::int64_t sum = 0;
    for (const Task& t : graph.of(stage.program().instances[stage.find("block_backward", 0, 0, Phase::backward)]).tasks)
      if (std::holds_alternative<MatMul>(t.op)) sum += matrix_flops(t.op).count();
    return sum;
  }
};

constexpr std::int64_t kTokens = kSeq * kBatch;

}  // namespace

TEST_CASE("with every second product repeated, a layer keeps neither its norms and activation nor the sum and half of fc1") {
  const Llama all, products{"selective", true};
  // Both norms' outputs and the sum between; gate and up of all tokens, of which half is kept; their product.
  CHECK(all.kept() - products.kept() == 2 * kTokens * (3 * kHidden + kFfn + kFfn));
  const Llama operations{"selective", false};
  // All that products wrote is kept there, but not what attention leaves beside its output: two numbers a row and head.
  const Llama plain{"none", false, 1, "swiglu", true};
  CHECK(plain.kept() - operations.kept() >= 2 * kTokens * (2 * kHidden + kFfn));
  // Flash attention is no product, and what it wrote goes, too, with its number for each row of four heads.
  CHECK(plain.kept() - operations.kept() == 2 * kTokens * (2 * kHidden + kFfn + kHidden + 8));
  CHECK(operations.kept() > products.kept());
}

TEST_CASE("with every second product repeated, the projection and one of gate and up run again, and attention does not") {
  const Llama all, products{"selective", true};
  CHECK(products.backward_flops() - all.backward_flops() == 2 * kTokens * kHidden * (kHidden + kFfn));
  const TaskGraph graph = products.lowered();
  for (const Template& t : graph.templates)
    if (t.name == "block_backward")
      for (const Task& task : t.tasks) CHECK(!std::holds_alternative<FlashAttention>(task.op));
}

// torchtitan's list had no operation of cuDNN's attention from 3b85aa31f, which uses it on B200, to b39377f9f.
TEST_CASE("attention that is listed beside operations runs again with every second product, and leaves nothing") {
  const Llama products{"selective", true};
  Llama listed = products;
  listed.attention = true;
  // What it wrote, and a number for each row of four heads.
  CHECK(products.kept() - listed.kept() == 2 * kTokens * (kHidden + 8));
  CHECK(listed.backward_flops() == products.backward_flops());  // of matrix products: the same ones run again
  const TaskGraph graph = listed.lowered();
  for (const Template& t : graph.templates) {
    const auto attends = [](const Task& task) { return std::holds_alternative<FlashAttention>(task.op); };
    if (t.name == "block_backward") CHECK(std::count_if(t.tasks.begin(), t.tasks.end(), attends) == 1);
  }
}

TEST_CASE("sums over tensor ranks are kept, and an MLP without gate has its first product kept") {
  // A tensor rank keeps its half of what the heads and the MLP wrote and of the rows between.
  CHECK(Llama{"none", false, 2}.kept() - Llama{"selective", true, 2}.kept() == 2 * kTokens * (2 * kHidden + kFfn + kFfn) / 2);
  CHECK(Llama{"none", false, 1, "gelu"}.kept() - Llama{"selective", true, 1, "gelu"}.kept() == 2 * kTokens * (3 * kHidden + kFfn));
}

TEST_CASE("eager PyTorch keeps what the last product wrote, too, and no copies before a rotation, which is made again") {
  // The last product's is a hidden state; keys, of half as many heads as queries, are kept here and not there.
  const Llama read{"selective", true}, eager{"selective", true, 1, "swiglu", true, "eager"};
  CHECK(eager.kept() - read.kept() == 2 * kTokens * (kHidden - kHidden / 2));
  const Llama compiled{"selective", true, 1, "swiglu", true, "compiled"};
  CHECK(compiled.kept() == read.kept());
}

TEST_CASE("recompute_products says nothing where no operations are recomputed") {
  CHECK(Llama{"none", true}.kept() == Llama{}.kept());
  CHECK(Llama{"full", true}.backward_flops() == Llama{"full", false}.backward_flops());
}
