#include "models/schedule/controllable_memory.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace tandem {
namespace {

/// Passes of a micro-batch on a stage, each needed by the next: forward of chunk 0 and 1, backward of chunk 1 and 0.
enum Pass : std::uint8_t { kForward0, kForward1, kBackward1, kBackward0, kWeight, kIdle };
constexpr std::size_t kChained = 4;
/// Slots from one micro-batch to the next: forward, backward and weight passes of two chunks.
constexpr std::int64_t kPeriod = 6;

/// Slots of the first micro-batch's passes. Backward passes start later where two passes of a stage would have the same slot.
std::array<std::int64_t, kChained> building_block(ScheduleKind kind, std::int64_t stages, std::int64_t stage) {
  if (kind == ScheduleKind::v_min) {
    const std::int64_t back = 2 * stages + (stages % 3 == 0 ? 2 : 0);
    return {stage, 2 * stages - 1 - stage, back + stage, back + 2 * stages - 1 - stage};
  }
  const std::int64_t back = 3 * stages - 1 + (stages % 2 == 0 ? 3 : 0);
  return {2 * stage, 3 * stages - 2 - stage, back + 2 * stage, back + 3 * stages - 1 - stage};
}

/// A pass of micro-batch `index`, or the stage's weight pass `index`.
struct Placed {
  std::int64_t slot = 0;
  std::size_t stage = 0, pass = 0, index = 0;
  bool operator<(const Placed& o) const { return std::tie(slot, stage, pass, index) < std::tie(o.slot, o.stage, o.pass, o.index); }
};

/// Chunks held after a slot, and backward passes whose weight pass has not run.
struct Held {
  std::int64_t chunks = 0, deferred = 0;
  bool operator==(const Held&) const = default;
};

/// Slots of all passes. Each pass takes one.
class SlotTable {
 public:
  SlotTable(ScheduleKind kind, const ScheduleShape& shape) : stages_(static_cast<std::size_t>(shape.stages)) {
    for (std::int64_t s = 0; s < shape.stages; ++s) {
      const auto first = building_block(kind, shape.stages, s);
      for (std::size_t pass = 0; pass < kChained; ++pass)
        for (std::int64_t i = 0; i < shape.micro_batches; ++i)
          stages_[static_cast<std::size_t>(s)].slots[pass].push_back(first[pass] + kPeriod * i);
    }
  }

  void add_weights() {
    for (Stage& s : stages_) {
      std::int64_t deferred = 0, slot = 0;
      const std::vector<Pass> row = row_of(s);
      for (; slot < static_cast<std::int64_t>(row.size()) || deferred > 0; ++slot) {
        const Pass pass = slot < static_cast<std::int64_t>(row.size()) ? row[static_cast<std::size_t>(slot)] : kIdle;
        if (pass == kBackward0 || pass == kBackward1) ++deferred;
        if (pass == kIdle && deferred > 0) --deferred, s.slots[kWeight].push_back(slot);
      }
    }
  }
  void drop_weights() {
    for (Stage& s : stages_) s.slots[kWeight].clear();
  }

  /// Moves passes at the ends of the step to earlier idle slots, as long as no stage holds more chunks than the most of any does now.
  /// Without weight passes in the table, one runs in each idle slot; then only the last passes move.
  void reorder() {
    const bool weights = !stages_.front().slots[kWeight].empty();
    std::int64_t most = 0;
    for (Stage& s : stages_) {
      s.row = row_of(s);
      most = std::max(most, count(s, weights));
    }
    const std::size_t last = stages_.front().slots[kForward0].size() - 1;
    enum { warmup, steady, drain } part = warmup;
    for (const Placed& p : in_time()) {
      if (part == warmup && p.pass == kBackward0 && p.stage == 0) part = steady;
      const bool moves = part == drain || (part == warmup && weights);
      if (part == steady && p.pass == kForward0 && p.index == last) part = drain;
      if (moves) pull(p, weights, most);
    }
  }

  /// Starts every pass when its stage is free and its input is there; the order of a stage stays.
  void squeeze() {
    std::vector<std::int64_t> free(stages_.size());
    for (const Placed& p : in_time()) {
      std::int64_t& slot = stages_[p.stage].slots[p.pass][p.index];
      slot = std::max(free[p.stage], p.pass == kWeight ? 0 : after_input(p));
      free[p.stage] = slot + 1;
    }
  }

  /// A stage's passes in order, with a weight pass in each idle slot, those of chunk 1 first.
  std::vector<Action> order(std::size_t stage) const {
    std::vector<Action> out;
    std::array<std::int32_t, kChained> done{};
    std::array<std::int32_t, 2> weights{};
    const auto weight = [&](std::int32_t chunk) {
      std::int32_t& next = weights[static_cast<std::size_t>(chunk)];
      if (next == done[chunk == 1 ? kBackward1 : kBackward0]) return false;
      out.push_back({Phase::weight, next++, chunk});
      return true;
    };
    for (const Pass pass : row_of(stages_[stage])) {
      const std::int32_t chunk = pass == kForward1 || pass == kBackward1 ? 1 : 0;
      if (pass < kChained) out.push_back({pass <= kForward1 ? Phase::forward : Phase::backward, done[pass]++, chunk});
      else if (!weight(1)) weight(0);
    }
    for (const std::int32_t chunk : {1, 0})
      while (weight(chunk)) {}
    return out;
  }

