#include "experiments/tandem/training/host_memory.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "exec/process/free_memory.hpp"
#include "experiments/tandem/training/processes.hpp"
#include "models/plan/mesh.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

/// A single process has all ranks.
std::vector<Rank> ranks_here(const Mesh& mesh, const exec::World& world) {
  if (world.several()) return world.here();
  std::vector<Rank> all;
  for (std::int32_t r = 0; r < mesh.world_size(); ++r) all.emplace_back(r);
  return all;
}

MemoryNeed own_need(const Plan& plan, const TaskGraph& graph, exec::World& world) {
  const Mesh mesh = make_mesh(plan);
  const std::vector<Rank> here = ranks_here(mesh, world);
  MemoryNeed own{world.neighbours()[static_cast<std::size_t>(world.control().process())], static_cast<std::int64_t>(here.size()), 0,
                 exec::free_memory()};
  for (const Rank rank : here) own.bytes += graph.program(StageId(mesh.coords(rank)[Axis::pp])).memory.arena_bytes.count();
  return own;
}

/// At process 0: the needs of all processes.
std::vector<MemoryNeed> all_needs(const MemoryNeed& own, exec::World& world) {
  std::vector<MemoryNeed> all;
  const auto mine = exec::Packer().add(own.ranks).add(own.bytes).add(own.left.value_or(-1)).take();
  for (const exec::Bytestring& one : world.control().gather(mine)) {
    exec::Unpacker from(one);
    MemoryNeed need{world.neighbours()[all.size()], from.get<std::int64_t>(), from.get<std::int64_t>(), std::nullopt};
    if (const auto left = from.get<std::int64_t>(); left >= 0) need.left = left;
    all.push_back(std::move(need));
  }
  return all;
}

Problem shortage(const std::string& plan, std::int64_t processes, const MemoryNeed& of) {
  std::string who = count_text(of.ranks) + (of.ranks == 1 ? " rank" : " ranks");
  if (processes > 1) who += " of " + count_text(processes) + " processes";
  const bool needs = of.ranks == 1 && processes == 1;
  return Problem{plan, "", "", who + (needs ? " needs " : " need ") + bytes_text(of.bytes) + " of memory, and " +
                                   (processes > 1 ? "their host " + of.process.host : "this host") + " has " + bytes_text(*of.left) + " free",
                 "use fewer data ranks, a smaller model or shorter sequences, or more hosts (--launch)"};
}

}  // namespace

std::optional<Problem> memory_shortage(const std::string& plan, const std::vector<MemoryNeed>& all) {
  for (const MemoryNeed& one : all)
    if (one.left && one.bytes > *one.left) return shortage(plan, 1, one);
  std::map<std::string, std::pair<std::int64_t, MemoryNeed>> hosts;
  for (const MemoryNeed& one : all) {
    auto& [processes, sum] = hosts.try_emplace(one.process.machine, 0, MemoryNeed{one.process, 0, 0, std::nullopt}).first->second;
    ++processes;
    sum.ranks += one.ranks, sum.bytes += one.bytes;
    sum.left = std::max(sum.left, one.left);
  }
  for (const auto& [machine, host] : hosts)
    if (const auto& [processes, sum] = host; sum.left && sum.bytes > *sum.left) return shortage(plan, processes, sum);
  return std::nullopt;
}

void require_host_memory(const Plan& plan, const TaskGraph& graph, exec::World& world) {
  prepare_together(world, [&] {
    const std::vector<MemoryNeed> all = all_needs(own_need(plan, graph, world), world);
    if (const auto problem = memory_shortage(plan.file, all)) throw InfeasibleError(*problem);
  });
}

}  // namespace tandem::program
