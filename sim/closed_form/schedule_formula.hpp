#pragma once
// A pipeline schedule as a recurrence: a pass or transfer ends its own time after the latest end of what it waits for. The list of
// steps is written once for a schedule and evaluated with any times.

#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "models/plan/plan_words.hpp"
#include "models/schedule/schedule.hpp"

namespace tandem::sim {

/// Times of a schedule's passes and transfers, ps.
struct PassTimes {
  /// One time for each stage, chunk, kind of pass, and first or later micro-batch, at `index`.
  std::vector<std::int64_t> pass;
  /// One time for each sending stage: forward transfers of all stages, then backward ones.
  std::vector<std::int64_t> transfer;
  /// By stage x chunks + chunk: earliest end of the first micro-batch's forward pass. Empty: no limit.
  std::vector<std::int64_t> earliest;
  /// The least time from a pair's begin to the next computation of its stage, at `pair_index`. Each of its passes takes no less than
  /// alone. So all ends are lower bounds.
  std::vector<std::int64_t> pairs = {};
  std::int64_t after_arrival = 0;   ///< launches between an arrival and the computation that uses it
  std::int64_t gather = 0;          ///< gathering the shares of an arrived tensor; 0: it arrives whole
  bool wait_for_send = false;       ///< a stage's next computation waits for its last send

  static std::size_t index(std::int64_t stage, std::int64_t chunks, std::int64_t chunk, Phase phase, bool later) {
    const std::size_t kind = phase == Phase::forward ? 0 : phase == Phase::backward ? 1 : 2;
    return (static_cast<std::size_t>(stage * chunks + chunk) * 3 + kind) * 2 + (later ? 1 : 0);
  }
  /// Of a pair: the chunks of its passes, and whether its backward pass is of a later micro-batch.
  static std::size_t pair_index(std::int64_t stage, std::int64_t chunks, std::int64_t forward, std::int64_t backward, bool later) {
    return static_cast<std::size_t>((stage * chunks + forward) * chunks + backward) * 2 + (later ? 1 : 0);
  }
};

/// Ends, ps from the start of the step.
struct PassEnds {
  std::vector<std::int64_t> stage;     ///< by stage: its last pass
  std::vector<std::int64_t> backward;  ///< by stage x chunks + chunk: the last backward pass
  std::vector<std::int64_t> gradient;  ///< likewise: the last weight pass, or backward pass if there are none
  /// Likewise: on stage s the s-th backward pass after the chunk's last one, with which all stages' chunks are reduced; -1: none.
  std::vector<std::int64_t> aligned;
};

class ScheduleFormula {
 public:
  ScheduleFormula(ScheduleKind kind, const ScheduleShape& shape);

  void evaluate(const PassTimes& times, PassEnds& ends);
  /// The most chunks' forward passes whose activations a stage holds at once.
  std::int64_t most_held(std::int64_t stage) const { return held_[static_cast<std::size_t>(stage)]; }

 private:
  struct Entry {
    std::int32_t stage, peer;        ///< peer < 0: a computation
    std::int32_t time;               ///< index into PassTimes::pass or ::transfer
    std::int32_t in = -1;            ///< register: arrival of the input; of a transfer: end of the pass that made it
    std::int32_t credit = -1;        ///< register: end of the pass that used the buffer before
    std::int32_t out = -1;           ///< register
    std::int32_t pair = -1;          ///< of a pair's second pass: index into PassTimes::pairs
    bool first = false;              ///< of a pair: its first pass
  };
  class Writer;
  void occupy(const PassTimes& times, const Entry& step, std::int64_t start, std::int64_t end);

  std::vector<Entry> steps_;
  std::vector<std::int32_t> backward_, gradient_, aligned_;  ///< by stage x chunks + chunk: register; aligned_: -1 if there is none
  std::vector<std::int64_t> held_;
  std::int64_t stages_;
  std::vector<std::int64_t> registers_;
  std::vector<std::int64_t> computing_, begun_, sending_, receiving_, sent_;  // scratch, by stage; begun_: the last pair's first pass
};

/// Evaluates schedules of any length: a part that repeats is computed for a few micro-batches and extrapolated. Plans with equal
/// times of passes and transfers share a cached result.
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

  /// Kind, stages, micro-batches, chunks, then costs and all other fields of the shape.
  using Key = std::tuple<ScheduleKind, std::int64_t, std::int64_t, std::int64_t, std::vector<std::int32_t>>;
  std::map<Key, ScheduleFormula> formulas_;
  std::unordered_map<std::vector<std::int64_t>, PassEnds, WordsHash> known_;
  std::size_t kept_ = 0;               ///< numbers in known_
  std::vector<std::int64_t> words_;    // scratch
  PassEnds before_;                    // scratch
};

}  // namespace tandem::sim
