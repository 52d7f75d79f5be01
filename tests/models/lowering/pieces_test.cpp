// Blocks in pieces, for two passes at once.

#include <algorithm>
#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/lowering/templates/pieces.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

/// A layer of experts behind a dense one, four ranks a stage.
Plan plan_of(const std::string& parallel) {
  return parse_plan(R"({"model": {"family": "llama", "num_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 7,
                       "moe": {"num_experts": 4, "ffn_hidden_size": 4, "num_shared_experts": 1, "first_dense_layers": 1}},
                       "parallel": {"data": 4, "expert": 4, )" + parallel + R"(},
                       "training": {"seq_length": 4, "micro_batch_size": 1, "global_batch_size": 16, "precision": "fp32"},
                       "cluster": {"preset": "cpu-host", "devices": 4}})",
                    "pieces.json");
}

bool of_experts(const Template& t) {
  return std::any_of(t.tasks.begin(), t.tasks.end(), [](const Task& task) {
    const auto* c = std::get_if<Collective>(&task.op);
    return c != nullptr && c->kind == CollectiveKind::all_to_all;
  });
}

std::vector<std::string> names(const std::vector<Template>& pieces) {
  std::vector<std::string> out;
  for (const Template& t : pieces)
    for (const Task& task : t.tasks) out.push_back(task.name);
  return out;
}

}  // namespace

TEST_CASE("pieces of a block have its tasks in order, and each begins where rows have arrived") {
  const TaskGraph graph = lower(plan_of(R"("zero_stage": 0)"));
  int cut = 0;
  for (const Template& t : graph.templates) {
    if (t.name != "block_forward" && t.name != "block_backward") continue;
    CAPTURE(t.name);
    const std::vector<Template> pieces = lowering::pieces_of(t);
    if (!of_experts(t)) {
      CHECK(pieces.size() == 1);
      continue;
    }
    ++cut;
    // Rows go to experts and come back, so that there are three computations between.
    CHECK(pieces.size() == 3);
    CHECK(names(pieces) == names({t}));
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      CHECK(pieces[i].slots.front().bytes == Bytes(0));
      CHECK(pieces[i].slots.back().bytes == t.slots.front().bytes);
      CHECK(of_experts(pieces[i]) == (i < 2));
      CHECK(pieces[i].tasks.front().stream == Stream::compute);
      for (const Task& task : pieces[i].tasks)
        for (const auto* operands : {&task.inputs, &task.outputs})
          for (const Operand& o : *operands) CHECK(o.slot != 0);
    }
  }
  CHECK(cut == 3);  // forward, and backward of the first micro-batch and of the others
}

TEST_CASE("between the pieces of a block stand those of another micro-batch") {
  const TaskGraph graph = lower(plan_of(R"("overlap_experts": true)"));
  const auto& instances = graph.programs.front().instances;
  int turns = 0;
  for (std::size_t i = 0; i + 1 < instances.size(); ++i) {
    const Instance &a = instances[i], &b = instances[i + 1];
    if (a.layer >= 0 && b.layer >= 0 && a.phase == Phase::backward && b.phase == Phase::forward) {
      CHECK(a.micro_batch + 1 == b.micro_batch);
      ++turns;
    }
  }
  // Three pairs of four micro-batches; of each the dense layer of one beside the experts of the other, twice.
  CHECK(turns >= 3 * 2);
}
