// The rows of a search against brute force.

#include <algorithm>

#include "experiments/tandem/search/search.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/search/spaces.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::search;
using namespace tandem::tests;

TEST_CASE("A search finds the step that simulating every candidate finds, within half a percent") {
  for (const Asked& a : small_spaces()) {
    INFO(a.model);
    REQUIRE(check_beside_brute_force(space_of(a)));
  }
}

TEST_CASE("The best rows of a search are the fastest of all candidates, each simulated") {
  for (const Asked& a : small_spaces()) {
    INFO(a.model << " on " << a.cluster);
    const Space space = space_of(a);
    Search search(space, options(8));
    search.explore();
    std::vector<std::int64_t> found;
    for (const Simulated& s : search.answer().best) found.push_back(s.time_ps);
    CHECK(found == fastest(space, search.judge(), 8));
    CHECK(search.knowledge().simulated.size() + search.knowledge().groups.size() < 2 * static_cast<std::size_t>(space.groups()));
  }
}

TEST_CASE("A search over the overlap of experts finds the rows and the front that simulating every candidate finds") {
  const TemporaryFolder folder;
  const Space space = space_of({folder.file("mixture.json", kMixture), "dgx-h100", 16, 64,
                                {"tensor=1,2", "pipeline=1,2", "expert=8,16", "micro_batch_size=1", "virtual_pipeline=2,1", "zero_stage=0,1",
                                 "sequence_parallel=true,false", "recompute=none,selective", R"(recompute_modules=["norm","moe_activation"])"}, 4096});
  REQUIRE(space.axis_of("parallel.overlap_experts") >= 0);
  Search search(space, options(8));
  search.explore();
  std::vector<std::int64_t> found;
  int paired = 0;
  for (const Simulated& s : search.answer().best) found.push_back(s.time_ps), paired += space.plan(s.id).runs_pairs() ? 1 : 0;
  CHECK(found == fastest(space, search.judge(), 8));
  CHECK(paired > 0);
  CHECK(paired < 8);
  check_front(space);
}
