#include "sim/result/role_causes.hpp"

#include <algorithm>
#include <utility>

namespace tandem::sim {

RoleCauses::RoleCauses(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role, BreakdownTables& tables)
    : simulated_(simulated),
      graph_(graph),
      program_(graph.program(simulated.roles[role].stage)),
      lane_program_(simulated.lane_program(role)),
      reader_(simulated, role),
      tables_(tables),
      first_edges_(tables.first_edges(program_)),
      waits_(host_waits()) {}

std::optional<Place> RoleCauses::of(Place w, std::int64_t hi) const {
  for (const std::uint16_t d : task(w).deps)
    if (reader_.ended(w.instance, d) == hi) return Place{w.instance, d};
  for (const Edge& e : edges_to(w))
    if (reader_.ended(e.from_instance, e.from_task) == hi) return Place{e.from_instance, e.from_task};
  if (const auto before = previous(w); before && ended(*before) == hi) return before;
  return {};
}

std::optional<Place> RoleCauses::host_waited_for(Place w, std::int64_t issued) const {
  if (waits_.empty()) return {};
  const auto after = std::lower_bound(waits_.begin(), waits_.end(), w.instance,
                                      [](const Waited& a, std::uint32_t instance) { return a.instance < instance; });
  Wait last = after != waits_.begin() ? (after - 1)->longest : Wait{};
  for (const Edge& e : edges_into(w.instance))
    if (e.to_task <= w.task && tables_.host_waits(program_, e)) last = later(last, wait_of(e));
  return last.ended >= 0 && last.ended < issued ? std::optional(last.on) : std::nullopt;
}

bool RoleCauses::credited(Place w, std::int64_t at) const {
  const auto edges = edges_to(w);
  return std::any_of(edges.begin(), edges.end(), [&](const Edge& e) {
    return e.kind == EdgeKind::credit && reader_.ended(e.from_instance, e.from_task) == at;
  });
}

/// On a lane no task ends before the one in front of it.
Place RoleCauses::last() const {
  std::optional<Place> found;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    std::optional<Place> w = before(static_cast<std::uint32_t>(program_.instances.size()), lane);
    if (!w) continue;
    const std::int64_t end = ended(*w);
    for (auto earlier = previous(*w); earlier && ended(*earlier) == end; earlier = previous(*w)) w = earlier;
    const auto position = [](Place x) { return std::pair(x.instance, x.task); };
    if (!found || end > ended(*found) || (end == ended(*found) && position(*w) < position(*found))) found = w;
  }
  return *found;
}

/// The task that the host waited for longest until it had issued all of an instance, for every instance at which it changes.
std::vector<RoleCauses::Waited> RoleCauses::host_waits() const {
  if (simulated_.host.synchronous || !lane_program_.host_waits) return {};
  const std::vector<Edge>& edges = tables_.host_waits(program_);  // ascending instance
  std::vector<Wait> waits;
  waits.reserve(edges.size());
  for (const Edge& e : edges) waits.push_back(wait_of(e));  // all at once, because most are cache misses
  std::vector<Waited> out;
  Wait longest;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (waits[i].ended <= longest.ended) continue;
    longest = waits[i];
    if (!out.empty() && out.back().instance == edges[i].to_instance) out.back().longest = longest;
    else out.push_back({edges[i].to_instance, longest});
  }
  return out;
}

std::span<const Edge> RoleCauses::edges_into(std::uint32_t instance) const {
  const Edge* const edges = program_.edges.data();
  return {edges + first_edges_[instance], edges + first_edges_[instance + 1]};
}

std::span<const Edge> RoleCauses::edges_to(Place w) const {
  const Edge* const end = program_.edges.data() + first_edges_[w.instance + 1];
  const Edge* first = program_.edges.data() + first_edges_[w.instance];
  while (first != end && first->to_task < w.task) ++first;
  const Edge* last = first;
  while (last != end && last->to_task == w.task) ++last;
  return {first, last};
}

/// The task before `w` on its lane.
std::optional<Place> RoleCauses::previous(Place w) const {
  const std::size_t own = lane(w);
  for (std::uint16_t t = w.task; t-- > 0;)
    if (lane({w.instance, t}) == own) return Place{w.instance, t};
  return before(w.instance, own);
}

/// The last task of a lane before an instance.
std::optional<Place> RoleCauses::before(std::uint32_t instance, std::size_t lane) const {
  if (instance == 0) return {};
  const auto last_of = [&](std::uint32_t i) { return tables_.last_task(program_.instances[i].tmpl, lane); };
  if (const std::int32_t t = last_of(instance - 1); t >= 0) return Place{instance - 1, static_cast<std::uint16_t>(t)};
  const std::vector<std::uint32_t>& on = lane_program_.lanes[lane].instances;
  for (auto i = std::lower_bound(on.begin(), on.end(), instance); i != on.begin();)
    if (const std::int32_t t = last_of(*--i); t >= 0) return Place{*i, static_cast<std::uint16_t>(t)};
  return {};
}

}  // namespace tandem::sim
