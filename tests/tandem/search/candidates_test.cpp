// What a judge says of single candidates: bounds of those that the recurrences have no estimate of, and fields that change nothing.

#include <cmath>
#include <random>

#include "models/planfile/plan_draft.hpp"
#include "models/stack/resolve.hpp"
#include "tests/catch.hpp"
#include "tests/tandem/search/spaces.hpp"

using namespace tandem;
using namespace tandem::search;
using namespace tandem::tests;

namespace {

/// Axes of calculon's search on a small model.
Asked flags(const char* model, const char* cluster) {
  return {model, cluster, 16, 64,
          {"tensor=1,2,4,8,16", "pipeline=1,2,4", "micro_batch_size=1,2", "schedule=1f1b,interleaved", "virtual_pipeline=1,2",
           "recompute=none,full", "sequence_parallel=false,true", "scatter_p2p=false,true", "zero_stage=0,1",
           "overlap_grad_reduce=false,true", "overlap_param_gather=false,true", "tensor_overlap=false,true",
           "overlap_tensor_sum=false,true", "offload.optimizer=false,true"}};
}

bool possible(const Plan& plan) {
  return plan.parallel.data > 0 && plan_problems(plan).empty() && lowering_gaps(plan).empty() &&
         stack_problems(plan, plan.stack.name, plan.stack.as_of).empty();
}

/// Some of a space's candidates that can be, in an order of a seed.
std::vector<CandidateId> some(const Space& space, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<CandidateId> out;
  while (out.size() < count) {
    const auto id = static_cast<CandidateId>(random() % static_cast<std::uint64_t>(space.size()));
    if (space.divides(id) && possible(space.plan(id))) out.push_back(id);
  }
  return out;
}

}  // namespace

TEST_CASE("Fields that change nothing leave the step and the memory of events as they are") {
  const char* const stack = GENERATE("megatron-core", "tandem", "pytorch-ddp");
  INFO(stack);
  const Space space = space_of(flags("gpt-1.3b", "dgx-a100-80gb"), stack);
  const Judge judge(space, {});
  int compared = 0;
  for (const CandidateId id : some(space, 150, 7)) {
    const Plan plan = space.plan(id);
    const IdleFields idle(plan);
    CandidateId other = id;
    for (std::size_t a = 0; a < space.axes().size(); ++a) {
      const bool first = space.first_of(id, a) == id;
      if (!first && !space.asked(a) && idle.has(space.axes()[a].field)) other -= space.stride(a) * space.choice(id)[a];
    }
    if (other == id || !possible(space.plan(other))) continue;
    INFO(space.text(id));
    const Simulated with = judge.simulate(id), without = judge.simulate(other);
    CHECK(with.time_ps == without.time_ps);
    CHECK(with.needed == without.needed);
    const Outcome outcome = judge.group(id / space.members()).outcome;
    CHECK((outcome == Outcome::same || judge.candidate(id).outcome == Outcome::same));
    ++compared;
  }
  CHECK(compared >= 60);
}

TEST_CASE("A rough candidate's bound is below the events' step, and its memory off short plans below what it needs") {
  const char* const cluster = GENERATE("dgx-a100-80gb", "dgx-h100");
  const Space space = space_of(flags("gpt-1.3b", cluster));
  const Judge judge(space, {});
  int rough = 0, bounds = 0;
  for (const CandidateId id : some(space, 250, 11)) {
    if (judge.group(id / space.members()).outcome != Outcome::bounded) continue;
    const CandidateView view = judge.candidate(id);
    if (!view.rough) continue;
    INFO(space.text(id));
    const Simulated s = judge.simulate(id);
    const CandidateView refined = judge.refine(id);
    ++rough;
    bounds += view.floor_ps > 0 ? 1 : 0;
    if (s.timed) CHECK(view.floor_ps <= s.time_ps);
    const auto estimate = static_cast<double>(refined.estimate_ps), time = static_cast<double>(s.time_ps);
    if (s.timed && estimate > 0) CHECK(std::abs(estimate / time - 1) < kTimeError);
    CHECK(static_cast<double>(refined.memory) * (1 - kReadMemoryError) <= static_cast<double>(s.needed));
  }
  CHECK(rough >= 20);
  CHECK(bounds >= 10);
}

TEST_CASE("An estimate that holds is as near to the events' step as pruning takes it to be, also of context ranks and uneven stages") {
  const char* const cluster = GENERATE("dgx-a100-80gb", "dgx-h100");
  const Space space = space_of({"llama3-8b", cluster, 32, 32,
                                {"tensor=1,2,4", "pipeline=1,2,4", "pipeline_split=auto,balanced", "context=1,2,4,8", "context_mode=ring,all_gather,ulysses", "ulysses=1,2",
                                 "micro_batch_size=1,2", "schedule=1f1b", "virtual_pipeline=1", "recompute=none,full", "sequence_parallel=false,true",
                                 "zero_stage=0,1", "overlap_grad_reduce=false,true"}, 16384});
  const Judge judge(space, {.any_memory = true});
  int shared = 0, others = 0;
  for (const CandidateId id : some(space, 200, 5)) {
    const CandidateView view = judge.candidate(id);
    if (view.outcome != Outcome::estimated || view.outside != sim::Outside::nothing) continue;
    INFO(space.text(id));
    const Simulated s = judge.simulate(id);
    const double off = static_cast<double>(view.estimate_ps) / static_cast<double>(s.time_ps) - 1;
    CHECK(off < kTimeError);
    CHECK(off > -kTimeBelow);
    ++(space.plan(id).parallel.context > 1 ? shared : others);
  }
  CHECK(shared >= 30);
  CHECK(others >= 20);
}
