#pragma once
// Searches a space: all groups are bounded, those that could matter are estimated in the order of their bounds, and what could be among
// the best is simulated. What it answers depends on the space alone, not on threads, shards or interruptions.

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "experiments/tandem/search/judge.hpp"
#include "models/base/threads.hpp"

namespace tandem::search {

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

struct SearchOptions {
  std::int64_t best = 10;        ///< rows of the answer
  std::int64_t events = 100;     ///< simulations at most
  bool any_stack = false;
  std::int64_t shard = 0, shards = 1;  ///< of the open groups in order, every shards-th
  Jobs jobs;
};

/// A candidate that could be among the best.
struct Found {
  CandidateId id = 0;
  std::int64_t floor_ps = 0;     ///< of its group
  std::int64_t estimate_ps = 0;  ///< 0: none
  std::int64_t memory = 0;
  sim::Outside outside = sim::Outside::layout;

  /// Its step takes no less.
  std::int64_t least_ps() const;
  /// Where the estimate holds and surely fits, what its step takes at most; else kNoLimit.
  std::int64_t most_ps(std::int64_t room) const;
};

/// What was found out: of groups by number, of candidates. Two of the same space can be put together.
struct Knowledge {
  std::map<std::int64_t, Counts> groups;  ///< estimated ones: their members by fate, `simulated` where the closed form had no answer
  std::vector<Found> found;
  std::map<CandidateId, Simulated> simulated;
};

struct Answer {
  Counts counts{};
  std::int64_t candidates = 0;
  std::vector<Simulated> best;      ///< that fit, fastest first
  std::map<CandidateId, Found> estimates;  ///< of simulated candidates
  std::int64_t limit_ps = kNoLimit; ///< the last of the best; what is above it does not count
  std::int64_t by_events_alone = 0; ///< simulated ones that the closed form has no answer for
  bool complete = true;             ///< false: --events was reached, so a better one may have been left out
};

class Search {
 public:
  /// `space` outlives the search. Bounds all groups.
  Search(const Space& space, SearchOptions options);

  /// Goes on from what other shards of the same space found out.
  void take(Knowledge knowledge);
  /// Estimates the shard's groups up to the limit that its own estimates give.
  void estimate();
  /// Everything, whatever was taken; the knowledge is complete afterwards.
  Answer answer();

  const Knowledge& knowledge() const { return known_; }
  const Judge& judge() const { return judge_; }
  /// What became of one candidate, after answer(); with the reason in words.
  Fate fate(CandidateId id, const Answer& answer, std::string& reason) const;

 private:
  void survey();
  void estimate_groups(const std::vector<std::int64_t>& groups);
  bool estimate_until(std::int64_t limit);
  void refine();
  std::vector<const Found*> queue() const;
  std::int64_t simulated_limit() const;
  std::int64_t estimated_limit() const;
  std::int64_t timed() const;
  Answer summary() const;
  bool stopped() const { return options_.jobs.stop && options_.jobs.stop(); }

  const Space& space_;
  const SearchOptions options_;
  Judge judge_;
  std::vector<std::int64_t> floors_;        ///< by group
  std::vector<Fate> fates_;                 ///< by group; bounded: open
  std::vector<std::int32_t> large_;         ///< by group: members whose floor on memory is too large
  std::vector<std::int64_t> order_;         ///< open groups by floor
  Knowledge known_;
};

}  // namespace tandem::search
