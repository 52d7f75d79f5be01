#pragma once
// The mesh of named axes: rank <-> coordinates, and the groups that collectives run over.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/ids.hpp"

namespace tandem {

enum class Axis : std::uint8_t { tp, cp, ep, dp, pp };
inline constexpr int kAxes = 5;

/// Position of a rank on every axis, indexed by Axis.
struct Coords {
  std::array<std::int32_t, kAxes> at{};
  std::int32_t operator[](Axis a) const { return at[static_cast<std::size_t>(a)]; }
  std::int32_t& operator[](Axis a) { return at[static_cast<std::size_t>(a)]; }
  auto operator<=>(const Coords&) const = default;
};

/// The ranks that take part in a collective. Members are always listed
/// in ascending group index; canonical left folds use this order.
enum class Group : std::uint8_t {
  tensor,     ///< same everything but tp
  data,       ///< same tp, pp; all cp x dp: the ranks that sum gradients of replicated weights
  pipeline,   ///< same tp, cp, dp; all pp
  model,      ///< same cp, dp; all tp x pp
  embedding,  ///< the stages of a pipeline that use the word matrix: first and last; in T5 also the decoder's first
  world,
  context,    ///< all cp: one sequence
  expert,     ///< ranks of a stage that together hold all experts, each the same part of its experts' matrices
  expert_data,///< ranks of a stage that hold the same part of the same experts
  shard,      ///< neighbours in `data` that together hold one copy of what ZeRO shards
  replica,    ///< ranks of `data` that hold the same shard
  kv,         ///< tensor ranks that hold the same key and value heads
  position,   ///< the stages of a pipeline that use T5's table of learned positions
  expert_tensor, ///< neighbours in a stage that share the matrices of the same experts
  expert_shard,  ///< neighbours in `expert_data` that together hold one copy of their experts' sharded data
  expert_replica,///< ranks of `expert_data` that hold the same shard
  window_kv,  ///< tensor ranks that hold the same key and value heads in layers with a window
  context_heads, ///< neighbours in `context` that divide the heads among themselves
  context_keys,  ///< ranks of `context` with the same heads, which need each other's keys
};
inline constexpr std::size_t kGroups = static_cast<std::size_t>(Group::context_keys) + 1;
std::string_view name(Group g);
/// Whether the group's members are on several pipeline stages.
constexpr bool crosses_stages(Group g) {
  return g == Group::pipeline || g == Group::model || g == Group::embedding || g == Group::position || g == Group::world;
}

/// Sizes of groups that divide a larger group: numbers of neighbours in `data` (context fastest), `tensor` or `context`. Experts
/// divide the ranks of a stage (tensor fastest, then context, then data). `expert_tensor` neighbours share matrices, and
/// `expert` such sets hold every expert (Megatron-LM: megatron/core/parallel_state.py, the expert's RankGenerator). Of
/// the ranks with the same experts, `expert_shard` share ZeRO's shards (there: intra_partial_expert_data_parallel_group).
struct Divisions {
  std::int64_t expert = 1, shard = 1, kv = 1;
  std::vector<std::int32_t> word_stages{};  ///< members of `embedding`, ascending; empty: the first and the last stage
  std::vector<std::int32_t> position_stages{};  ///< members of `position`, ascending; empty: the first stage
  std::int64_t expert_tensor = 0;         ///< 0: tensor-parallel degree
  std::int64_t expert_shard = 1;
  std::int64_t window_kv = 1;
  std::int64_t context_heads = 1;
};

/// Immutable map between ranks and coordinates. `sizes` is by Axis; `order` lists axes fastest first
/// ("tp-cp-ep-dp-pp"). The expert axis has size one: expert groups divide the ranks of a stage.
class Mesh {
 public:
  Mesh(std::array<std::int64_t, kAxes> sizes, std::string_view order, Divisions divisions = {});

  std::int64_t world_size() const { return world_; }
  std::int64_t size(Axis a) const { return sizes_[static_cast<std::size_t>(a)]; }
  Coords coords(Rank r) const;
  Rank rank(const Coords& c) const;

  /// Members of the group `g` that contains `r`, in ascending group index. For a rank on
  /// a stage outside of its embedding or position group, the result is that rank alone.
  std::vector<Rank> members(Group g, Rank r) const;
  /// Position of `r` among the members of `g`.
  std::int64_t position(Group g, Rank r) const;
  /// Number of members of `g` (embedding and position group: on their stages).
  std::int64_t group_size(Group g) const;
  /// The neighbour `offset` stages away on the pipeline axis, cyclically.
  Rank stage_neighbour(Rank r, int offset) const;

 private:
  /// Stages that are members of `g`; nullptr: all.
  const std::vector<std::int32_t>* stages_of(Group g) const;

  std::array<std::int64_t, kAxes> sizes_{};
  std::array<std::int64_t, kAxes> strides_{};
  Divisions divisions_;
  std::int64_t world_ = 1;
};

struct Plan;
/// Stage whose chunk holds the first decoder layer and the bridge before it; -1: no decoder.
std::int32_t bridge_stage(const Plan& plan);
/// Stages that use the word matrix, ascending: as input of a stack or of MTP modules or, if tied, as output matrix.
std::vector<std::int32_t> word_stages(const Plan& plan);
/// Stages with a word lookup that adds learned positions, ascending: the first stage of encoder and decoder.
std::vector<std::int32_t> position_stages(const Plan& plan);
/// Number of ranks in the data group that together hold one copy of ZeRO's sharded data; 1 without ZeRO.
std::int64_t shard_group_size(const Plan& plan);
/// Number of ranks of a stage that hold the same part of the same experts.
std::int64_t expert_copies(const Plan& plan);
/// Number of these ranks that together hold one copy of their sharded data; 1 without ZeRO.
std::int64_t expert_shard_group_size(const Plan& plan);
Mesh make_mesh(const Plan& plan);

}  // namespace tandem
