#include "sim/closed_form/schedule_formula.hpp"

#include <algorithm>
#include <deque>

#include "models/base/error.hpp"

namespace tandem::sim {
namespace {

constexpr std::size_t kTimesOfChunk = 6;  ///< a chunk's entries in PassTimes::pass; [0]: the first micro-batch's forward pass

}  // namespace

/// Brings all stages' events into an order in which every step's inputs are known. A transfer is a rendezvous of the
/// sender's and the receiver's streams, each in its own order, so every possible order gives the same times.
class ScheduleFormula::Writer {
 public:
  Writer(ScheduleFormula& formula, ScheduleKind kind, const ScheduleShape& shape) : formula_(formula), shape_(shape) {
    for (auto& events : make_events(kind, shape)) {
      Stage& stage = stages_.emplace_back();
      stage.events = std::move(events);
      stage.ends.assign(stage.events.size(), -1);
    }
    formula.gradient_.assign(static_cast<std::size_t>(shape.stages * shape.chunks), -1);
    formula.backward_ = formula.aligned_ = formula.gradient_;
  }

  void write() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        while (issue(s)) moved = true;
        while (transfer(s)) moved = true;
      }
    }
    for (const Stage& s : stages_) require(s.next == s.events.size() && s.sends.empty() && s.receives.empty(), "a schedule is stuck");
    count_held();
    for (std::size_t s = 0; s < stages_.size(); ++s) align(s);
    formula_.registers_.resize(static_cast<std::size_t>(registers_));
  }

 private:
  using Kind = ScheduleEvent::Kind;
  struct Stage {
    std::vector<ScheduleEvent> events;
    std::vector<std::int32_t> ends;  ///< by event: register of a computation's end
    std::size_t next = 0;
    std::deque<std::size_t> sends, receives;
    std::map<std::tuple<Phase, std::int32_t, std::int32_t>, std::int32_t> arrivals;  ///< by action: register
    std::map<std::tuple<Phase, std::int32_t, std::int32_t>, std::int32_t> made;
  };
  static auto key(const Action& a) { return std::tuple(a.phase, a.micro_batch, a.chunk); }

  bool issue(std::size_t s) {
    Stage& stage = stages_[s];
    if (stage.next == stage.events.size()) return false;
    const ScheduleEvent& e = stage.events[stage.next];
    if (e.kind == Kind::compute && !compute(s, e.action)) return false;
    if (e.kind == Kind::send) stage.sends.push_back(stage.next);
    if (e.kind == Kind::receive) stage.receives.push_back(stage.next);
    ++stage.next;
    return true;
  }

  bool compute(std::size_t s, const Action& a) {
    Stage& stage = stages_[s];
    std::int32_t in = -1;
    if (input_from(shape_, StageId(static_cast<std::int32_t>(s)), a)) {
      const auto arrived = stage.arrivals.find(key(a));
      if (arrived == stage.arrivals.end()) return false;
      in = arrived->second;
    }
    const auto time = static_cast<std::int32_t>(
        PassTimes::index(static_cast<std::int64_t>(s), shape_.chunks, a.chunk, a.phase, a.micro_batch > 0));
    const std::int32_t out = registers_++;
    const auto part = static_cast<std::int32_t>(static_cast<std::int64_t>(s) * shape_.chunks + a.chunk);
    formula_.steps_.push_back({static_cast<std::int32_t>(s), -1, time, in, -1, out});
    formula_.steps_.back().first = stage.events[stage.next].with_next;
    if (stage.next > 0 && stage.events[stage.next - 1].with_next)
      formula_.steps_.back().pair = static_cast<std::int32_t>(PassTimes::pair_index(
          static_cast<std::int64_t>(s), shape_.chunks, stage.events[stage.next - 1].action.chunk, a.chunk, a.micro_batch > 0));
    stage.ends[stage.next] = stage.made[key(a)] = out;
    if (a.phase != Phase::forward) formula_.gradient_[static_cast<std::size_t>(part)] = out;
    if (a.phase == Phase::backward) formula_.backward_[static_cast<std::size_t>(part)] = out;
    return true;
  }

  bool transfer(std::size_t s) {
    Stage& from = stages_[s];
    if (from.sends.empty()) return false;
    const ScheduleEvent& e = from.events[from.sends.front()];
    const auto there = output_to(shape_, StageId(static_cast<std::int32_t>(s)), e.action);
    const std::size_t t =
        (s + stages_.size() + static_cast<std::size_t>(static_cast<std::ptrdiff_t>(there->offset))) % stages_.size();
    Stage& to = stages_[t];
    if (to.receives.empty() || to.events[to.receives.front()].action != there->action) return false;
    const ScheduleEvent& r = to.events[to.receives.front()];
    const std::int32_t credit = r.credit < 0 ? -1 : to.ends[static_cast<std::size_t>(r.credit)];
    if (r.credit >= 0 && credit < 0) return false;
    const bool forward = e.action.phase == Phase::forward;
    const auto time = static_cast<std::int32_t>(forward ? s : stages_.size() + s);
    const std::int32_t out = registers_++;
    formula_.steps_.push_back(
        {static_cast<std::int32_t>(s), static_cast<std::int32_t>(t), time, from.made.at(key(e.action)), credit, out});
    to.arrivals[key(r.action)] = out;
    from.sends.pop_front();
    to.receives.pop_front();
    return true;
  }

  /// Finds the s-th backward pass after the last one of each chunk of stage `s`.
  void align(std::size_t s) {
    std::vector<std::int32_t> ends;                                          // of backward passes, in order
    std::vector<std::size_t> last(static_cast<std::size_t>(shape_.chunks));  // by chunk: index of its last one
    for (std::size_t i = 0; i < stages_[s].events.size(); ++i) {
      const ScheduleEvent& e = stages_[s].events[i];
      if (e.kind != Kind::compute || e.action.phase != Phase::backward) continue;
      last[static_cast<std::size_t>(e.action.chunk)] = ends.size();
      ends.push_back(stages_[s].ends[i]);
    }
    for (std::size_t c = 0; c < last.size(); ++c)
      if (last[c] + s < ends.size()) formula_.aligned_[s * last.size() + c] = ends[last[c] + s];
  }

  void count_held() {
    for (const Stage& s : stages_) {
      const bool split = std::any_of(s.events.begin(), s.events.end(), [](const ScheduleEvent& e) {
        return e.kind == Kind::compute && e.action.phase == Phase::weight;
      });
      std::int64_t now = 0, most = 0;
      for (const ScheduleEvent& e : s.events) {
        if (e.kind != Kind::compute) continue;
        if (e.action.phase == Phase::forward) ++now;
        if (e.action.phase == Phase::forward && !e.with_next) most = std::max(most, now);  // in a pair one takes what the other frees
        if (e.action.phase == (split ? Phase::weight : Phase::backward)) --now;
      }
      formula_.held_.push_back(most);
    }
  }

  ScheduleFormula& formula_;
  const ScheduleShape& shape_;
  std::vector<Stage> stages_;
  std::int32_t registers_ = 0;
};

