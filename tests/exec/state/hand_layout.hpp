#pragma once
// Programs of hand-made parameters, and the layouts that their state is cut into.

#include <map>
#include <string>
#include <string_view>

#include "models/graph/task_graph.hpp"

namespace tandem::exec::test {

inline Param cut(const char* name, std::int64_t rows, std::int64_t cols, int dim, std::int64_t tensor) {
  Param p;
  p.name = name;
  p.rows = dim == 0 ? rows / tensor : rows;
  p.cols = dim == 1 ? cols / tensor : cols;
  p.full_rows = rows, p.full_cols = cols;
  p.shard_dim = dim;
  p.outer = dim == 1 ? p.cols : p.rows;
  return p;
}

/// How the state of a stage lies on its ranks.
struct Lay {
  std::int64_t tensor = 1, data = 1, context = 1, expert = 1, shard = 1;
  bool gradients_sharded = false, weights_sharded = false;
  std::int64_t expert_tensor = 0, expert_shard = 1;
  std::int64_t world() const { return tensor * data * context; }
};

/// A program of these parameters in one unit for those of every rank and one for the experts.
class ProgramMaker {
 public:
  explicit ProgramMaker(const Lay& lay) : lay_(lay) { program_.stage = StageId(0); }

  ProgramMaker& add(Param p) {
    p.global_index = p.init_id = static_cast<std::int32_t>(names_.try_emplace(p.name, names_.size()).first->second);
    p.offset = end_;
    end_ += p.elements();
    program_.params.push_back(p);
    return *this;
  }
  /// Ends a unit: its parts are equal, with at least `spare` elements behind the last parameter.
  ProgramMaker& unit(Replication replication, std::int64_t shards, std::int64_t spare = 0) {
    ShardUnit u{program_.flat_elements, end_ + spare - program_.flat_elements, shards, program_.shard_elements, replication};
    u.elements = (u.elements + shards - 1) / shards * shards;
    program_.units.push_back(u);
    program_.flat_elements = end_ = u.offset + u.elements;
    program_.shard_elements += u.shard_elements();
    return *this;
  }
  Program done() {
    program_.gradients_sharded = lay_.gradients_sharded, program_.weights_sharded = lay_.weights_sharded;
    add_buffer("weights", MemoryKind::weights, lay_.weights_sharded);
    add_buffer("gradients", MemoryKind::gradients, lay_.gradients_sharded);
    add_buffer("master", MemoryKind::optimizer, true);
    add_buffer("exp_avg", MemoryKind::optimizer, true);
    return program_;
  }

 private:
  void add_buffer(std::string_view name, MemoryKind kind, bool sharded) {
    const Bytes bytes((sharded ? program_.shard_elements : program_.flat_elements) * 8);
    const auto at = program_.memory.arena_bytes.count();
    program_.memory.allocations.push_back({name, kind, at, bytes, 0, 0});
    program_.memory.arena_bytes = Bytes(at + bytes.count());
  }

  Lay lay_;
  Program program_;
  std::map<std::string, std::size_t> names_;
  std::int64_t end_ = 0;
};

inline Lay zero(int stage, std::int64_t data, std::int64_t shard) {
  Lay lay;
  lay.data = data, lay.shard = shard;
  lay.gradients_sharded = stage >= 2, lay.weights_sharded = stage >= 3;
  return lay;
}

// A matrix cut by rows, one by columns, a vector cut in pieces, a whole one: 6 x 4 at most.
inline Program mixed(const Lay& lay) {
  ProgramMaker maker(lay);
  auto rows = cut("by_rows", 6, 4, 0, lay.tensor), columns = cut("by_columns", 2, 6, 1, lay.tensor);
  auto vector = cut("vector", 6, 1, 0, lay.tensor), whole = cut("whole", 5, 1, -1, lay.tensor);
  columns.init = Param::Init::normal_scaled, vector.init = Param::Init::zeros, whole.init = Param::Init::ones;
  return maker.add(rows).add(columns).add(vector).add(whole).unit(Replication::data, lay.shard, 1).done();
}

}  // namespace tandem::exec::test
