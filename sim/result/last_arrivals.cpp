#include "sim/result/last_arrivals.hpp"

#include <algorithm>
#include <utility>

namespace tandem::sim {

LastArrivals::LastArrivals(const SimulatedStep& simulated)
    : simulated_(simulated),
      parties_(simulated.quotient.exchanges.size()),
      tasks_(simulated.quotient.tables.size()),
      known_(parties_.size()) {
  readers_.reserve(simulated.roles.size());
  for (std::size_t role = 0; role < simulated.roles.size(); ++role) {
    readers_.emplace_back(simulated, role);
    const std::vector<std::uint32_t>& exchanges = simulated.quotient.roles[role].exchanges;
    for (std::size_t number = 0; number < exchanges.size(); ++number)
      parties_[exchanges[number]].push_back({static_cast<std::uint32_t>(role), static_cast<std::uint32_t>(number)});
  }
}

/// Number of a task's exchange in the role's own list; -1: none.
std::int32_t LastArrivals::exchange_of(std::size_t role, Place at) const {
  const std::uint32_t tmpl = simulated_.lane_program(role).starts[at.instance].tmpl;
  return simulated_.quotient.slots(role)[simulated_.communications.first_slot[tmpl] + at.task].exchange;
}

LastArrivals::Tasks LastArrivals::tasks_of_table(std::size_t role) const {
  Tasks out(simulated_.quotient.roles[role].exchanges.size());
  const LaneProgram& program = simulated_.lane_program(role);
  const std::vector<std::uint32_t>& first = simulated_.communications.first_slot;
  for (std::uint32_t i = 0; i < program.instances(); ++i) {
    const std::uint32_t tmpl = program.starts[i].tmpl;
    for (std::uint16_t t = 0; t < first[tmpl + 1] - first[tmpl]; ++t)
      if (const std::int32_t n = exchange_of(role, {i, t}); n >= 0) out[static_cast<std::size_t>(n)].push_back({i, t});
  }
  return out;
}

/// The role's tasks of one exchange: the n-th ones of all its roles meet. Roles with the same table of slots share the list.
const std::vector<Place>& LastArrivals::tasks(std::size_t role, std::size_t number) {
  std::optional<Tasks>& known = tasks_[simulated_.quotient.roles[role].table];
  if (!known) known = tasks_of_table(role);
  return (*known)[number];
}

std::optional<LastArrival> LastArrivals::of(std::size_t role, Place at) {
  const std::int32_t number = exchange_of(role, at);
  if (number < 0) return {};
  const std::uint32_t exchange = simulated_.quotient.roles[role].exchanges[static_cast<std::size_t>(number)];
  const std::vector<Place>& own = tasks(role, static_cast<std::size_t>(number));
  const auto before = [](Place a, Place b) { return std::pair(a.instance, a.task) < std::pair(b.instance, b.task); };
  const auto turn = static_cast<std::size_t>(std::lower_bound(own.begin(), own.end(), at, before) - own.begin());
  const std::int64_t started = readers_[role].started(at.instance, at.task);
  std::vector<Arrivals>& turns = known_[exchange];
  if (turns.empty()) turns.resize(own.size());
  Arrivals last;
  if (turns.size() != own.size()) last = last_of(exchange, turn, own.size(), started);  // not all roles take part in every turn
  else if (turns[turn].first == Arrivals::kUnknown || turns[turn].started != started)
    last = turns[turn] = last_of(exchange, turn, own.size(), started);
  else last = turns[turn];
  const auto is_other = [&](std::uint32_t party) { return party != Arrivals::kNone && parties_[exchange][party].role != role; };
  const std::uint32_t party = is_other(last.first) ? last.first : last.second;
  if (!is_other(party)) return {};
  const auto [other, its_number] = parties_[exchange][party];
  return LastArrival{other, tasks(other, its_number)[turn]};
}

/// `turns`: number of turns of the roles that meet; roles with other numbers take no part.
LastArrivals::Arrivals LastArrivals::last_of(std::uint32_t exchange, std::size_t turn, std::size_t turns, std::int64_t started) {
  const std::vector<Party>& parties = parties_[exchange];
  Arrivals out{started, Arrivals::kNone, Arrivals::kNone};
  for (std::uint32_t p = 0; p < parties.size(); ++p) {
    const std::vector<Place>& all = tasks(parties[p].role, parties[p].number);
    if (all.size() != turns || readers_[parties[p].role].at(all[turn].instance, all[turn].task).ready != started) continue;
    if (out.first == Arrivals::kNone) {
      out.first = p;
    } else if (parties[p].role != parties[out.first].role) {
      out.second = p;
      break;
    }
  }
  return out;
}

}  // namespace tandem::sim
