// Communicators of frameworks: what stacks' files say.

#include "models/plan/stack_facts.hpp"

#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "tests/odd_stack.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

/// Counts by group that a plan of a stack with this list has, or what is wrong with the list.
std::string read(const std::string& list) {
  Plan plan = parse_plan(kGoodPlan, "good.json");
  return tests::with_odd_stack("communicators", list, [&] {
    tests::set_stack(plan, "odd");
    std::string out;
    for (const Communicators& c : plan.stack.facts.communicators) out += std::string(name(c.group)) + " " + std::to_string(c.count) + " ";
    return out;
  });
}

}  // namespace

TEST_CASE("a stack says how many communicators of which groups its framework makes for a plan") {
  CHECK(read(R"([{"group": "data", "count": 2, "source": "s", "verified": true},
    {"group": "world", "count": 1, "when": {"training.seq_length": {"min": 1000000}}, "source": "s", "verified": true},
    {"group": "embedding", "count": 1, "source": "s", "verified": false}])") == "data 2 embedding 1 ");
  CHECK(read("[]").empty());
  CHECK(parse_plan(kGoodPlan, "good.json").stack.facts.communicators.empty());
}

TEST_CASE("a list of communicators with a defect is refused") {
  CHECK(read("3") == "is not a list");
  CHECK(read(R"([{"group": "data", "count": 2, "source": "s"}])") == "an entry lacks verified");
  CHECK(read(R"([{"group": "shard", "count": 2, "source": "s", "verified": true}])") ==
        "is none of tensor, data, pipeline, model, embedding and world");
  CHECK(read(R"([{"group": "data", "count": 0, "source": "s", "verified": true}])") == "count is no whole number from 1 to 100");
  CHECK(!read(R"([{"group": "data", "count": 1, "when": {"odd": 1}, "source": "s", "verified": true}])").empty());
}
