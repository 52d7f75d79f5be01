#include "experiments/tandem/search/candidate_plans.hpp"

namespace tandem::search {

namespace {

constexpr std::size_t kMostKept = 4096;  ///< plans of a few KB each

}  // namespace

const Plan& CandidatePlans::of(CandidateId id) {
  space_.choose(id, choice_);
  CandidateId first = id;
  for (std::size_t a = 0; a < choice_.size(); ++a)
    if (space_.stands_alone(a)) first -= choice_[a] * space_.stride(a);
  if (known_.size() >= kMostKept && known_.count(first) == 0) known_.clear();
  const auto [at, added] = known_.try_emplace(first);
  Entry& entry = at->second;
  if (added) entry.plan = space_.plan(first), space_.choose(first, entry.choice);
  for (std::size_t a = 0; a < choice_.size(); ++a) {
    if (entry.choice[a] == choice_[a]) continue;
    space_.axes()[a].values[choice_[a]].set(entry.plan);
    entry.choice[a] = choice_[a];
  }
  return entry.plan;
}

}  // namespace tandem::search
