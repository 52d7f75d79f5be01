#include "tests/tandem/search/spaces.hpp"

#include <algorithm>

#include "experiments/tandem/search/pareto.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/stack/resolve.hpp"
#include "tests/catch.hpp"

namespace tandem::tests {

using namespace search;

namespace {

/// Sets of modules of dense models.
const std::string kDenseSets = R"(recompute_modules=["core_attention"],["norm"],["norm","mlp"])";

bool possible(const Space& space, CandidateId id) {
  if (!space.divides(id)) return false;
  const Plan plan = space.plan(id);
  if (!plan_problems(plan).empty() || !lowering_gaps(plan).empty()) return false;
  return stack_problems(plan, plan.stack.name, plan.stack.as_of).empty();
}

using TimeAndMemory = std::set<std::pair<std::int64_t, std::int64_t>>;

/// Time and memory of the plans that no other one beats, every candidate simulated by itself.
TimeAndMemory brute_force_front(const Space& space, const Judge& judge) {
  TimeAndMemory all, out;
  for (CandidateId id = 0; id < space.size(); ++id) {
    if (!possible(space, id)) continue;
    const Simulated s = judge.simulate(id);
    if (s.fits) all.emplace(s.time_ps, s.needed);
  }
  for (const auto& [time, memory] : all) {
    const auto beats = [&, t = time, m = memory](const auto& o) { return o != std::pair(t, m) && o.first <= t && o.second <= m; };
    if (std::none_of(all.begin(), all.end(), beats)) out.emplace(time, memory);
  }
  return out;
}

}  // namespace

const char* const kMixedSets = R"(recompute_modules=["core_attention"],["norm","moe_activation"],["norm","moe","mlp"])";

const char* const kMixture = R"({"model": {"family": "llama", "num_layers": 8, "hidden_size": 4096, "num_attention_heads": 32, "num_kv_heads": 8,
  "ffn_hidden_size": 14336, "vocab_size": 32000, "moe": {"num_experts": 16, "experts_per_token": 4, "ffn_hidden_size": 2048}}})";

const std::vector<Asked>& small_spaces() {
  static const std::vector<Asked> all{
      {"gpt-1.3b", "dgx-a100-80gb", 8, 32, {"virtual_pipeline=1,2", "micro_batch_size=1,2", "zero_stage=0,1", "recompute=none,full"}},
      {"llama2-7b", "dgx-h100", 8, 32, {"tensor=1,2,4,8", "pipeline=1,2", "virtual_pipeline=1", "schedule=1f1b", "micro_batch_size=1", "zero_stage=1,2,3"}},
      {"gpt-1.3b-moe128", "dgx-h100", 16, 32, {"tensor=1,2", "pipeline=1,2", "expert=4,8", "virtual_pipeline=1", "schedule=1f1b", "micro_batch_size=1", "zero_stage=0,1"}},
      {"llama2-7b", "hgx-a100-40gb", 8, 16, {"tensor=2,4", "pipeline=1,2", "virtual_pipeline=1", "schedule=1f1b", "micro_batch_size=1,2", "zero_stage=0,1", "sequence_parallel=true", "recompute=none,selective,full", kDenseSets}, 4096},
      {"gpt-1.3b-moe128", "dgx-a100-80gb", 16, 32, {"tensor=1", "pipeline=1,2", "expert=16", "virtual_pipeline=1", "schedule=1f1b", "micro_batch_size=1,4", "zero_stage=1", "recompute=none,selective,full", kMixedSets}, 2048},
  };
  return all;
}

Space space_of(const Asked& a, const std::string& stack) {
  Request r;
  r.subject = a.model, r.cluster = a.cluster, r.devices = a.devices, r.stack = stack;
  r.sequence = a.sequence, r.batch = a.batch, r.axes = a.axes;
  return Space(read_question(r));
}

std::int64_t brute_force(const Space& space, const Judge& judge) {
  std::int64_t least = 0;
  for (CandidateId id = 0; id < space.size(); ++id) {
    if (!possible(space, id)) continue;
    const Simulated s = judge.simulate(id);
    if (s.fits && (least == 0 || s.time_ps < least)) least = s.time_ps;
  }
  return least;
}

std::vector<std::int64_t> fastest(const Space& space, const Judge& judge, std::size_t rows) {
  std::vector<std::int64_t> out;
  for (CandidateId id = 0; id < space.size(); ++id) {
    if (judge.group(id / space.members()).outcome != Outcome::bounded || judge.candidate(id).outcome == Outcome::same) continue;
    const Plan plan = space.plan(id);
    if (!stack_problems(plan, plan.stack.name, plan.stack.as_of).empty() || !lowering_gaps(plan).empty()) continue;
    if (const Simulated s = judge.simulate(id); s.fits) out.push_back(s.time_ps);
  }
  std::sort(out.begin(), out.end());
  out.resize(std::min(out.size(), rows));
  return out;
}

void check_front(const Space& space) {
  Search search(space, options());
  std::vector<FrontSearch> searched{explore_front(search)};
  const ParetoFront front = pareto_front({&search}, std::move(searched), {Rates{}});
  TimeAndMemory found;
  for (const ParetoPoint& p : front.points) found.emplace(p.step.time_ps, p.step.needed);
  CHECK(front.complete);
  CHECK(found == brute_force_front(space, search.judge()));
  CHECK(front.points.size() == found.size());
  CHECK(front.others.size() + front.points.size() < static_cast<std::size_t>(space.size()));
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
