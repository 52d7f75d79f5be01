#pragma once
// A pipeline schedule as a recurrence: the end of a pass or transfer is the latest end of what it waits for, plus its time. The list of
// steps is written once for a schedule and evaluated with any times.

#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "models/plan/plan_words.hpp"
#include "models/schedule/schedule.hpp"

namespace tandem::sim {

/// What a schedule's passes and transfers take, ps.
struct PassTimes {
  /// By (stage x chunks + chunk) x 3 + {forward, backward, weight}, x 2 + (1 for all micro-batches but the first).
  std::vector<std::int64_t> pass;
  /// Forward transfers by sender, then backward ones.
  std::vector<std::int64_t> transfer;
  /// By stage x chunks + chunk: the first micro-batch's forward pass ends no earlier. Empty: nothing is waited for.
  std::vector<std::int64_t> earliest;
  std::int64_t after_arrival = 0;   ///< between what arrived and the computation that uses it: launches
  std::int64_t gather = 0;          ///< putting together what arrived in shares; 0: it came whole
  bool wait_for_send = false;       ///< a stage's next computation waits for its last send

  static std::size_t index(std::int64_t stage, std::int64_t chunks, std::int64_t chunk, Phase phase, bool later) {
    const std::size_t kind = phase == Phase::forward ? 0 : phase == Phase::backward ? 1 : 2;
    return (static_cast<std::size_t>(stage * chunks + chunk) * 3 + kind) * 2 + (later ? 1 : 0);
  }
};

/// Ends, ps from the start of the step.
struct PassEnds {
  std::vector<std::int64_t> stage;     ///< of a stage's last pass
  std::vector<std::int64_t> backward;  ///< by stage x chunks + chunk: of the last backward pass
  std::vector<std::int64_t> gradient;  ///< the same, or of the last weight pass
};

class ScheduleFormula {
 public:
  ScheduleFormula(ScheduleKind kind, const ScheduleShape& shape);

  void evaluate(const PassTimes& times, PassEnds& ends);
  /// The most passes of chunks that a stage holds for their backward passes.
  std::int64_t most_held(std::int64_t stage) const { return held_[static_cast<std::size_t>(stage)]; }

 private:
  struct Entry {
    std::int32_t stage, peer;        ///< peer < 0: a computation
    std::int32_t time;               ///< index into PassTimes::pass or ::transfer
    std::int32_t in = -1;            ///< register: arrival of the input; of a transfer: end of what made it
    std::int32_t credit = -1;        ///< register: end of what used the buffer before
    std::int32_t out = -1;           ///< register
  };
  class Writer;

  std::vector<Entry> steps_;
  std::vector<std::int32_t> backward_, gradient_;  ///< by stage x chunks + chunk: register
  std::vector<std::int64_t> held_;
  std::int64_t stages_;
  std::vector<std::int64_t> registers_;
  std::vector<std::int64_t> computing_, sending_, receiving_, sent_;  // scratch, by stage
};

/// Times of schedules of any length: a part that repeats is computed for a few micro-batches and continued. Plans whose passes and
/// transfers take the same share what was computed.
class PassSchedules {
 public:
  /// Times of the whole step; the reference holds until the next call.
  const PassEnds& evaluate(ScheduleKind kind, const ScheduleShape& shape, const PassTimes& times);
  std::int64_t most_held(ScheduleKind kind, const ScheduleShape& shape, std::int64_t stage);

 private:
  ScheduleFormula& formula(ScheduleKind kind, const ScheduleShape& shape);
  void compute(ScheduleKind kind, const ScheduleShape& shape, const PassTimes& times, PassEnds& ends);
  void write_words(ScheduleKind kind, const ScheduleShape& shape, const PassTimes& times);
  static std::int64_t enough(const ScheduleShape& shape);

  /// Kind, stages, micro-batches, chunks, and costs with all else.
  using Key = std::tuple<ScheduleKind, std::int64_t, std::int64_t, std::int64_t, std::vector<std::int32_t>>;
  std::map<Key, ScheduleFormula> tapes_;
  std::unordered_map<std::vector<std::int64_t>, PassEnds, WordsHash> known_;
  std::size_t kept_ = 0;               ///< numbers in known_
  std::vector<std::int64_t> words_;    // scratch
  PassEnds before_;                    // scratch
};

}  // namespace tandem::sim
