// Books of the graph against closed forms written here from the model's arithmetic.

#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"
#include "tests/stacks.hpp"

using namespace tandem;
using tests::SmallPlan;

namespace {

struct Case {
  SmallPlan plan;
  std::int64_t tokens() const { return std::int64_t(plan.micro_batch) * plan.seq; }
  std::int64_t padded_vocab() const { return (std::int64_t(plan.vocab) + 15) / 16 * 16; }
};

SmallPlan layout(int tensor, int pipeline, int data) {
  SmallPlan p;
  p.tensor = tensor;
  p.pipeline = pipeline;
  p.data = data;
  return p;
}

/// Matrix FLOPs of a step over all ranks: 2 per multiply-add, attention over the full square.
std::int64_t expected_flops(const SmallPlan& p, std::int64_t padded_vocab) {
  const std::int64_t h = p.hidden, s = p.seq, f = p.ffn;
  const std::int64_t layer = 2 * (4 * h * h + 2 * h * f) + 4 * s * h;   // forward, a token
  const std::int64_t passes = p.recompute == "full" ? 4 : 3;            // forward, (forward again,) twice backward
  const std::int64_t left_out = p.recompute == "full" ? 2 * f * h : 0;  // again not to the end: the last product
  const std::int64_t batch_tokens = std::int64_t(p.micro_batch) * p.micro_batches * p.data * s;
  return batch_tokens * (p.layers * (passes * layer - left_out) + 3 * 2 * h * padded_vocab);
}

std::int64_t total_flops(const SmallPlan& p) {
  const TaskGraph graph = lower(p.plan());
  std::int64_t sum = 0;
  for (const Program& program : graph.programs) sum += count(graph, program.stage).matrix.count() * p.tensor * p.data;
  return sum;
}

const Books::Line* line(const Books& books, Group group) {
  for (const Books::Line& l : books.collectives)
    if (l.group == group) return &l;
  return nullptr;
}

/// Layers, the two ends' small parts and the vocabulary's matrices begin at whole blocks of elements.
std::int64_t padded(std::int64_t elements) { return (elements + 63) / 64 * 64; }

/// Parameters of a stage with these parts, on one tensor rank, with the padding between them.
std::int64_t local_parameters(const SmallPlan& p, int layers, bool first, bool last, std::int64_t padded_vocab) {
  const std::int64_t h = p.hidden, t = p.tensor, f = p.ffn, word = padded_vocab / t * h;
  const std::int64_t layer = 4 * h + 4 * h * h / t + 3 * h / t + h + 2 * h * f / t + f / t + h;
  const bool own_output = last && (!first || !p.tied);
  return layers * padded(layer) + (first ? padded(word) + padded(p.seq * h) : 0) + (last ? padded(2 * h) : 0) +
         (own_output ? padded(word) : 0);
}

}  // namespace

TEST_CASE("matrix FLOPs over all ranks do not depend on the layout") {
  auto p = GENERATE(layout(1, 1, 1), layout(2, 1, 1), layout(4, 1, 1), layout(1, 4, 1), layout(1, 3, 2), layout(2, 2, 2));
  p.recompute = GENERATE("none", "full");
  p.tied = GENERATE(true, false);
  INFO(p.label());
  CHECK(total_flops(p) == expected_flops(p, Case{p}.padded_vocab()));
}

TEST_CASE("a tensor rank sums the hidden states twice a layer and pass, and the vocabulary's statistics") {
  auto p = layout(GENERATE(2, 4), 1, GENERATE(1, 2));
  p.recompute = GENERATE("none", "full");
  const Case c{p};
  const Books books = count(lower(p.plan()), StageId(0));
  const Books::Line* l = line(books, Group::tensor);
  REQUIRE(l);
  const std::int64_t sums = p.recompute == "full" ? 5 : 4;  // a layer that runs again does not need its last
  const std::int64_t hidden = c.tokens() * p.hidden, m = p.micro_batches;
  // Embedding forward, head backward; maxima and two sums a token.
  const std::int64_t elements = m * (hidden * (p.layers * sums + 2) + 3 * c.tokens());
  CHECK(l->payload == Bytes(8 * elements));
  CHECK(l->calls == m * (p.layers * sums + 2 + 2));
}

TEST_CASE("data-parallel reduction carries every local parameter once, and the loss") {
  auto p = layout(GENERATE(1, 2), GENERATE(1, 2, 4), 2);
  p.overlap = GENERATE(false, true);
  p.tied = GENERATE(true, false);
  const Case c{p};
  Plan plan = p.plan();
  tests::set_stack(plan, GENERATE("tandem", "megatron-core", "pytorch-ddp"));
  const TaskGraph graph = lower(plan);
  for (int s = 0; s < p.pipeline; ++s) {
    const bool first = s == 0, last = s + 1 == p.pipeline;
    const auto layers = static_cast<int>(p.plan().layers_per_stage()[static_cast<std::size_t>(s)]);
    std::int64_t elements = local_parameters(p, layers, first, last, c.padded_vocab());
    // On one stage Tandem's own step reduces the two halves of a tied matrix apart.
    if (first && last && p.tied && plan.stack.name == "tandem") elements += padded(c.padded_vocab() / p.tensor * p.hidden);
    const Books books = count(graph, StageId(s));
    const Books::Line* l = line(books, Group::data);
    REQUIRE(l);
    INFO(p.label() << " stage " << s);
    CHECK(l->payload == Bytes(8 * (elements + (last ? 1 : 0))));
  }
}

TEST_CASE("every micro-batch crosses every stage boundary once in each direction") {
  auto p = layout(GENERATE(1, 2), GENERATE(2, 4), 1);
  const Case c{p};
  const TaskGraph graph = lower(p.plan());
  for (int s = 0; s < p.pipeline; ++s) {
    const Books books = count(graph, StageId(s));
    const int boundaries = (s > 0 ? 1 : 0) + (s + 1 < p.pipeline ? 1 : 0);
    CHECK(books.sends == boundaries * p.micro_batches);
    CHECK(books.sent == Bytes(8 * c.tokens() * p.hidden * books.sends));
  }
}

TEST_CASE("buckets are closed by size and together hold everything once") {
  SmallPlan p = layout(1, 1, 2);
  p.tied = false;
  const auto calls = [&](int bytes) {
    p.bucket_bytes = bytes;
    const Books books = count(lower(p.plan()), StageId(0));
    return line(books, Group::data)->calls;
  };
  CHECK(calls(1) == p.layers + 4 + 1);      // norm, output, layers, positions, words; the loss
  CHECK(calls(1'000'000'000) == 1 + 1);
}

TEST_CASE("the gradients' norm is of those that a rank updates, whichever it holds") {
  const int zero = GENERATE(0, 1, 2, 3);
  Plan plan = layout(1, 1, 4).plan();
  plan.parallel.zero_stage = zero;
  plan.training.optimizer.kind = GENERATE(OptimizerKind::adamw, OptimizerKind::lans);
  const TaskGraph graph = lower(plan);
  const Program& program = graph.programs.front();
  CHECK(program.shard_elements == program.flat_elements / (zero == 0 ? 1 : 4));
  std::vector<std::int64_t> elements;
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks) {
      if (const auto* norm = std::get_if<GradNorm>(&task.op)) elements.push_back(norm->elements);
      if (const auto* each = std::get_if<TensorNorms>(&task.op)) elements.push_back(each->elements);
    }
  const std::size_t norms = plan.training.optimizer.kind == OptimizerKind::lans ? 2 : 1;
  CHECK(elements == std::vector<std::int64_t>(norms, program.shard_elements));
}
