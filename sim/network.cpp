#include "sim/network.hpp"

#include <algorithm>

namespace tandem::sim {

Network::Network(std::vector<Capacity> links, std::vector<std::vector<LinkUse>> uses, std::size_t transfers,
                 EventQueue& queue)
    : uses_(std::move(uses)),
      transfers_(transfers),
      on_link_(links.size()),
      link_visit_(links.size(), 0),
      fair_(std::move(links)),
      queue_(queue) {}

void Network::start(std::uint32_t id, std::span<const Segment> segments) {
  Transfer& t = transfers_[id];
  require(!t.active && !segments.empty(), "a transfer was started twice or without work");
  t.segments = segments;
  t.segment = 0;
  join(id);
}

bool Network::take(const Event& event) {
  Transfer& t = transfers_[event.target];
  if (!t.active || event.version != t.version) return false;
  leave(event.target);
  if (++t.segment == t.segments.size()) return true;
  join(event.target);
  return false;
}

void Network::join(std::uint32_t id) {
  Transfer& t = transfers_[id];
  t.active = true;
  t.uses = uses_[t.segments[t.segment].uses];
  t.remaining = t.segments[t.segment].work;
  t.rate = 0;
  t.since = queue_.now();
  bool alone = true;
  for (const LinkUse& use : t.uses) {
    on_link_[use.link].push_back(id);
    alone = alone && on_link_[use.link].size() == 1;
  }
  if (alone) return set_rate(id, fair_.alone(t.uses));
  for (const LinkUse& use : t.uses) changed_.push_back(use.link);
}

void Network::leave(std::uint32_t id) {
  Transfer& t = transfers_[id];
  t.active = false;
  ++t.version;
  for (const LinkUse& use : t.uses) {
    auto& on = on_link_[use.link];
    on.erase(std::find(on.begin(), on.end(), id));
    if (!on.empty()) changed_.push_back(use.link);
  }
}

bool Network::pending() {
  if (!changed_.empty() && (queue_.empty() || queue_.next() > queue_.now())) share_out();
  return !queue_.empty();
}

void Network::share_out() {
  ++visit_;
  for (const std::uint32_t link : changed_)
    if (link_visit_[link] != visit_) share(link);
  changed_.clear();
}

/// Books the work done since the rate was set.
void Network::settle(Transfer& t) {
  const std::int64_t elapsed = (queue_.now() - t.since).ps();
  if (t.rate != kUnlimited) t.remaining -= static_cast<Work>(t.rate) * elapsed;
  t.since = queue_.now();
}

/// Active transfers that share links, directly or through others, with `link`.
void Network::collect(std::uint32_t link) {
  component_.clear();
  open_.assign(1, link);
  link_visit_[link] = visit_;
  while (!open_.empty()) {
    const std::uint32_t next = open_.back();
    open_.pop_back();
    for (const std::uint32_t id : on_link_[next]) {
      if (transfers_[id].visit == visit_) continue;
      transfers_[id].visit = visit_;
      component_.push_back(id);
      for (const LinkUse& use : transfers_[id].uses)
        if (link_visit_[use.link] != visit_) {
          link_visit_[use.link] = visit_;
          open_.push_back(use.link);
        }
    }
  }
}

void Network::share(std::uint32_t link) {
  collect(link);
  if (component_.empty()) return;
  bundles_.clear();
  for (const std::uint32_t id : component_) bundles_.push_back(transfers_[id].uses);
  rates_.resize(component_.size());
  fair_.solve(bundles_, rates_);
  for (std::size_t i = 0; i < component_.size(); ++i) set_rate(component_[i], rates_[i]);
}

void Network::set_rate(std::uint32_t id, Rate rate) {
  Transfer& t = transfers_[id];
  if (t.rate == rate) return;
  settle(t);
  t.rate = rate;
  queue_.schedule(queue_.now() + time_of(t.remaining, rate), id, ++t.version);
}

}  // namespace tandem::sim
