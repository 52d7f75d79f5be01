#pragma once
// Searches a space. It bounds all groups, estimates those that could matter in the order of their bounds, and simulates candidates
// that could be among the best. The answer depends only on the space, not on threads, shards or interruptions.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tandem/search/knowledge.hpp"
#include "experiments/tandem/search/staircase.hpp"
#include "models/base/threads.hpp"

namespace tandem::search {

struct SearchOptions {
  std::int64_t best = 10;        ///< number of rows in the answer
  std::int64_t events = 100;     ///< largest number of simulations
  bool any_stack = false;
  bool any_memory = false;       ///< ignore the device's memory limit
  std::int64_t shard = 0, shards = 1;  ///< the part of the groups to search
  Jobs jobs;
  std::function<void()> learned = nullptr;  ///< called after the knowledge has grown; may be empty
};

/// Sort key of candidates: lower bound on the step, and id.
using Position = std::pair<std::int64_t, CandidateId>;
inline constexpr Position kEnd{kNoLimit, kNoLimit};

struct Answer {
  Counts counts{};
  std::int64_t candidates = 0;
  std::vector<Simulated> best;      ///< fitting ones, fastest first
  std::map<CandidateId, Found> estimates;  ///< of simulated, fitting candidates
  std::map<CandidateId, Simulated> simulated;  ///< those on which the answer rests
  Position end = kEnd;              ///< the first candidate whose bound was not refined
  std::int64_t limit_ps = kNoLimit; ///< step time of the last of the best; slower candidates do not count
  bool complete = true;             ///< false: --events was reached, so a better candidate may be missing
  bool interrupted = false;         ///< candidates that explore() had not reached are missing, too
  std::vector<CandidateId> wrong_bounds;  ///< simulated below a lower bound on step or memory: errors of Tandem
  std::vector<Found> estimated;     ///< if interrupted: the best estimates without a simulation that fit, fastest first
};

class Search {
 public:
  /// `space` must outlive the search.
  Search(const Space& space, SearchOptions options);

  /// Continues from the knowledge of other searches of the same space.
  void take(Knowledge knowledge);
  /// Gains all knowledge needed for the answer to its shard. Throws program::Interrupted if stopped, keeping the knowledge so far.
  void explore();
  /// The answer for the whole space. Call it after explore(), if there are no other shards.
  Answer answer() const;
  /// The answer from what is known after an interruption: at most `rows` simulated, fitting candidates and as many estimates. All
  /// others are left out.
  Answer answer_so_far(std::int64_t rows) const;
  /// The number of groups that are refused or estimated.
  std::int64_t settled_groups() const { return refused_ + static_cast<std::int64_t>(known_.groups.size()); }
  /// The number of groups whose bound no look raises more.
  std::int64_t sharp_groups() const { return sharp_; }
  /// The answer from these simulations and the refined bounds before `end`, valid up to `limit_ps`. All fitting ones are rows.
  Answer answer_from(std::map<CandidateId, Simulated> simulated, std::int64_t limit_ps, Position end = kEnd) const;

  /// Bounds the shard. Estimates and refines its candidates but those that an estimated one surely beats in time and memory. Throws
  /// program::Interrupted.
  void estimate_front();
  /// Everything known about found candidates that fit by their estimates. After estimate_front(), without surely beaten groups and
  /// rough candidates.
  std::vector<Found> found() const;
  /// Simulates those candidates that were not simulated yet. Throws program::Interrupted.
  void simulate(const std::vector<CandidateId>& ids);

  const Knowledge& knowledge() const { return known_; }
  const Judge& judge() const { return judge_; }
  const SearchOptions& options() const { return options_; }
  /// The outcome of one candidate. `reason` receives an explanation.
  Outcome outcome(CandidateId id, const Answer& answer, std::string& reason) const;

 private:
  /// A pass over candidates in order of their lower bounds, as far as the answer needs.
  struct Walk {
    std::vector<CandidateId> counted;    ///< simulated
    std::vector<CandidateId> rough;      ///< must be refined before it continues
    std::vector<CandidateId> wanted;     ///< must be simulated before it continues
    Position end = kEnd;                 ///< the first candidate not reached
    std::int64_t limit = kNoLimit;       ///< step time of the last of the best
  };

  bool mine(std::int64_t group) const;
  const GroupFact& fact(std::int64_t group) const { return known_.facts[static_cast<std::size_t>(group)]; }
  GroupFact bounded(std::int64_t group) const;
  void bound();
  void survey();
  void sort_open();
  void take_from_order(std::int64_t group);
  bool sharpen(std::int64_t limit);
  void estimate(const std::vector<std::int64_t>& groups);
  void learn(const std::vector<std::int64_t>& groups);
  void refine_front(std::size_t first);
  void find_beaten();
  void add_sure(const Found& f);
  bool surely_beaten(const GroupView& view) const;
  bool surely_beaten(std::int64_t group) const;
  bool surely_beaten(const Found& f) const { return f.rough && sure_.covers(f.least_ps(), f.least_memory()); }
  void refine(const std::vector<CandidateId>& ids);
  std::vector<std::int64_t> next_groups(std::int64_t limit, std::size_t most) const;
  std::int64_t frontier() const;
  std::int64_t estimated_limit() const;
  Walk walk(std::int64_t frontier) const;
  Outcome outcome_of(const Found& f, const Answer& answer) const;
  /// Whether a group counts as bounded, with all of its members but those that stands().
  bool beaten(std::int64_t group, const Answer& answer) const {
    return fact(group).floor_ps > answer.limit_ps || beaten_.count(group) != 0;
  }
  void learned() const;
  bool stopped() const { return options_.jobs.stop && options_.jobs.stop(); }

  const Space& space_;
  const SearchOptions options_;
  Judge judge_;
  std::vector<std::int64_t> order_;         ///< the shard's open groups by their first lower bound
  std::size_t next_ = 0;                    ///< in order_: earlier groups were looked at closer, settled or estimated
  std::set<std::pair<std::int64_t, std::int64_t>> closer_;  ///< bound and number of groups that were looked at closer and are open
  std::size_t round_ = 0;                   ///< number of groups in the next round
  Knowledge known_;
  Staircase sure_;                          ///< upper bounds of estimated candidates; filled by estimate_front()
  std::set<std::int64_t> beaten_;           ///< estimated groups that sure_ covers
  std::int64_t refused_ = 0, sharp_ = 0;    ///< number of such groups in known_, for progress
};

}  // namespace tandem::search
