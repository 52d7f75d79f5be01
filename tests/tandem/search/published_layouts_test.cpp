#include "models/graph/task_graph.hpp"
#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "tests/tandem/search/spaces.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::search;

namespace {

/// A published run, what its authors had chosen before they chose a layout, and whether its layout fits by Tandem's count.
struct Published {
  std::string plan;
  std::vector<std::string> axes;
  bool fits = true;
};

const std::string kBloom = "/tests/tandem/search/plans/bloom-176b-384.json";
const std::string kGpt3 = "/experiments/plans/gpt3-175b-sc21-1024.json";
const std::string kLlama = "/experiments/plans/llama3-405b-16384.json";

double seconds_of(const std::string& path) {
  const Plan plan = load_plan(path, {generation_of});
  return sim::simulate(plan, lower(plan), *make_topology(plan.cluster)).step_time.seconds();
}

double found(const std::string& path, const std::vector<std::string>& axes) {
  Request request;
  request.subject = path, request.axes = axes;
  const Space space(read_question(request));
  Search search(space, tests::options(1));
  search.explore();
  const Answer answer = search.answer();
  REQUIRE(!answer.best.empty());
  return static_cast<double>(answer.best.front().time_ps) * 1e-12;
}

}  // namespace

TEST_CASE("A search finds no step that is more than 5 % faster than that of a published layout", "[.nightly]") {
  // BLOOM's authors recomputed everything. GPT-3's did so too, put tensor ranks on a node's eight devices and had micro-batches of
  // one sequence (arXiv 2104.04473, section 3 and the repository's script). LLaMA's plan leaves overlaps as its stack has them: off.
  const auto [plan, axes, fits] =
      GENERATE(Published{kBloom, {"recompute=full"}},
               Published{kGpt3, {"recompute=full", "tensor=8", "micro_batch_size=1"}},
               Published{kLlama, {"overlap_grad_reduce=false", "overlap_param_gather=false", "tensor_overlap=false"}, false});
  CAPTURE(plan);
  const std::string path = tests::source_dir() + plan;
  const double published = seconds_of(path), best = found(path, axes);
  // One that needs more memory than there is may be faster than all that fit.
  if (fits) CHECK(best <= published);
  CHECK(published <= 1.05 * best);
}

TEST_CASE("What GPT-3's authors had chosen cost a fifth of the step: recomputation, tensor ranks, micro-batches of one sequence", "[.nightly]") {
  const std::string path = tests::source_dir() + kGpt3;
  const double all = found(path, {"recompute=full", "tensor=8", "micro_batch_size=1"});
  CHECK(found(path, {"recompute=full", "tensor=8"}) < 0.95 * all);
  CHECK(found(path, {"recompute=full"}) < 0.9 * all);
  CHECK(found(path, {}) < 0.83 * all);
}
