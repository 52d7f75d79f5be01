#include "sim/network/network.hpp"

namespace tandem::sim {

Network::Network(std::vector<Capacity> links, const std::vector<std::vector<LinkUse>>& uses, std::size_t transfers,
                 EventQueue& queue)
    : transfers_(transfers),
      on_link_(links.size()),
      more_(links.size()),
      link_visit_(links.size(), 0),
      fair_(std::move(links)),
      queue_(queue) {
  first_use_.reserve(uses.size() + 1);
  for (const std::vector<LinkUse>& set : uses) {
    first_use_.push_back(static_cast<std::uint32_t>(uses_.size()));
    uses_.insert(uses_.end(), set.begin(), set.end());
  }
  first_use_.push_back(static_cast<std::uint32_t>(uses_.size()));
  alone_.reserve(uses.size());
  for (const std::vector<LinkUse>& set : uses) alone_.push_back(fair_.alone(set));
}

void Network::start(std::uint32_t id, std::span<const Segment> segments) {
  ActiveTransfer& t = transfers_[id];
  require(t.segment == nullptr && !segments.empty(), "a transfer was started twice or without work");
  t.segment = segments.data();
  t.more = static_cast<std::uint32_t>(segments.size() - 1);
  join(id);
}

bool Network::take(const Event& event) {
  ActiveTransfer& t = transfers_[event.target];
  if (t.segment == nullptr || event.version != t.version) return false;
  leave(event.target);
  if (t.more == 0) {
    t.segment = nullptr;
    return true;
  }
  ++t.segment;
  --t.more;
  join(event.target);
  return false;
}

inline std::uint32_t& Network::on_link(std::uint32_t link, std::uint32_t i) {
  return i < OnLink::kHere ? on_link_[link].here[i] : more_[link][i - OnLink::kHere];
}

inline void Network::join(std::uint32_t id) {
  ActiveTransfer& t = transfers_[id];
  t.first_use = first_use_[t.segment->uses];
  t.end_use = first_use_[t.segment->uses + 1];
  t.remaining = t.segment->work;
  t.rate = 0;
  t.since = queue_.now();
  bool alone = true;
  for (const LinkUse& use : uses(t)) {
    const std::uint32_t before = on_link_[use.link].count++;
    if (before >= OnLink::kHere) more_[use.link].push_back(id);
    else on_link_[use.link].here[before] = id;
    alone = alone && before == 0;
  }
  if (alone) return set_rate(id, alone_[t.segment->uses]);
  for (const LinkUse& use : uses(t)) changed_.push_back(use.link);
}

inline void Network::leave(std::uint32_t id) {
  ActiveTransfer& t = transfers_[id];
  ++t.version;
  for (const LinkUse& use : uses(t)) {
    const std::uint32_t last = --on_link_[use.link].count;
    if (last == 0) continue;
    std::uint32_t i = 0;
    while (on_link(use.link, i) != id) ++i;
    on_link(use.link, i) = on_link(use.link, last);
    if (last >= OnLink::kHere) more_[use.link].pop_back();
    changed_.push_back(use.link);
  }
}

bool Network::pending() {
  if (!changed_.empty() && (queue_.empty() || queue_.next() > queue_.now())) share_out();
  return !queue_.empty();
}

inline void Network::share_out() {
  ++visit_;
  for (const std::uint32_t link : changed_)
    if (link_visit_[link] != visit_) share(link);
  changed_.clear();
}

/// Subtracts the work done since the rate was set.
inline void Network::settle(ActiveTransfer& t) {
  const std::int64_t elapsed = (queue_.now() - t.since).ps();
  if (t.rate != kUnlimited) t.remaining -= static_cast<Work>(t.rate) * elapsed;
  t.since = queue_.now();
}

/// Collects the active transfers that use `link` or share links with such ones, directly or through others.
inline void Network::collect(std::uint32_t link) {
  component_.clear();
  open_.assign(1, link);
  link_visit_[link] = visit_;
  while (!open_.empty()) {
    const std::uint32_t next = open_.back();
    open_.pop_back();
    for (std::uint32_t i = 0; i < on_link_[next].count; ++i) {
      const std::uint32_t id = on_link(next, i);
      if (transfers_[id].visit == visit_) continue;
      transfers_[id].visit = visit_;
      component_.push_back(id);
      for (const LinkUse& use : uses(transfers_[id]))
        if (link_visit_[use.link] != visit_) {
          link_visit_[use.link] = visit_;
          open_.push_back(use.link);
        }
    }
  }
}

inline void Network::share(std::uint32_t link) {
  collect(link);
  if (component_.empty()) return;
  bundles_.clear();
  for (const std::uint32_t id : component_) bundles_.push_back(uses(transfers_[id]));
  rates_.resize(component_.size());
  fair_.solve(bundles_, rates_);
  for (std::size_t i = 0; i < component_.size(); ++i) set_rate(component_[i], rates_[i]);
}

inline void Network::set_rate(std::uint32_t id, Rate rate) {
  ActiveTransfer& t = transfers_[id];
  if (t.rate == rate) return;
  settle(t);
  t.rate = rate;
  queue_.schedule(queue_.now() + time_of(t.remaining, rate), id, ++t.version);
}

}  // namespace tandem::sim
