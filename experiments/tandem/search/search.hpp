#pragma once
// Searches a space: all groups are bounded, those that could matter are estimated in the order of their bounds, and what could be among
// the best is simulated. What it answers depends on the space alone, not on threads, shards or interruptions.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/tandem/search/knowledge.hpp"
#include "models/base/threads.hpp"

namespace tandem::search {

struct SearchOptions {
  std::int64_t best = 10;        ///< rows of the answer
  std::int64_t events = 100;     ///< simulations at most
  bool any_stack = false;
  bool any_memory = false;       ///< the device's memory is no limit
  std::int64_t shard = 0, shards = 1;  ///< the part of the groups that is searched
  Jobs jobs;
  std::function<void()> learned = nullptr;  ///< called when the knowledge has grown; may be empty
};

/// A place in the order of candidates: what its step takes at least, and its number.
using Position = std::pair<std::int64_t, CandidateId>;
inline constexpr Position kEnd{kNoLimit, kNoLimit};

struct Answer {
  Counts counts{};
  std::int64_t candidates = 0;
  std::vector<Simulated> best;      ///< that fit, fastest first
  std::map<CandidateId, Found> estimates;  ///< of simulated candidates that fit
  std::map<CandidateId, Simulated> simulated;  ///< those that the answer rests on
  Position end = kEnd;              ///< the first whose bound was not refined
  std::int64_t limit_ps = kNoLimit; ///< the last of the best; what is above it does not count
  bool complete = true;             ///< false: --events was reached, so a better one may have been left out
};

class Search {
 public:
  /// `space` outlives the search.
  Search(const Space& space, SearchOptions options);

  /// Goes on from what other searches of the same space found out.
  void take(Knowledge knowledge) { known_.take(std::move(knowledge), space_.members()); }
  /// Finds out all that the answer to its shard needs. Throws program::Interrupted where it was stopped; what it knows then is kept.
  void explore();
  /// The answer to the whole space, after explore() where there are no other shards.
  Answer answer() const;
  /// The answer that rests on these simulations and on refined bounds before `end`, and holds up to `limit_ps`. All that fit are rows.
  Answer answer_from(std::map<CandidateId, Simulated> simulated, std::int64_t limit_ps, Position end = kEnd) const;

  /// Bounds, estimates and refines the whole shard, whatever is fast. Throws program::Interrupted.
  void estimate_all();
  /// What is known of all that were found and fit, by their estimates.
  std::vector<Found> found() const;
  /// Makes sure that these are simulated. Throws program::Interrupted.
  void simulate(const std::vector<CandidateId>& ids);

  const Knowledge& knowledge() const { return known_; }
  const Judge& judge() const { return judge_; }
  const SearchOptions& options() const { return options_; }
  /// What became of one candidate, with the reason in words.
  Outcome outcome(CandidateId id, const Answer& answer, std::string& reason) const;

 private:
  /// Candidates in the order of what their steps take at least, as far as the answer rests on them.
  struct Walk {
    std::vector<CandidateId> counted;    ///< simulated
    std::vector<CandidateId> rough;      ///< to be refined before it goes on
    std::vector<CandidateId> wanted;     ///< to be simulated before it goes on
    Position end = kEnd;                 ///< the first that it does not come to
    std::int64_t limit = kNoLimit;       ///< the last of the best
  };

  bool mine(std::int64_t group) const;
  std::int64_t group_floor(const Found& f) const { return fact(f.id / space_.members()).floor_ps; }
  const GroupFact& fact(std::int64_t group) const { return known_.facts[static_cast<std::size_t>(group)]; }
  void bound();
  void survey();
  void sort_open();
  bool sharpen(std::int64_t limit);
  void estimate(const std::vector<std::int64_t>& groups);
  void refine(const std::vector<CandidateId>& ids);
  std::vector<std::int64_t> next_groups(std::int64_t limit, std::size_t most) const;
  std::int64_t frontier();
  std::int64_t estimated_limit() const;
  Walk walk(std::int64_t frontier) const;
  Outcome fate_of(const Found& f, const Answer& answer) const;
  void learned() const;
  bool stopped() const { return options_.jobs.stop && options_.jobs.stop(); }

  const Space& space_;
  const SearchOptions options_;
  Judge judge_;
  std::vector<std::int64_t> order_;         ///< the shard's open groups by floor
  std::size_t next_ = 0;                    ///< in order_: those before it are estimated
  std::size_t round_ = 0;                   ///< groups of the next round
  Knowledge known_;
};

}  // namespace tandem::search
