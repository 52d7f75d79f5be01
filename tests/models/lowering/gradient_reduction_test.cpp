// When a stage's gradients leave.

#include <algorithm>
#include <map>

#include "models/graph/task_graph.hpp"
#include "tests/patched_plan.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using tests::patched_plan;
using tests::SmallPlan;

namespace {

/// By stage: whether reductions stand in front of the stage's last backward pass.
std::vector<bool> beside(int chunks, const std::string& parallel) {
  SmallPlan p;
  p.pipeline = 3;
  p.data = 2;
  p.layers = 6 * chunks;
  p.micro_batches = 6;
  std::vector<bool> out;
  const TaskGraph graph = lower(patched_plan(p, R"({"parallel": {"bucket_bytes": "1 B", )" + parallel + "}}"));
  for (const Program& program : graph.programs) {
    const auto of = [&](Phase phase) { return [phase](const Instance& i) { return i.phase == phase; }; };
    const auto& all = program.instances;
    const auto first = std::find_if(all.begin(), all.end(), of(Phase::reduce));
    REQUIRE(first != all.end());
    out.push_back(std::any_of(first, all.end(), of(Phase::backward)));
  }
  return out;
}

using Stages = std::vector<bool>;

/// Elements of gradients that a step of three micro-batches reduces over four data ranks, by kind of collective.
std::map<CollectiveKind, std::int64_t> reduced(int zero_stage, const std::string& more) {
  SmallPlan p;
  p.data = 4;
  p.micro_batches = 3;
  const std::string stage = R"({"parallel": {"zero_stage": )" + std::to_string(zero_stage) + more + "}}";
  const TaskGraph graph = lower(patched_plan(p, stage));
  std::map<CollectiveKind, std::int64_t> sums;
  for (const Instance& i : graph.programs[0].instances)
    for (const Task& task : graph.of(i).tasks)
      if (const auto* c = std::get_if<Collective>(&task.op))
        if (c->elements > 100 && c->kind != CollectiveKind::all_gather) sums[c->kind] += c->elements;
  return sums;
}

}  // namespace

TEST_CASE("In a pipeline without chunks only the first stage reduces beside its last backward pass") {
  CHECK(beside(1, R"("overlap_grad_reduce": true)") == Stages{true, false, false});
  CHECK(beside(1, R"("overlap_grad_reduce": true, "zero_stage": 1)") == Stages{true, false, false});
  CHECK(beside(1, R"("overlap_grad_reduce": false)") == Stages{false, false, false});
  CHECK(beside(2, R"("overlap_grad_reduce": true, "virtual_pipeline": 2, "schedule": "interleaved")") == Stages{true, true, true});
}

TEST_CASE("Without reduce_scatter, ZeRO 1 and 2 sum the same gradients with all_reduce") {
  const int stage = GENERATE(1, 2);
  const auto shares = reduced(stage, ""), whole = reduced(stage, R"(, "reduce_scatter": false)");
  const std::int64_t elements = shares.at(CollectiveKind::reduce_scatter);
  CHECK(shares.size() == 1);
  CHECK(whole == std::map<CollectiveKind, std::int64_t>{{CollectiveKind::all_reduce, elements}});
  CHECK(reduced(0, "") == reduced(0, R"(, "reduce_scatter": false)"));
}

TEST_CASE("Whole sums of gradients hold up no later computation") {
  SmallPlan p;
  p.data = 2;
  p.micro_batches = GENERATE(1, 3);
  const TaskGraph graph = lower(patched_plan(p, R"({"parallel": {"zero_stage": 2, "reduce_scatter": false, "overlap_grad_reduce": true}})"));
  int beside = 0;
  const auto& all = graph.programs[0].instances;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& tasks = graph.of(all[i]).tasks;
    const bool sums = std::any_of(tasks.begin(), tasks.end(), [](const Task& t) {
      const auto* c = std::get_if<Collective>(&t.op);
      return c != nullptr && c->elements > 100 && c->kind == CollectiveKind::all_reduce;
    });
    const auto later = all.begin() + static_cast<std::ptrdiff_t>(i);
    const bool more = std::any_of(later, all.end(), [](const Instance& x) { return x.phase == Phase::backward; });
    if (!sums || !more) continue;
    ++beside;
    // What follows a sum on the compute stream waits for it: its share is taken later.
    CHECK(tasks.back().stream == Stream::data);
  }
  CHECK(beside > 0);
}
