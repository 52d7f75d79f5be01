#include "exec/run/lines.hpp"

#include <algorithm>

#include "exec/communicator/routes.hpp"
#include "exec/communicator/slices.hpp"
#include "exec/run/owned_ranges.hpp"

namespace tandem::exec {
namespace {

/// Upper bound in bytes of the memory that a collective needs for parts of other members. Without training.deterministic a library
/// reduces equal shares by itself (exec/nccl).
std::int64_t parts_room(const Collective& op, const Task& task, std::int64_t members, bool deterministic) {
  const Operand& out = task.outputs.front();
  const std::int64_t bytes = bytes_of(out.dtype, out.elements).count();
  if (gathers_owned(task)) return bytes;
  if (!deterministic && op.row == 0) return 0;
  if (op.kind == CollectiveKind::reduce_scatter) return members * bytes;
  if (op.kind == CollectiveKind::all_reduce) return std::max(kWholeBytes, bytes + members * element_bytes(op.dtype));
  return 0;
}

void add(Lines& lines, const RunContext& run, std::int32_t stage, const Task& task) {
  if (const auto* op = std::get_if<Collective>(&task.op)) {
    auto& room = lines.groups[{op->group, static_cast<int>(task.stream)}];
    room = std::max(room, parts_room(*op, task, run.mesh.group_size(op->group), run.plan.training.deterministic));
  }
  if (const auto* op = std::get_if<Send>(&task.op)) lines.messages.insert({op->stage_offset, stage});
}

}  // namespace

Lines lines_of(const std::vector<const RunContext*>& graphs) {
  Lines lines;
  for (const RunContext* run : graphs)
    for (std::size_t s = 0; s < run->graph.programs.size(); ++s)
      for (const Instance& i : run->graph.programs[s].instances)
        for (const Task& task : run->graph.of(i).tasks) add(lines, *run, static_cast<std::int32_t>(s), task);
  return lines;
}

}  // namespace tandem::exec
