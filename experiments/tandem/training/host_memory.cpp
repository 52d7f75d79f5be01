#include "experiments/tandem/training/host_memory.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "exec/process/memory_pools.hpp"
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
                 exec::memory_pools()};
  for (const Rank rank : here) own.bytes += graph.program(StageId(mesh.coords(rank)[Axis::pp])).memory.arena_bytes.count();
  return own;
}

exec::Bytestring packed(const MemoryNeed& own) {
  exec::Packer out;
  out.add(own.ranks).add(own.bytes);
  for (const exec::MemoryPool& p : own.pools) out.add(p.key).add(p.of_host).add(p.left);
  return out.take();
}

/// At process 0: the needs of all processes.
std::vector<MemoryNeed> all_needs(const MemoryNeed& own, exec::World& world) {
  std::vector<MemoryNeed> all;
  for (const exec::Bytestring& one : world.control().gather(packed(own))) {
    exec::Unpacker from(one);
    MemoryNeed need{world.neighbours()[all.size()], from.get<std::int64_t>(), from.get<std::int64_t>(), {}};
    while (!from.empty()) need.pools.push_back({from.get_text(), from.get<bool>(), from.get<std::int64_t>()});
    all.push_back(std::move(need));
  }
  return all;
}

/// What processes need of one pool together.
struct PoolNeed {
  std::string host;
  exec::MemoryPool pool;
  std::int64_t processes = 0, ranks = 0, bytes = 0;

  bool short_of_it() const { return bytes > pool.left; }
};

PoolNeed need_of(const MemoryNeed& one, const exec::MemoryPool& pool) { return {one.process.host, pool, 1, one.ranks, one.bytes}; }

/// `named`: the run has several processes, so the message names the host of those that it is about.
Problem shortage(const std::string& plan, const PoolNeed& of, bool named) {
  const bool several = of.processes > 1;
  std::string text = count_text(of.ranks) + (of.ranks == 1 ? " rank" : " ranks");
  if (several) text += " of " + count_text(of.processes) + " processes";
  text += (of.ranks == 1 && !several ? " needs " : " need ") + bytes_text(of.bytes) + " of memory, and ";
  const std::string host = named ? (of.ranks == 1 ? "its host " : "their host ") + of.host : "this host";
  text += of.pool.of_host ? host + " has " : "the memory limit of a control group on " + host + " leaves ";
  text += bytes_text(of.pool.left);
  if (of.pool.of_host) text += " free";
  return Problem{plan, "", "", text, "use fewer data ranks, a smaller model or shorter sequences, or more hosts (--launch)"};
}

}  // namespace

std::optional<Problem> memory_shortage(const std::string& plan, const std::vector<MemoryNeed>& all) {
  std::map<std::string, PoolNeed> pools;
  for (const MemoryNeed& one : all)
    for (const exec::MemoryPool& pool : one.pools) {
      if (const PoolNeed alone = need_of(one, pool); alone.short_of_it()) return shortage(plan, alone, all.size() > 1);
      PoolNeed& sum = pools.try_emplace(pool.key, PoolNeed{one.process.host, pool}).first->second;
      ++sum.processes;
      sum.ranks += one.ranks, sum.bytes += one.bytes;
      sum.pool.left = std::max(sum.pool.left, pool.left);
    }
  for (const auto& [key, sum] : pools)
    if (sum.short_of_it()) return shortage(plan, sum, true);
  return std::nullopt;
}

void require_host_memory(const Plan& plan, const TaskGraph& graph, exec::World& world) {
  prepare_together(world, [&] {
    const std::vector<MemoryNeed> all = all_needs(own_need(plan, graph, world), world);
    if (const auto problem = memory_shortage(plan.file, all)) throw InfeasibleError(*problem);
  });
}

}  // namespace tandem::program
