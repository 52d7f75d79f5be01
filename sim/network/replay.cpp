#include "sim/network/replay.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace tandem::sim {
namespace {

bool follows_routing(const Template& t) {
  return std::any_of(t.tasks.begin(), t.tasks.end(), [](const Task& task) { return tandem::follows_routing(task.op); });
}

}  // namespace

Op ExchangedRows::even(const Op& op) const {
  Collective c = std::get<Collective>(op);
  std::int64_t most = 0;
  for (std::int64_t m = 0; m < members; ++m) {
    std::int64_t sent = 0, received = 0;
    for (std::int64_t other = 0; other < members; ++other) {
      sent += of[static_cast<std::size_t>(m * members + other)];
      received += of[static_cast<std::size_t>(other * members + m)];
    }
    most = std::max({most, sent, received});
  }
  c.elements = most * c.row;
  return c;
}

Replay::Replay(const TaskGraph& graph, const Routing& routing) : routing_(routing), graph_(graph) {
  of_template_.resize(graph.templates.size());
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, TemplateId> copies;
  for (Program& p : graph_.programs)
    for (Instance& i : p.instances) {
      if (!sim::follows_routing(graph.templates[i.tmpl.index()])) continue;
      const TemplateId next(static_cast<std::int32_t>(graph_.templates.size()));
      const auto [at, fresh] = copies.try_emplace({i.tmpl.value(), i.layer, i.micro_batch}, next);
      if (fresh) {
        graph_.templates.push_back(graph.templates[i.tmpl.index()]);
        of_template_.push_back(i);
      }
      i.tmpl = at->second;
    }
}

Op Replay::timed(Rank rank, std::size_t t, const Op& op) const {
  if (of_template_[t].layer < 0 || !tandem::follows_routing(op)) return op;
  Op sized = routing_.sized(op, rank, of_template_[t]);
  const auto at_least_one = [](auto& o) {
    if constexpr (requires { o.ragged; }) o.m = std::max<std::int64_t>(o.m, 1);
  };
  std::visit(at_least_one, sized);
  return sized;
}

ExchangedRows Replay::exchanged(std::size_t t, const Op& op, std::span<const Rank> members) const {
  const auto& c = std::get<Collective>(op);
  ExchangedRows out{static_cast<std::int64_t>(members.size()), bytes_of(c.dtype, c.row).count(), {}};
  for (const Rank from : members)
    for (const Rank to : members) out.of.push_back(routing_.exchanged(c, from, to, of_template_[t]));
  return out;
}

std::vector<std::uint64_t> Replay::marks() const {
  std::map<std::vector<std::int64_t>, std::uint64_t> classes;
  std::vector<std::uint64_t> marks;
  for (std::int32_t r = 0; r < routing_.mesh().world_size(); ++r)
    marks.push_back(classes.try_emplace(routing_.work_of(Rank(r)), classes.size()).first->second);
  return marks;
}

}  // namespace tandem::sim
