#pragma once
// Plays what stages issue, with transfers as a rendezvous: a stage has a stream for computation, one for sends and one
// for receives, each in order, and a transfer starts when it heads the sender's and the receiver's stream. A pair of passes
// begins when the inputs of both are there, and its outputs leave when both have ended. Knows messages by micro-batch,
// direction and part of the model.

#include <deque>

#include "tests/schedule_list.hpp"

namespace tandem::tests {

using Issues = std::vector<std::vector<ScheduleEvent>>;  ///< by stage

/// What must have ended before the host issues an event. Either host waits for the send at a `release`: memory may be used again after
/// it.
enum class IssuedBy : std::uint8_t {
  launching_host,  ///< nothing
  computing_host,  ///< every computation before it
};

class Rendezvous {
 public:
  Rendezvous(const Issues& issues, const Machine& machine, IssuedBy host)
      : issues_(issues),
        machine_(machine),
        host_(host),
        computed_(machine.parts()),
        made_(machine.parts()),
        sent_(machine.parts()),
        stages_(issues.size()),
        played_(issues.size()) {
    for (std::size_t s = 0; s < issues.size(); ++s) stages_[s].ended.assign(issues[s].size(), -1);
  }

  /// Nothing when stages wait for each other.
  std::optional<Played> play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        while (issue(s)) moved = true;
        while (compute(s)) moved = true;
        while (transfer(s)) moved = true;
      }
    }
    for (std::size_t s = 0; s < stages_.size(); ++s)
      if (stages_[s].next < issues_[s].size() || !stages_[s].idle()) return std::nullopt;
    return played_;
  }

 private:
  using Kind = ScheduleEvent::Kind;
  struct Issued {
    std::size_t event;
    std::int64_t when;
  };
  struct Stage {
    std::size_t next = 0;
    std::int64_t host = 0, sending = 0, receiving = 0, computing = 0;  ///< busy until
    std::optional<std::size_t> awaited;                                ///< computation that the host does
    std::deque<Issued> computes, sends, receives;
    std::vector<std::int64_t> ended;  ///< of computations
    bool idle() const { return computes.empty() && sends.empty() && receives.empty(); }
  };

  std::int64_t part(std::size_t s, const Action& a) const { return machine_.part(static_cast<std::int64_t>(s), a); }
  /// The part of the model that uses what `a` of stage s sends.
  std::int64_t receiver(std::size_t s, const Action& a) const {
    return part(s, a) + (a.phase == Phase::forward ? 1 : -1);
  }
  /// End of the transfer that brings what part `k` uses.
  std::int64_t& arrival(const Action& a, std::int64_t k) { return sent_.at(a.phase, a.micro_batch, k); }

  bool issue(std::size_t s) {
    Stage& stage = stages_[s];
    if (stage.awaited) {
      if (stage.ended[*stage.awaited] < 0) return false;
      stage.host = std::max(stage.host, stage.ended[*stage.awaited]);
      stage.awaited.reset();
    }
    if (stage.next == issues_[s].size()) return false;
    const ScheduleEvent& e = issues_[s][stage.next];
    if (e.kind == Kind::release) {
      const std::int64_t gone = arrival(e.action, receiver(s, e.action));
      if (gone < 0) return false;
      stage.host = std::max(stage.host, gone);
    } else {
      auto& stream = e.kind == Kind::compute ? stage.computes : e.kind == Kind::send ? stage.sends : stage.receives;
      stream.push_back({stage.next, stage.host});
      if (e.kind == Kind::compute && host_ == IssuedBy::computing_host) stage.awaited = stage.next;
    }
    ++stage.next;
    return true;
  }

  /// When everything that `a` reads is there; -1: not known yet.
  std::int64_t ready(std::size_t s, const Action& a) {
    const std::int64_t k = part(s, a);
    const bool forward = a.phase == Phase::forward;
    const bool turns = machine_.folded && k == machine_.stages - (forward ? 0 : 1);
    const bool has_input = !turns && (forward ? k > 0 : a.phase == Phase::backward && k + 1 < machine_.parts());
    const std::int64_t input = has_input ? arrival(a, k) : 0;
    const std::int64_t own =
        a.phase == Phase::forward
            ? 0
            : computed_.at(a.phase == Phase::weight ? Phase::backward : Phase::forward, a.micro_batch, k);
    const bool handed = turns && a.phase != Phase::weight;
    const std::int64_t turned = handed ? computed_.at(a.phase, a.micro_batch, k + (forward ? -1 : 1)) : 0;
    return std::min({input, own, turned}) < 0 ? -1 : std::max({input, own, turned});
  }

  bool compute(std::size_t s) {
    Stage& stage = stages_[s];
    if (stage.computes.empty()) return false;
    const auto [event, issued] = stage.computes.front();
    const ScheduleEvent& e = issues_[s][event];
    const Action& a = e.action;
    const std::int64_t k = part(s, a), here = ready(s, a), partners = e.with_next ? ready(s, issues_[s][event + 1].action) : 0;
    if (std::min(here, partners) < 0) return false;
    const std::int64_t start = std::max({issued, here, partners, stage.computing});
    stage.computing = start + machine_.time(static_cast<std::int64_t>(s), a);
    played_[s].push_back({a, start, stage.computing});
    stage.ended[event] = computed_.at(a.phase, a.micro_batch, k) = stage.computing;
    if (!e.with_next) made_.at(a.phase, a.micro_batch, k) = stage.computing;
    if (event > 0 && issues_[s][event - 1].with_next) {
      const Action& partner = issues_[s][event - 1].action;
      made_.at(partner.phase, partner.micro_batch, part(s, partner)) = stage.computing;
    }
    stage.computes.pop_front();
    return true;
  }

  bool transfer(std::size_t s) {
    Stage& from = stages_[s];
    if (from.sends.empty()) return false;
    const auto [event, issued] = from.sends.front();
    const Action& a = issues_[s][event].action;
    const std::int64_t k = receiver(s, a), made = made_.at(a.phase, a.micro_batch, part(s, a));
    const auto t = static_cast<std::size_t>(machine_.stage_of(k));
    Stage& to = stages_[t];
    if (to.receives.empty() || made < 0) return false;
    const auto [other, expected] = to.receives.front();
    const ScheduleEvent& r = issues_[t][other];
    if (r.action.phase != a.phase || r.action.micro_batch != a.micro_batch || part(t, r.action) != k) return false;
    const std::int64_t free = r.credit < 0 ? 0 : to.ended[static_cast<std::size_t>(r.credit)];
    if (free < 0) return false;
    const std::int64_t start = std::max({issued, expected, made, free, from.sending, to.receiving});
    from.sending = to.receiving = arrival(a, k) = start + machine_.latency;
    from.sends.pop_front();
    to.receives.pop_front();
    return true;
  }

  const Issues& issues_;
  const Machine& machine_;
  IssuedBy host_;
  Ends computed_, made_, sent_;
  std::vector<Stage> stages_;
  Played played_;
};

inline Issues issues_of(ScheduleKind kind, const ScheduleShape& shape) {
  Issues issues;
  for (int s = 0; s < shape.stages; ++s) issues.push_back(make_events(kind, shape, StageId(s)));
  return issues;
}

}  // namespace tandem::tests
