#pragma once
// The knowledge of a search about its space. It holds for every search of that space, so searches can be merged.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "experiments/tandem/search/judge.hpp"

namespace tandem::search {

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// Facts about a group, from its bounds.
struct GroupFact {
  std::int64_t floor_ps = 0;      ///< lower bound on the step, if open
  std::int32_t large = 0;         ///< number of members whose memory bound is too large
  Outcome outcome = Outcome::bounded;      ///< of all members; `bounded`: still open
  bool known = false;
  bool sharp = false;             ///< Judge::look_closer() raises `floor_ps` no more

  bool refused() const { return known && outcome != Outcome::bounded; }
  bool operator==(const GroupFact&) const = default;
};

/// A candidate that may be among the best.
struct Found {
  CandidateId id = 0;
  std::int64_t floor_ps = 0;      ///< lower bound on its step, from its group or its own
  std::int64_t estimate_ps = 0;   ///< 0: none
  std::int64_t memory = 0;        ///< bytes in closed form; 0: none
  std::int64_t memory_floor = 0;  ///< lower bound on its memory, in bytes
  sim::Outside outside = sim::Outside::layout;
  bool rough = false;             ///< only `floor_ps` is known; it may be refined

  bool estimated() const { return estimate_ps > 0 && outside != sim::Outside::layout; }
  /// Lower bound on its step.
  std::int64_t least_ps() const;
  /// Upper bound on its step if the estimate is valid and surely fits; else kNoLimit.
  std::int64_t most_ps(std::int64_t room) const;
  /// Lower bound on its memory, in bytes.
  std::int64_t least_memory() const;
  /// Upper bound on its memory, in bytes.
  std::int64_t most_memory() const;
};

/// Results of refining a rough candidate by short plans.
struct Refined {
  std::int64_t estimate_ps = 0, memory = 0;
  sim::Outside outside = sim::Outside::layout;
  bool too_large = false;
};

struct Knowledge {
  std::vector<GroupFact> facts;            ///< by group; empty: none
  std::map<std::int64_t, Counts> groups;   ///< members of settled and estimated groups by outcome; `simulated`: no closed-form estimate
  std::vector<Found> found;
  std::map<CandidateId, Refined> refined;
  std::map<CandidateId, Simulated> simulated;

  /// Everything known about a found candidate; nullopt if it does not fit.
  std::optional<Found> whole(const Found& found) const;
  /// Adds the knowledge of `other` that this lacks. Both spaces must have equal groups, of `members` candidates.
  void take(Knowledge other, std::int64_t members);
};

}  // namespace tandem::search
