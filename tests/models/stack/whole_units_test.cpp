// What a stack says of ZeRO 2 and 3 in pipelines, and what is sent where its stages have all of it between micro-batches.


#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "tests/odd_stack.hpp"
#include "tests/plans.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

/// Two stages of two data ranks.
Plan piped(const std::string& stack, int zero_stage, int micro_batches) {
  tests::SmallPlan small;
  small.pipeline = small.data = 2;
  small.micro_batches = micro_batches;
  Plan plan = small.plan();
  plan.parallel.zero_stage = zero_stage;
  return stack == "odd" ? plan : tests::under(plan, stack);
}

/// Bytes that a rank of the first stage gives in a step to collectives of those that share what ZeRO shards.
Bytes sent(const Plan& plan) {
  Bytes sum;
  for (const Books::Line& line : count(lower(plan), StageId(0)).collectives)
    if (line.group == Group::shard) sum += line.payload;
  return sum;
}

/// "yes" or "no" of a plan whose stack has this list, or what is wrong with the list.
std::string read(const std::string& list, const Plan& of = piped("odd", 3, 2)) {
  return tests::with_odd_stack("whole_between_micro_batches", list, [&] { return tests::under(of, "odd").stack.facts.whole_between_micro_batches ? "yes" : "no"; });
}

}  // namespace

TEST_CASE("a stack says of which pipelines ZeRO 2 and 3 have weights and gradients whole between micro-batches") {
  const std::string always = R"([{"source": "s", "verified": true}])";
  CHECK(read(always) == "yes");
  CHECK(read(always, piped("odd", 2, 2)) == "yes");
  CHECK(read(always, piped("odd", 1, 2)) == "no");
  Plan alone = piped("odd", 3, 2);
  alone.parallel.pipeline = 1;
  CHECK(read(always, alone) == "no");
  Plan offloaded = piped("odd", 3, 2);
  offloaded.parallel.offload.parameters = true;
  CHECK(read(always, offloaded) == "no");
  CHECK(read(R"([{"when": {"parallel.zero_stage": {"max": 2}}, "source": "s", "verified": true}])") == "no");
  CHECK(read("[]") == "no");
}

TEST_CASE("a list of what is whole between micro-batches that has a defect is refused") {
  CHECK(read("3") == "is not a list");
  CHECK(read(R"([{"source": "s"}])") == "an entry lacks verified");
  CHECK(read(R"([{"when": {"odd": 1}, "source": "s", "verified": true}])") == "there is no field \"odd\"");
}

TEST_CASE("a stack's list of conditions says yes wherever an entry's hold, and a stack without the list no") {
  const auto states = [](const std::string& list) {
    return tests::with_odd_stack("caching_allocator", list, [&] { return tests::under(piped("odd", 3, 2), "odd").stack.facts.caching_allocator ? "yes" : "no"; });
  };
  const std::string never = R"({"when": {"parallel.zero_stage": {"max": 2}}, "source": "s", "verified": true})";
  const std::string always = R"({"source": "s", "verified": true})";
  CHECK(states("[" + never + ", " + always + "]") == "yes");
  CHECK(states("[" + never + "]") == "no");
  CHECK(states("[" + always + ", " + R"({"verified": true})" + "]") == "an entry lacks source");
  CHECK(piped("megatron-core", 1, 2).stack.facts.caching_allocator);
  CHECK_FALSE(piped("tandem", 1, 2).stack.facts.caching_allocator);
  CHECK(piped("tandem", 1, 2).stack.facts.arena);
  CHECK_FALSE(piped("megatron-core", 1, 2).stack.facts.arena);
}

TEST_CASE("pipelines of PyTorch's FSDP and of Megatron-Core gather weights once and reduce gradients once a step") {
  // With one micro-batch ZeRO 2 does just that: one gather of the weights and one reduction of their gradients.
  const Bytes once = sent(piped("tandem", 2, 1));
  CHECK(once.count() > 0);
  for (const int micro_batches : {1, 2, 4})
    for (const int zero : {2, 3}) {
      INFO("ZeRO " << zero << ", " << micro_batches << " micro-batches");
      CHECK(sent(piped("pytorch-fsdp", zero, micro_batches)) == once);
      CHECK(sent(piped("megatron-core", zero, micro_batches)) == once);
    }
  CHECK(sent(piped("tandem", 2, 4)).count() > 2 * once.count());
}
