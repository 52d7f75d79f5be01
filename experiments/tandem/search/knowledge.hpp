#pragma once
// What a search has found out about its space. Holds for every search of that space, so searches can be put together.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "experiments/tandem/search/judge.hpp"

namespace tandem::search {

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// Of one group, by its bounds.
struct GroupFact {
  std::int64_t floor_ps = 0;      ///< of the step, where it is open
  std::int32_t large = 0;         ///< members whose floor on memory is too large
  Outcome outcome = Outcome::bounded;      ///< of all members; `bounded`: open
  bool known = false;
  bool sharp = false;             ///< `floor_ps` has the passes' floor in it
};

/// A candidate that could be among the best.
struct Found {
  CandidateId id = 0;
  std::int64_t floor_ps = 0;      ///< its step takes no less, by its group or by itself
  std::int64_t estimate_ps = 0;   ///< 0: none
  std::int64_t memory = 0;        ///< bytes by the closed form; 0: none
  std::int64_t memory_floor = 0;  ///< bytes that it needs at least
  sim::Outside outside = sim::Outside::layout;
  bool rough = false;             ///< `floor_ps` is all that holds: it may be refined

  bool estimated() const { return estimate_ps > 0 && outside != sim::Outside::layout; }
  /// Its step takes no less.
  std::int64_t least_ps() const;
  /// Where the estimate holds and surely fits, what its step takes at most; else kNoLimit.
  std::int64_t most_ps(std::int64_t room) const;
  /// It needs no fewer bytes.
  std::int64_t least_memory() const;
};

/// What short plans say of a candidate that was rough.
struct Refined {
  std::int64_t estimate_ps = 0, memory = 0;
  sim::Outside outside = sim::Outside::layout;
  bool too_large = false;
};

struct Knowledge {
  std::vector<GroupFact> facts;            ///< by group; empty: none
  std::map<std::int64_t, Counts> groups;   ///< estimated ones: their members by outcome, `simulated` where the closed form had no answer
  std::vector<Found> found;
  std::map<CandidateId, Refined> refined;
  std::map<CandidateId, Simulated> simulated;

  /// All that is known of a candidate that was found; nothing where it does not fit.
  std::optional<Found> whole(const Found& found) const;
  /// Adds what `other`, of a space with as many groups of `members` candidates, knows and this does not.
  void take(Knowledge other, std::int64_t members);
};

}  // namespace tandem::search
