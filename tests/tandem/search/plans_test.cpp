// Plans of candidates that share what was filled in.

#include "experiments/tandem/search/candidate_plans.hpp"
#include "models/plan/plan_words.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/search/spaces.hpp"

using namespace tandem;
using namespace tandem::search;
using namespace tandem::tests;

namespace {

/// All that a plan says but for names and notes.
std::vector<std::int64_t> words_of(const Plan& plan) {
  std::vector<std::int64_t> words;
  append_words(words, plan.model), append_words(words, plan.parallel);
  append_words(words, plan.training), append_words(words, plan.stack);
  return words;
}

}  // namespace

TEST_CASE("Candidates that share what was filled in have the plans that they have by themselves") {
  std::vector<Asked> asked = small_spaces();
  // A balanced split needs layers that cost the same on any stage.
  asked.push_back({"gpt-1.3b", "dgx-h100", 8, 16, {"pipeline=4", "recompute=full", "recompute_layers=0,1", "pipeline_split=auto,balanced"}});
  for (Asked& a : asked)
    for (const char* axis : {"overlap_grad_reduce=false,true", "scatter_p2p=false,true", "offload.optimizer=false,true", "bucket_bytes=1000000,2000000"})
      a.axes.emplace_back(axis);
  for (const Asked& a : asked)
    for (const char* stack : {"", "pytorch-fsdp"}) {
      INFO(a.model << " " << stack);
      const Space space = space_of(a, stack);
      CandidatePlans plans(space);
      for (CandidateId id = 0; id < space.size(); id += 7) {
        const CandidateId mixed = id * 7919 % space.size();  // neighbours far apart, too
        const Plan alone = space.plan(mixed);
        const Plan& shared = plans.of(mixed);
        CHECK(words_of(shared) == words_of(alone));
        CHECK(shared.stack.facts.host_operations.tasks == alone.stack.facts.host_operations.tasks);
        CHECK(shared.stack.facts.whole_between_micro_batches == alone.stack.facts.whole_between_micro_batches);
        CHECK(space.divides(mixed) == (alone.parallel.data > 0 && alone.world_size() == a.devices));
      }
    }
}
