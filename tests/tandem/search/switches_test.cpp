// Fields that a search turns on by itself: they cost no answer, and the exported plan says them.

#include <nlohmann/json.hpp>

#include "models/planfile/plan_draft.hpp"
#include "models/stack/resolve.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/search/spaces.hpp"

using namespace tandem;
using namespace tandem::search;
using namespace tandem::tests;

namespace {

using Flags = std::array<bool, 3>;

Flags flags_of(const Plan& p) {
  return {p.parallel.tensor_overlap, p.parallel.overlap_grad_reduce, p.parallel.overlap_param_gather};
}

const std::vector<std::string> kOverlapAxes{"tensor=1,2,4", "pipeline=1,2", "context=1", "micro_batch_size=1,2", "schedule=1f1b", "virtual_pipeline=1",
                                     "sequence_parallel=false,true", "recompute=none", "zero_stage=0,1"};

Asked asked(std::vector<std::string> more = {}) {
  Asked a{"llama2-7b", "dgx-h100", 16, 32, kOverlapAxes};
  a.axes.insert(a.axes.end(), more.begin(), more.end());
  return a;
}

std::int64_t best(const Space& space) {
  Search search(space, options(1));
  search.explore();
  return search.answer().best.at(0).time_ps;
}

}  // namespace

TEST_CASE("A candidate overlaps what Megatron-LM lets it overlap, and no candidates are added") {
  const Space space = space_of(asked());
  std::int64_t axes = 1;
  for (const auto& axis : space.axes()) axes *= static_cast<std::int64_t>(axis.values.size());
  CHECK(space.size() == axes);
  CHECK(space.size() == 3 * 2 * 2 * 2 * 2);
  for (CandidateId id = 0; id < space.size(); ++id) {
    if (!space.divides(id)) continue;
    const ParallelSpec& q = space.plan(id).parallel;
    CHECK(flags_of(space.plan(id)) == Flags{q.tensor > 1 && q.sequence_parallel, q.data > 1, q.data > 1 && q.zero_stage > 0});
  }
}

TEST_CASE("An axis or a stack without the options leaves the overlaps as they were") {
  const Space fixed = space_of(asked({"overlap_grad_reduce=false", "tensor_overlap=false,true"}));
  const Space other = space_of(asked(), "pytorch-ddp");
  for (CandidateId id = 0; id < fixed.size(); ++id) {
    if (!fixed.divides(id)) continue;
    const auto axis = static_cast<std::size_t>(fixed.axis_of("parallel.tensor_overlap"));
    const bool said = fixed.axes()[axis].values[fixed.choice(id)[axis]].text == "true";
    CHECK(flags_of(fixed.plan(id)) == Flags{said, false, false});
    CHECK(fixed.switched_on(id).empty());
  }
  for (CandidateId id = 0; id < other.size(); ++id)
    if (other.divides(id)) CHECK(flags_of(other.plan(id)) == Flags{false, true, false});  // reductions overlap by default
}

TEST_CASE("No value of the overlaps that a search turns on is faster, but for chunks") {
  const std::vector<Asked> questions = {
      asked(), {"gpt-1.3b", "dgx-h100", 8, 64, kOverlapAxes, 2048}, {"llama2-7b", "dgx-a100-80gb", 16, 16, kOverlapAxes, 4096},
      {"gpt-1.3b-moe128", "dgx-h100", 16, 32,
       {"tensor=1,2", "pipeline=1,2", "context=1", "expert=8", "micro_batch_size=1", "schedule=1f1b", "virtual_pipeline=1",
        "sequence_parallel=true", "recompute=none", "zero_stage=0,1"}}};
  const Asked one = questions[GENERATE(0U, 1U, 2U, 3U)];
  INFO(one.model);
  Asked all = one;
  for (const char* field : {"tensor_overlap", "overlap_grad_reduce", "overlap_param_gather"}) all.axes.push_back(std::string(field) + "=false,true");
  CHECK(static_cast<double>(best(space_of(one))) <= 1.005 * static_cast<double>(best(space_of(all))));
}

TEST_CASE("The search with overlaps turned on finds what simulating every candidate finds") {
  REQUIRE(check_beside_brute_force(space_of(asked())));
}

TEST_CASE("An exported plan says what its candidate turns on, and nothing more") {
  const Space space = space_of(asked());
  for (CandidateId id = 0; id < space.size(); ++id) {
    if (!space.divides(id)) continue;
    const Plan plan = space.plan(id);
    const nlohmann::json written = nlohmann::json::parse(space.document(id))["parallel"];
    const std::array fields{"tensor_overlap", "overlap_grad_reduce", "overlap_param_gather"};
    for (std::size_t i = 0; i < fields.size(); ++i) {
      CHECK(written.contains(fields[i]) == flags_of(plan)[i]);
      CHECK(written.value(fields[i], false) == flags_of(plan)[i]);
    }
  }
}

TEST_CASE("Adapters, which go without overlapped tensor ranks, do not lose their layouts with tensor ranks") {
  const Space space = space_of(asked({"lora.rank=8"}));
  for (CandidateId id = 0; id < space.size(); ++id)
    if (space.divides(id)) CHECK_FALSE(space.plan(id).parallel.tensor_overlap);
}
