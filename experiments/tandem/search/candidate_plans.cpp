#include "experiments/tandem/search/candidate_plans.hpp"

#include <utility>

namespace tandem::search {

namespace {

constexpr std::size_t kMostKept = 1024;  ///< plans of a few KB each, which caches of processors hold

}  // namespace

/// The entry for plans that differ from the candidate `first` only in fields that stand alone. It takes the place of the oldest.
CandidatePlans::Entry& CandidatePlans::entry_of(CandidateId first) {
  const auto at = known_.find(first);
  if (at != known_.end()) return at->second;
  Plan plan = space_.plan(first);
  Entry* entry = nullptr;
  if (order_.size() < kMostKept) {
    entry = &known_[first];
    order_.push_back(first);
  } else {
    auto node = known_.extract(order_[oldest_]);
    node.key() = first;
    order_[oldest_] = first;
    oldest_ = (oldest_ + 1) % kMostKept;
    entry = &known_.insert(std::move(node)).position->second;
  }
  entry->plan = std::move(plan);
  space_.choose(first, entry->choice);
  return *entry;
}

const Plan& CandidatePlans::of(CandidateId id) {
  space_.choose(id, choice_);
  CandidateId first = id;
  for (std::size_t a = 0; a < choice_.size(); ++a)
    if (space_.stands_alone(a)) first -= choice_[a] * space_.stride(a);
  Entry& entry = entry_of(first);
  for (std::size_t a = 0; a < choice_.size(); ++a) {
    if (entry.choice[a] == choice_[a]) continue;
    space_.axes()[a].values[choice_[a]].set(entry.plan);
    entry.choice[a] = choice_[a];
  }
  return entry.plan;
}

}  // namespace tandem::search