ScheduleFormula::ScheduleFormula(ScheduleKind kind, const ScheduleShape& shape) : stages_(shape.stages) {
  Writer(*this, kind, shape).write();
}

/// Occupies a stage's compute stream with a pass, or with a pair when its second pass is known.
void ScheduleFormula::occupy(const PassTimes& times, const Entry& step, std::int64_t start, std::int64_t end) {
  const auto s = static_cast<std::size_t>(step.stage);
  if (step.first) begun_[s] = start;
  else if (step.pair < 0) computing_[s] = end;
  else computing_[s] = std::min(begun_[s], start) + times.pairs[static_cast<std::size_t>(step.pair)];
}

void ScheduleFormula::evaluate(const PassTimes& times, PassEnds& ends) {
  const auto n = static_cast<std::size_t>(stages_);
  for (auto* lane : {&computing_, &begun_, &sending_, &receiving_, &sent_}) lane->assign(n, 0);
  for (const Entry& step : steps_) {
    const auto s = static_cast<std::size_t>(step.stage);
    const std::int64_t in = step.in < 0 ? 0 : registers_[static_cast<std::size_t>(step.in)];
    std::int64_t& out = registers_[static_cast<std::size_t>(step.out)];
    if (step.peer < 0) {
      const std::int64_t waits = times.wait_for_send ? sent_[s] : 0;
      std::int64_t start = std::max(computing_[s], waits);
      if (step.in >= 0) start = std::max(start, std::max(in + times.after_arrival, waits) + times.gather);
      const auto time = static_cast<std::size_t>(step.time);
      out = start + times.pass[time];
      if (time % kTimesOfChunk == 0 && !times.earliest.empty()) out = std::max(out, times.earliest[time / kTimesOfChunk]);
      occupy(times, step, start, out);
      continue;
    }
    const auto t = static_cast<std::size_t>(step.peer);
    const std::int64_t free = step.credit < 0 ? 0 : registers_[static_cast<std::size_t>(step.credit)];
    out = std::max({in, free, sending_[s], receiving_[t]}) + times.transfer[static_cast<std::size_t>(step.time)];
    sending_[s] = receiving_[t] = sent_[s] = out;
  }
  ends.stage = computing_;
  const auto read = [&](const std::vector<std::int32_t>& which, std::vector<std::int64_t>& to) {
    to.clear();
    for (const std::int32_t r : which) to.push_back(r < 0 ? -1 : registers_[static_cast<std::size_t>(r)]);
  };
  read(backward_, ends.backward);
  read(gradient_, ends.gradient);
  read(aligned_, ends.aligned);
}

