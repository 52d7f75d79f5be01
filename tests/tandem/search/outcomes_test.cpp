// What becomes of candidates, and how many there are of each outcome.

#include "experiments/tandem/search/search.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/search/spaces.hpp"

using namespace tandem;
using namespace tandem::search;
using namespace tandem::tests;

TEST_CASE("Every candidate of a search is under the reason that it is counted under") {
  const Space space = space_of(small_spaces().front());
  Search search(space, options());
  search.explore();
  const Answer answer = search.answer();
  Counts counts{};
  std::string reason;
  for (CandidateId id = 0; id < space.size(); ++id) ++at(counts, search.outcome(id, answer, reason));
  CHECK(counts == answer.counts);
  CHECK(at(counts, Outcome::bounded) > 0);
  CHECK(at(counts, Outcome::estimated) + at(counts, Outcome::simulated) > 0);
}

TEST_CASE("A stack's refusal is found with a group of one candidate, before bounds, and only where its rule holds") {
  const Space space = space_of(small_spaces()[1]);
  REQUIRE(space.members() == 1);
  const Judge judge(space, {});
  Counts counts{};
  for (CandidateId id = 0; id < space.size(); ++id) {
    INFO(space.text(id));
    const Plan plan = space.plan(id);
    const bool refused = plan.parallel.pipeline > 1 && plan.parallel.zero_stage > 1;  // Megatron-LM's arguments.py
    const GroupView group = judge.group(id);
    if (group.outcome == Outcome::stack) CHECK(refused);
    if (group.outcome == Outcome::bounded || group.outcome == Outcome::same) CHECK(!refused);
    ++at(counts, group.outcome);
  }
  CHECK(at(counts, Outcome::stack) > 0);
  CHECK(at(counts, Outcome::bounded) > 0);
}

TEST_CASE("Numbers alone refuse only groups that their plans refuse, for the same reason, and most of those") {
  std::vector<Asked> all = small_spaces();
  const char* const few = "recompute=full";
  all.push_back({"gpt-1.3b-moe128", "dgx-h100", 24, 48, {few, "zero_stage=1", "overlap_experts=false", "pipeline_split=auto,balanced"}});
  all.push_back({"deepseek-v2-lite", "gb200-nvl72", 72, 144, {few, "zero_stage=1", "overlap_experts=false", "micro_batch_size=1,3"}, 4098});
  all.push_back({"llama3-8b", "dgx-h100", 64, 64, {few, "schedule=1f1b,interleaved,gpipe,v-half,zb-h1", "context=1,2,3,4", "data=1,2,8", "zero_stage=0"}, 16384});
  std::int64_t layouts = 0, quick = 0;
  for (const Asked& asked : all) {
    const Space space = space_of(asked);
    const Judge judge(space, {});
    for (std::int64_t g = 0; g < space.groups(); ++g) {
      const GroupView view = judge.group(g);
      const std::optional<Outcome> simple = judge.refused_by_numbers(g);
      layouts += view.outcome == Outcome::layout ? 1 : 0;
      quick += simple == Outcome::layout ? 1 : 0;
      INFO(asked.model << " " << space.text(g * space.members()));
      if (simple) CHECK(*simple == view.outcome);
      if (view.outcome == Outcome::devices || view.reason.starts_with("training.global_batch_size")) CHECK(simple);
    }
  }
  CHECK(4 * quick > 3 * layouts);
}

TEST_CASE("A search tells how many groups it has settled and sharpened, also of one that it goes on from") {
  const Space space = space_of(small_spaces().front());
  Search first(space, options()), second(space, options());
  first.explore();
  second.take(first.knowledge());
  for (const Search* search : {&first, &second}) {
    std::int64_t refused = 0, sharp = 0;
    for (const GroupFact& f : search->knowledge().facts) refused += f.outcome != Outcome::bounded ? 1 : 0, sharp += f.sharp ? 1 : 0;
    CHECK(search->settled_groups() == refused + static_cast<std::int64_t>(search->knowledge().groups.size()));
    CHECK(search->sharp_groups() == sharp);
    CHECK(sharp > 0);
  }
}

TEST_CASE("ZeRO over one rank is counted as the step without it where events say the same, and only there") {
  const auto [stack, alike] = GENERATE(table<std::string, bool>({{"megatron-core", true}, {"neuronx", false}}));
  INFO(stack);
  const Asked asked{"llama2-7b", "dgx-a100-80gb", 8, 8,
                    {"tensor=8", "pipeline=1", "virtual_pipeline=1", "schedule=1f1b", "micro_batch_size=1", "zero_stage=0,1", "recompute=none", "sequence_parallel=false"}};
  const Space space = space_of(asked, stack);
  REQUIRE(space.size() == 2);
  Search search(space, options(10));
  search.explore();
  const Simulated without = search.judge().simulate(0), with = search.judge().simulate(1);
  CHECK((without.time_ps == with.time_ps && without.needed == with.needed) == alike);
  CHECK(at(search.answer().counts, Outcome::same) == (alike ? 1 : 0));
}

TEST_CASE("A search where nothing fits says so and still counts every candidate") {
  const Space space = space_of({"gpt3-175b", "dgx-a100-80gb", 8, 32, {"virtual_pipeline=1", "micro_batch_size=1", "recompute=full"}});
  Search search(space, options());
  search.explore();
  const Answer answer = search.answer();
  CHECK(answer.best.empty());
  CHECK(at(answer.counts, Outcome::too_large) > 0);
}
