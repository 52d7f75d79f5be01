// A loss in chunks: no tensor has all logits, and the FLOPs stay.

#include <algorithm>

#include "models/base/error.hpp"
#include "models/graph/stage_flops.hpp"
#include "tests/models/lowering/memory_case.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

TaskGraph lowered(const MemoryCase& c, std::int64_t chunks) {
  Plan plan = c.plan();
  plan.training.loss_chunks = chunks;
  TaskGraph graph = lower(plan);
  CHECK_NOTHROW(graph.check());
  return graph;
}

const Template& template_of(const TaskGraph& graph, const std::string& name) {
  const std::vector<Template>& all = graph.templates;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Template& t) { return t.name == name; });
  REQUIRE(found != all.end());
  return *found;
}

std::int64_t products(const Template& t) {
  std::int64_t sum = 0;
  for (const Task& task : t.tasks)
    if (const auto* m = std::get_if<MatMul>(&task.op)) sum += 2 * m->m * m->n * m->k;
  return sum;
}

std::int64_t largest_scratch(const Template& t) {
  std::int64_t most = 0;
  for (const ScratchTensor& s : t.scratch) most = std::max(most, s.bytes.count());
  return most;
}

}  // namespace

TEST_CASE("a loss in chunks has the products of a loss of all tokens, and a part of its logits") {
  MemoryCase c;
  c.layers = 2;
  c.hidden = 64;
  c.ffn = 256;
  c.vocab = 16384;
  c.seq = 512;
  const TaskGraph whole = lowered(c, 1), parts = lowered(c, 4);
  const Template &forward = template_of(whole, "head_forward"), &backward = template_of(whole, "head_backward");
  const Template &norm = template_of(parts, "head_forward"), &loss = template_of(parts, "head_backward");
  CHECK(norm.tasks.size() == 1);
  CHECK(products(norm) == 0);
  CHECK(products(loss) == products(forward) + products(backward));
  CHECK(largest_scratch(loss) == c.batch * c.seq / 4 * c.vocab * 4);  // fp32 gradients of a chunk's logits
  const auto live = [](const TaskGraph& graph) { return graph.programs.front().memory.live_peak_bytes; };
  CHECK(live(parts) < live(whole));
  CHECK(model_flops_of_step(parts, 1) == model_flops_of_step(whole, 1));
  for (const char* task : {"chunk0_logits", "chunk3_cross_entropy", "chunk3_logits_wgrad"})
    CHECK(std::any_of(loss.tasks.begin(), loss.tasks.end(), [&](const Task& t) { return t.name == task; }));
}

TEST_CASE("a framework may collect the gradients of all chunks' states in fp32, and casts them behind the last") {
  MemoryCase c;
  c.seq = 512;
  Plan plan = c.plan();
  plan.training.loss_chunks = 4;
  const TaskGraph narrow = lower(plan);
  plan.stack.facts.wide_tensors.chunk_gradients = true;
  const TaskGraph wide = lower(plan);
  CHECK_NOTHROW(wide.check());
  const Template &plain = template_of(narrow, "head_backward"), &collects = template_of(wide, "head_backward");
  CHECK(collects.tasks.size() == plain.tasks.size() + 5);  // a cast of each chunk, and one of all
  const std::int64_t states = c.batch * c.seq * c.hidden;
  const auto bytes = [](const Template& t) {
    std::int64_t sum = 0;
    for (const ScratchTensor& s : t.scratch) sum += s.bytes.count();
    return sum;
  };
  CHECK(bytes(collects) == bytes(plain) + 4 * states + 2 * states);  // all in fp32, and chunks in bf16 beside the whole cast
}

TEST_CASE("a loss in chunks that does not divide the tokens, or beside modules, is refused by name") {
  const auto refused = [](const std::string& model, const std::string& training) {
    std::vector<std::string> out;
    try {
      const Plan plan = parse_plan(R"({"stack": "tandem", "model": {)" + model + R"(}, "training": {"seq_length": 1000, "micro_batch_size": 1, "global_batch_size": 8, )" +
                                       training + R"(}, "cluster": {"preset": "dgx-h100", "devices": 8}})",
                                   "chunks.json");
      require_lowerable(plan);
    } catch (const InfeasibleError& e) {
      for (const Problem& problem : e.problems()) out.push_back(problem.message());
    }
    return out;
  };
  const std::string llama = R"("preset": "llama3-8b")", modules = R"("preset": "llama3-8b", "mtp": {"num_layers": 1})";
  CHECK(refused(llama, R"("loss_chunks": 8)").empty());
  CHECK(refused(modules, R"("loss_chunks": 1)").empty());
  CHECK(refused(modules, R"("loss_chunks": 8)").size() == 1);
  const auto uneven = refused(llama, R"("loss_chunks": 16)");
  REQUIRE(uneven.size() == 1);
  CHECK(uneven.front().find("training.loss_chunks = 16: does not divide the 1000 tokens of a micro-batch on a rank") != std::string::npos);
}
