#pragma once
// Which rank of a sharding group owns which elements of a unit, for gathers of updated weights.

#include <cstdint>
#include <map>
#include <vector>

#include "exec/communicator/collective_share.hpp"
#include "models/graph/task_graph.hpp"

namespace tandem::exec {

/// Whether a task gathers what each rank owns, not equal shares: an all_gather whose input is the whole vector.
inline bool gathers_owned(const Task& task) {
  const auto* op = std::get_if<Collective>(&task.op);
  return op != nullptr && op->kind == CollectiveKind::all_gather && op->row == 0 &&
         task.inputs.front().elements == op->elements && task.inputs.front().shards == 1;
}

/// By unit, from its first element on; neighbours of one owner are joined. Empty: ranks own no whole parameters.
std::map<std::int32_t, std::vector<OwnedRange>> owned_ranges(const Program& program);

}  // namespace tandem::exec
