#include "sim/result/critical_roles.hpp"

#include <algorithm>
#include <optional>

#include "models/base/threads.hpp"

namespace tandem::sim {
namespace {

/// Sums of patterns' computations, each worked out once.
class PatternSums {
 public:
  explicit PatternSums(const SimulatedStep& simulated) : simulated_(simulated), known_(simulated.patterns.size()) {}

  std::int64_t of(PatternId id, const Template& tmpl) {
    std::optional<std::int64_t>& sum = known_[id];
    if (sum) return *sum;
    sum = 0;
    const TimedTemplate& timed = simulated_.patterns.of(simulated_.patterns[id].timed);
    for (std::size_t t = 0; t < tmpl.tasks.size(); ++t)
      if (tmpl.tasks[t].stream == Stream::compute) *sum += timed.tasks[t].duration;
    return *sum;
  }

 private:
  const SimulatedStep& simulated_;
  std::vector<std::optional<std::int64_t>> known_;
};

std::int64_t computing_time(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role, PatternSums& patterns) {
  const Program& program = graph.program(simulated.roles[role].stage);
  const Reader reader(simulated, role);
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
    const Template& tmpl = graph.of(program.instances[i]);
    const InstanceRecord& p = simulated.records[role].at(simulated.times, i);
    if (p.has_pattern()) {
      sum += patterns.of(p.pattern, tmpl);
      continue;
    }
    for (std::uint16_t t = 0; t < tmpl.tasks.size(); ++t)
      if (tmpl.tasks[t].stream == Stream::compute) sum += reader.lasted(i, t);
  }
  return sum;
}

bool lacked_buffer(const SimulatedStep& simulated, const TaskGraph& graph, std::size_t role) {
  const Reader reader(simulated, role);
  const auto& edges = graph.program(simulated.roles[role].stage).edges;
  return std::any_of(edges.begin(), edges.end(), [&](const Edge& e) {
    if (e.kind != EdgeKind::credit) return false;
    const TaskSpan h = reader.at(e.to_instance, e.to_task);
    return h.first && *h.first < h.ready && reader.ended(e.from_instance, e.from_task) == h.ready;
  });
}

}  // namespace

std::vector<std::int64_t> computing_time(const SimulatedStep& simulated, const TaskGraph& graph) {
  constexpr std::size_t kWorthAThread = 256;
  std::vector<std::int64_t> out(simulated.roles.size());
  const std::size_t parts = std::clamp<std::size_t>(out.size() / kWorthAThread, 1, static_cast<std::size_t>(all_cores()));
  for_each_index(parts, {.most = static_cast<int>(parts)}, [&](std::size_t part) {
    PatternSums patterns(simulated);
    for (std::size_t role = out.size() * part / parts; role < out.size() * (part + 1) / parts; ++role)
      out[role] = computing_time(simulated, graph, role, patterns);
  });
  return out;
}

std::vector<std::size_t> roles_without_buffer(const SimulatedStep& simulated, const TaskGraph& graph) {
  std::vector<std::size_t> out;
  for (std::size_t role = 0; role < simulated.roles.size(); ++role)
    if (lacked_buffer(simulated, graph, role)) out.push_back(role);
  return out;
}

}  // namespace tandem::sim
