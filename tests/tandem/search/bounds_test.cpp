// Lower bounds against simulated steps, and what they cost.

#include <set>

#include "experiments/tandem/search/search.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/search/spaces.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::search;
using namespace tandem::tests;

TEST_CASE("Bounds on time and memory are below what events say") {
  for (const Asked& a : small_spaces()) {
    INFO(a.model);
    const Space space = space_of(a);
    const Judge judge(space, {});
    for (CandidateId id = 0; id < space.size(); id += 3) {
      const GroupView view = judge.group(id / space.members());
      if (view.outcome != Outcome::bounded) continue;
      const Simulated s = judge.simulate(id);
      INFO(space.text(id));
      const GroupView own = judge.closer(id / space.members());
      CHECK(view.floor_ps <= own.floor_ps);
      if (s.timed) CHECK(own.floor_ps <= s.time_ps);
      if (s.timed) CHECK(judge.passes_floor(id / space.members()) <= s.time_ps);
      if (s.timed) CHECK(judge.unrepeated_floor(id / space.members()) <= s.time_ps);
      CHECK(own.memory_floors[static_cast<std::size_t>(id % space.members())] <= s.needed);
      if (view.too_large[static_cast<std::size_t>(id % space.members())]) CHECK(!s.fits);
      CHECK(view.memory_floors[static_cast<std::size_t>(id % space.members())] <= s.needed);
    }
  }
}

TEST_CASE("Bounds of plans with an MTP module are below what events say, and come near it") {
  const TemporaryFolder folder;
  const std::string model = folder.file("mtp.json", R"({"model": {"family": "llama", "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "ffn_hidden_size": 11008, "vocab_size": 32000, "mtp": {"num_layers": 1}}})");
  const Space space = space_of({model, "dgx-a100-80gb", 8, 32,
                                {"tensor=1,2", "pipeline=1,4", "virtual_pipeline=1,2", "schedule=1f1b,interleaved", "zero_stage=0,1,2",
                                 "recompute=none,full", "micro_batch_size=1", "sequence_parallel=false"}, 4096});
  const Judge judge(space, {});
  int large = 0, near = 0, timed = 0;
  for (CandidateId id = 0; id < space.size(); ++id) {
    const GroupView view = judge.group(id / space.members());
    if (view.outcome != Outcome::bounded) continue;
    INFO(space.text(id));
    const Simulated s = judge.simulate(id);
    const CandidateView c = judge.candidate(id);
    large += c.outcome == Outcome::too_large ? 1 : 0;
    if (c.outcome == Outcome::too_large) CHECK(!s.fits);
    if (!s.timed) continue;
    const std::int64_t floor = judge.passes_floor(id / space.members());
    CHECK(floor <= s.time_ps);
    near += static_cast<double>(floor) > 0.8 * static_cast<double>(s.time_ps) ? 1 : 0, ++timed;
  }
  CHECK(large > 0);
  CHECK(timed > 0);
  CHECK(2 * near > timed);
}

TEST_CASE("A search over chunks in a V, with and without pairs of passes, finds what brute force finds, and its bounds hold") {
  const Asked asked{"gpt-1.3b-moe128", "dgx-h100", 16, 32,
                    {"tensor=1", "pipeline=2,4", "expert=4", "virtual_pipeline=2", "schedule=interleaved,dualpipe-v,zb-v,v-half,v-min", "zero_stage=0,1",
                     "overlap_experts=false,true", "micro_batch_size=1", "recompute=none", "sequence_parallel=false"}};
  const Space space = space_of(asked, "tandem");
  REQUIRE(check_beside_brute_force(space));
  const Judge judge(space, {});
  int pairs = 0, zero_bubble = 0, third = 0;
  for (CandidateId id = 0; id < space.size(); ++id) {
    const GroupView view = judge.group(id / space.members());
    if (view.outcome != Outcome::bounded) continue;  // pairs of passes beside other schedules are not lowered
    const Simulated s = judge.simulate(id);
    if (!s.timed) continue;
    INFO(space.text(id));
    pairs += space.text(id).find("dualpipe-v") != std::string::npos ? 1 : 0;
    third += space.text(id).find("v-min") != std::string::npos ? 1 : 0;
    zero_bubble += space.text(id).find("zb-v") != std::string::npos ? 1 : 0;
    CHECK(view.floor_ps <= s.time_ps);
    CHECK(view.memory_floors[static_cast<std::size_t>(id % space.members())] <= s.needed);
  }
  CHECK(pairs > 0);
  CHECK(zero_bubble > 0);
  CHECK(third > 0);
}

TEST_CASE("Layers are lowered for bounds only where these could matter, not for all that may be computed again") {
  const Asked asked{"gpt-1.3b-moe128", "dgx-h100", 64, 256,
                    {"virtual_pipeline=1", "schedule=1f1b", "zero_stage=1", "recompute=none,selective,full", kMixedSets}};
  const Space space = space_of(asked);
  Search search(space, options());
  search.explore();
  std::set<CandidateId> all, unrepeated;
  for (CandidateId g = 0; g < space.groups(); ++g) {
    if (search.judge().group(g).outcome != Outcome::bounded) continue;
    all.insert(space.same_layers(g * space.members())), unrepeated.insert(space.same_unrepeated_layers(g * space.members()));
  }
  CHECK(4 * unrepeated.size() < all.size());
  CHECK(search.judge().lowered().floors >= unrepeated.size() / 2);
  CHECK(2 * search.judge().lowered().floors < all.size());
  CHECK(search.judge().lowered().layers < search.judge().lowered().floors);
}
