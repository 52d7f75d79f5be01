#include "models/graph/task_graph.hpp"
#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "tests/tandem/search/spaces.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::search;

namespace {

/// A published run, and the axes that its framework did not have yet, held at what it had.
struct Published {
  std::string plan;
  std::vector<std::string> axes;
};

/// Sequence parallelism and selective recomputation came with arXiv 2205.05198 in May 2022.
const std::vector<std::string> kBefore2022{"sequence_parallel=false", "recompute=full"};

double seconds_of(const std::string& path) {
  const Plan plan = load_plan(path, {generation_of});
  return sim::simulate(plan, lower(plan), *make_topology(plan.cluster)).step_time.seconds();
}

}  // namespace

TEST_CASE("A search finds no step that is more than 5 % faster than the layout of BLOOM's run", "[.nightly]") {
  const Published run{tests::source_dir() + "/tests/tandem/search/plans/bloom-176b-384.json", kBefore2022};
  Request request;
  request.subject = run.plan, request.axes = run.axes;
  const Space space(read_question(request));
  Search search(space, tests::options(1));
  search.explore();
  const Answer answer = search.answer();
  REQUIRE(!answer.best.empty());
  const double found = static_cast<double>(answer.best.front().time_ps) * 1e-12, published = seconds_of(run.plan);
  CHECK(found <= published);
  CHECK(published <= 1.05 * found);
}
