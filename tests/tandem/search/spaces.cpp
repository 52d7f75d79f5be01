#include "tests/tandem/search/spaces.hpp"

#include "models/planfile/plan_draft.hpp"
#include "models/stack/resolve.hpp"
#include "tests/catch.hpp"

namespace tandem::tests {

using namespace search;

Space space_of(const Asked& a, const std::string& stack) {
  Request r;
  r.subject = a.model, r.cluster = a.cluster, r.devices = a.devices, r.stack = stack;
  r.sequence = a.sequence, r.batch = a.batch, r.axes = a.axes;
  return Space(read_question(r));
}

std::int64_t brute_force(const Space& space, const Judge& judge) {
  std::int64_t least = 0;
  for (CandidateId id = 0; id < space.size(); ++id) {
    if (!space.divides(id)) continue;
    const Plan plan = space.plan(id);
    const bool possible = plan_problems(plan).empty() && lowering_gaps(plan).empty();
    if (!possible || !stack_problems(plan, plan.stack.name, plan.stack.as_of).empty()) continue;
    const Simulated s = judge.simulate(id);
    if (s.fits && (least == 0 || s.time_ps < least)) least = s.time_ps;
  }
  return least;
}

SearchOptions options(std::int64_t best) {
  SearchOptions o;
  o.best = best, o.events = 500;
  return o;
}

bool check_beside_brute_force(const Space& space, std::int64_t best) {
  Search search(space, options(best));
  search.explore();
  const Answer answer = search.answer();
  const std::int64_t least = brute_force(space, search.judge());
  REQUIRE(answer.best.empty() == (least == 0));
  if (least == 0) return false;
  CHECK(static_cast<double>(answer.best.front().time_ps) <= 1.005 * static_cast<double>(least));
  CHECK(answer.best.front().time_ps >= least);
  return true;
}

}  // namespace tandem::tests