 private:
  struct Stage {
    std::array<std::vector<std::int64_t>, kChained + 1> slots;  ///< by pass, then index
    std::vector<Pass> row;                                      ///< by slot
    std::vector<Held> held;                                     ///< by slot
    /// The slot of the backward pass that is `index` in the order of both chunks'.
    std::int64_t backward(std::size_t index) const {
      std::size_t first = 0, second = 0;
      const auto &a = slots[kBackward1], &b = slots[kBackward0];
      const auto next = [&] { return second == b.size() || (first < a.size() && a[first] < b[second]) ? a[first++] : b[second++]; };
      while (first + second < index) next();
      return next();
    }
  };

  static std::vector<Pass> row_of(const Stage& s) {
    std::int64_t end = 0;
    for (const auto& list : s.slots)
      if (!list.empty()) end = std::max(end, list.back() + 1);
    std::vector<Pass> row(static_cast<std::size_t>(end), kIdle);
    for (std::size_t pass = 0; pass < s.slots.size(); ++pass)
      for (const std::int64_t slot : s.slots[pass]) row[static_cast<std::size_t>(slot)] = static_cast<Pass>(pass);
    return row;
  }

  std::vector<Placed> in_time() const {
    std::vector<Placed> all;
    for (std::size_t s = 0; s < stages_.size(); ++s)
      for (std::size_t pass = 0; pass < stages_[s].slots.size(); ++pass)
        for (std::size_t i = 0; i < stages_[s].slots[pass].size(); ++i) all.push_back({stages_[s].slots[pass][i], s, pass, i});
    std::sort(all.begin(), all.end());
    return all;
  }

  static Held after(Held h, Pass pass, bool weights) {
    if (pass == kForward0 || pass == kForward1) ++h.chunks;
    if (pass == kBackward0 || pass == kBackward1) ++h.deferred;
    if (pass == kWeight || (!weights && pass == kIdle && h.deferred > 0)) --h.chunks, --h.deferred;
    return h;
  }

  /// Counts what `s` holds, by slot; returns the most.
  static std::int64_t count(Stage& s, bool weights) {
    s.held.clear();
    Held now;
    std::int64_t most = 0;
    for (const Pass pass : s.row) {
      s.held.push_back(now = after(now, pass, weights));
      most = std::max(most, now.chunks);
    }
    return most;
  }

  /// The first slot after the pass whose output `p` reads.
  std::int64_t after_input(const Placed& p) const {
    std::int64_t slot = 0;
    const bool there = p.pass == kForward0 || p.pass == kBackward1;  // micro-batches go to later stages
    const std::size_t from = there ? p.stage - 1 : p.stage + 1;
    if (there ? p.stage > 0 : from < stages_.size()) slot = stages_[from].slots[p.pass][p.index] + 1;
    if (p.pass > 0) slot = std::max(slot, stages_[p.stage].slots[p.pass - 1][p.index] + 1);
    return slot;
  }

  /// The first slot in which `p` may run as its stage now is.
  std::int64_t earliest(const Placed& p) const {
    const Stage& s = stages_[p.stage];
    const std::int64_t slot = p.pass == kWeight ? s.backward(p.index) + 1 : after_input(p);
    return p.index > 0 ? std::max(slot, s.slots[p.pass][p.index - 1] + 1) : slot;
  }

  void pull(const Placed& p, bool weights, std::int64_t most) {
    Stage& s = stages_[p.stage];
    for (std::int64_t slot = earliest(p); slot < p.slot; ++slot) {
      if (s.row[static_cast<std::size_t>(slot)] != kIdle || !moved(s, p, slot, weights, most)) continue;
      s.slots[p.pass][p.index] = slot;
      return;
    }
  }

  /// Moves `p` to `slot`, unless its stage would then hold too much.
  static bool moved(Stage& s, const Placed& p, std::int64_t slot, bool weights, std::int64_t most) {
    const auto to = static_cast<std::size_t>(slot), from = static_cast<std::size_t>(p.slot);
    std::swap(s.row[to], s.row[from]);
    std::vector<Held> held;
    Held now = to > 0 ? s.held[to - 1] : Held{};
    for (std::size_t i = to; i < s.row.size(); ++i) {
      now = after(now, s.row[i], weights);
      if (now.chunks > most) {
        std::swap(s.row[to], s.row[from]);
        return false;
      }
      if (i >= from && now == s.held[i]) break;
      held.push_back(now);
    }
    std::copy(held.begin(), held.end(), s.held.begin() + slot);
    return true;
  }

  std::vector<Stage> stages_;
};

}  // namespace

Orders controllable_memory(ScheduleKind kind, const ScheduleShape& shape) {
  SlotTable table(kind, shape);
  table.add_weights();
  table.reorder();
  table.squeeze();
  table.drop_weights();
  table.reorder();
  table.add_weights();
  table.squeeze();
  table.drop_weights();
  Orders orders;
  for (std::size_t s = 0; s < static_cast<std::size_t>(shape.stages); ++s) orders.push_back(table.order(s));
  return orders;
}

}  // namespace tandem
