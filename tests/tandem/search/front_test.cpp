// The Pareto front against brute force.

#include "tests/catch.hpp"
#include "tests/tandem/search/spaces.hpp"

using namespace tandem;
using namespace tandem::search;
using namespace tandem::tests;

TEST_CASE("The Pareto front is the one that simulating every candidate finds") {
  for (const Asked& a : small_spaces()) {
    INFO(a.model);
    check_front(space_of(a));
  }
}
