#pragma once
// All ranks of a hand-made layout with their memory, and values that tell where they belong.

#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "exec/cpu/backend.hpp"
#include "exec/state/gather.hpp"
#include "exec/state/initialise.hpp"
#include "tests/exec/state/hand_layout.hpp"

namespace tandem::exec::test {

/// All ranks of one stage, their memory full of NaN.
struct World {
  Program program;
  Mesh mesh;
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<RankState> ranks;

  World(const Lay& lay, Program p)
      : program(std::move(p)),
        mesh({lay.tensor, lay.context, 1, lay.data, 1}, "tp-cp-ep-dp-pp",
             {lay.expert, lay.shard, 1, {}, {}, lay.expert_tensor, lay.expert_shard}) {
    for (std::int32_t r = 0; r < lay.world(); ++r) {
      memory.push_back(make_cpu_backend()->allocate(static_cast<std::size_t>(program.memory.arena_bytes.count())));
      memory.back()->fill(0, memory.back()->size(), std::byte{0xFF});  // a NaN
      ranks.push_back(rank_state(program, mesh, Rank(r), memory.back().get()));
    }
  }
  World(const World&) = delete;

  double* buffer(std::size_t rank, std::string_view name) {
    return reinterpret_cast<double*>(memory[rank]->address() + state_offset(program, name));
  }
  std::vector<double> values(std::size_t rank, std::string_view name, std::size_t first, std::size_t count) {
    const double* at = buffer(rank, name) + first;
    return {at, at + count};
  }
  std::vector<GatheredTensor> gather(std::string_view name) const { return exec::gather(ranks, name, DType::fp64); }
};

inline Plan plan() {
  Plan p;
  p.model.num_layers = 8;
  p.model.init_std = 0.5;
  p.training.seed = 99;
  p.training.dtypes = {DType::fp64, DType::fp64, DType::fp64, DType::fp64, DType::fp64, DType::fp64};
  return p;
}

/// Tensor k counts from 1000 k: no two elements are alike.
inline void number(World& w) {
  std::map<std::string, double> begin;
  initialise(w.ranks, plan(), [&](const std::string& name, std::vector<double>& full) {
    const double first = begin.try_emplace(name, 1000.0 * static_cast<double>(begin.size())).first->second;
    std::iota(full.begin(), full.end(), first);
  });
}

/// Whether every gathered tensor counts as number() had it; global indices are in order of first appearance, as here.
inline bool numbered(const std::vector<GatheredTensor>& tensors) {
  for (std::size_t t = 0; t < tensors.size(); ++t)
    for (std::size_t i = 0; i < tensors[t].values.size(); ++i)
      if (tensors[t].values[i] != 1000.0 * static_cast<double>(t) + static_cast<double>(i)) return false;
  return !tensors.empty();
}

}  // namespace tandem::exec::test