ScheduleFormula& PassSchedules::formula(ScheduleKind kind, const ScheduleShape& shape) {
  std::vector<std::int32_t> costs;
  for (const PassCosts& c : shape.costs) costs.insert(costs.end(), {c.forward, c.backward, c.weight, c.held, c.deferred});
  costs.insert(costs.end(), {shape.transfer, shape.steps_overlap, shape.exchanges, shape.pairs});
  return formulas_
      .try_emplace({kind, shape.stages, shape.micro_batches, shape.chunks, std::move(costs)}, kind, shape).first->second;
}

/// Least numbers of forward passes and of micro-batches a stage that are computed. With fewer, the schedule may not repeat itself
/// yet.
constexpr std::int64_t kPasses = 2048, kBatches = 8;

/// Number of micro-batches after which a step repeats itself. Interleaved schedules need whole groups of them.
std::int64_t PassSchedules::enough(const ScheduleShape& shape) {
  const std::int64_t p = shape.stages, rest = shape.micro_batches % p;
  if (shape.chunks > 1 && rest != 0) return shape.micro_batches;
  const std::int64_t played = std::max(kBatches * p, kPasses / (p * shape.chunks) / p * p);
  return std::min(shape.micro_batches, played + rest);
}

void PassSchedules::compute(ScheduleKind kind, const ScheduleShape& shape, const PassTimes& times, PassEnds& ends) {
  ScheduleShape few = shape;
  few.micro_batches = enough(shape);
  formula(kind, few).evaluate(times, ends);
  const std::int64_t more = (shape.micro_batches - few.micro_batches) / shape.stages;
  if (more == 0) return;
  few.micro_batches -= shape.stages;
  formula(kind, few).evaluate(times, before_);
  for (auto list : {&PassEnds::stage, &PassEnds::backward, &PassEnds::gradient, &PassEnds::aligned})
    for (std::size_t i = 0; i < (ends.*list).size(); ++i) (ends.*list)[i] += more * ((ends.*list)[i] - (before_.*list)[i]);
}

/// Writes all that the times of a step depend on into `words_`, the cache's key.
void PassSchedules::write_words(ScheduleKind kind, const ScheduleShape& shape, const PassTimes& times) {
  words_.assign({static_cast<std::int64_t>(kind), shape.stages, shape.micro_batches, shape.chunks, shape.transfer,
                 shape.steps_overlap, shape.exchanges, shape.pairs, times.after_arrival, times.gather, times.wait_for_send});
  for (const PassCosts& c : shape.costs) words_.insert(words_.end(), {c.forward, c.backward, c.weight, c.held, c.deferred});
  words_.insert(words_.end(), times.pass.begin(), times.pass.end());
  words_.insert(words_.end(), times.transfer.begin(), times.transfer.end());
  words_.insert(words_.end(), times.earliest.begin(), times.earliest.end());
  words_.insert(words_.end(), times.pairs.begin(), times.pairs.end());
}

const PassEnds& PassSchedules::evaluate(ScheduleKind kind, const ScheduleShape& shape, const PassTimes& times) {
  constexpr std::size_t kMostKept = std::size_t{4} << 20;  // numbers: 32 MiB
  write_words(kind, shape, times);
  if (const auto found = known_.find(words_); found != known_.end()) return found->second;
  if (kept_ > kMostKept) known_.clear(), kept_ = 0;
  PassEnds& ends = known_.emplace(words_, PassEnds()).first->second;
  compute(kind, shape, times, ends);
  kept_ += words_.size() + ends.stage.size() + 3 * ends.backward.size();
  return ends;
}

std::int64_t PassSchedules::most_held(ScheduleKind kind, const ScheduleShape& shape, std::int64_t stage) {
  ScheduleShape few = shape;
  few.micro_batches = enough(shape);
  const std::int64_t held = formula(kind, few).most_held(stage);
  // All forwards first: every micro-batch is held.
  const bool all = kind == ScheduleKind::gpipe || kind == ScheduleKind::breadth_first;
  return all ? shape.micro_batches * shape.chunks : held;
}

}  // namespace tandem::sim
