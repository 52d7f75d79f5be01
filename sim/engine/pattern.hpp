#pragma once
// Cached timings of a template's instances, for instances that nothing outside their role can delay between their first computation
// and their last task. A pipeline repeats itself, so few timings (patterns) occur. Each is computed once, for all micro-batches,
// layers and roles; an instance stores only its start and its pattern.

#include <array>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/base/units.hpp"
#include "sim/engine/lane_program.hpp"

namespace tandem::sim {

/// Streams of an instance that has a pattern: computation and tensor collectives.
inline constexpr std::size_t kPatternLanes = 2;
using PatternId = std::uint32_t;
using TimedTemplateId = std::int32_t;

/// A template with the durations of a role.
struct TimedTemplate {
  struct Task {
    std::uint8_t lane = 0;
    std::uint16_t first_dep = 0, deps = 0;  ///< into TimedTemplate::deps
    std::int64_t duration = 0;              ///< ps
    std::uint32_t host = 1, issued = 1;     ///< host operations: the task's own; the instance's up to it, its own included
  };
  std::vector<Task> tasks;  ///< by task
  std::vector<std::uint16_t> deps;
  std::array<std::uint16_t, kPatternLanes> first{};  ///< by lane: its first task
  bool on_tensor = false;                  ///< it uses the second lane
  PatternId plain = 0;                     ///< the pattern if only its start depends on others
  /// By lane: `plain` holds if the host begins to issue the instance no later than so many ps after its start.
  std::array<std::int64_t, kPatternLanes> slack{};

};

/// The waits of an instance, in ps after its first computation may start. They are the key of a pattern; waits that end
/// before that start do not matter.
struct InstanceWaits {
  static constexpr std::int64_t kIdle = std::numeric_limits<std::int64_t>::min();
  std::array<std::int64_t, kPatternLanes> issue{kIdle, kIdle};  ///< when the host begins to issue it; kIdle: the host is never late
  std::int64_t tensor_free = 0;  ///< end of earlier tasks on the tensor lane
  std::vector<std::pair<std::uint16_t, std::int64_t>> after;    ///< (task, end of what it waits for), ends > 0 only

  bool plain() const { return issue[0] == kIdle && issue[1] == kIdle && tensor_free == 0 && after.empty(); }
};

/// Times of an instance, in ps from its start.
struct Pattern {
  TimedTemplateId timed = -1;
  std::vector<std::int64_t> ended;                ///< by task
  std::array<std::int64_t, kPatternLanes> free{};  ///< by lane: end of its last task
  bool closed = false;  ///< after the start it waited for nothing outside except the host
};

class Patterns {
 public:
  static constexpr PatternId kNone = UINT32_MAX;

  explicit Patterns(Duration launch = {}) : launch_(launch.ps()) {}

  /// Returns the template with the durations of a role's slots, known or new. Returns -1 if others may interfere: it has a task on
  /// another lane, an exchange, or a collective that could begin before any computation of the instance.
  TimedTemplateId timed(const LaneTemplate& tmpl, const std::vector<Slot>& slots);
  const TimedTemplate& of(TimedTemplateId id) const { return timed_templates_[static_cast<std::size_t>(id)]; }
  /// The pattern for these waits; kNone if it is new and too many patterns are kept already.
  PatternId find(TimedTemplateId id, const InstanceWaits& c) { return c.plain() ? of(id).plain : look_up(id, c); }
  const Pattern& operator[](PatternId id) const { return patterns_[id]; }
  std::size_t size() const { return patterns_.size(); }

 private:
  using Key = std::vector<std::int64_t>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  PatternId look_up(TimedTemplateId id, const InstanceWaits& c);
  PatternId work_out(TimedTemplateId id, const TimedTemplate& s, const InstanceWaits& c);

  std::int64_t launch_;
  std::vector<TimedTemplate> timed_templates_;
  std::vector<Pattern> patterns_;
  std::unordered_map<Key, TimedTemplateId, KeyHash> known_timed_;
  std::unordered_map<Key, PatternId, KeyHash> known_;
  Key key_;  // scratch
};

}  // namespace tandem::sim
