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

/// Which ranks a collective joins. Members are always listed in ascending group index, which is the order of every
/// canonical left fold.
enum class Group : std::uint8_t {
  tensor,     ///< same everything but tp
  data,       ///< same tp, pp; all cp x dp: whose gradients of replicated weights are summed
  pipeline,   ///< same tp, cp, dp; all pp
  model,      ///< same cp, dp; all tp x pp
  embedding,  ///< the stages of one pipeline that use the word matrix: first and last; t5's decoder has one more
  world,
  context,    ///< all cp: one sequence
  expert,     ///< so many neighbours of `data` that together hold every expert
  expert_data,///< the ranks of `data` that hold the same experts
  shard,      ///< so many neighbours of `data` that together hold one copy of what ZeRO shards
  replica,    ///< the ranks of `data` that hold the same shard
  kv,         ///< tensor ranks that hold the same key and value heads
};
std::string_view name(Group g);
/// Whether members lie on several pipeline stages.
constexpr bool crosses_stages(Group g) {
  return g == Group::pipeline || g == Group::model || g == Group::embedding || g == Group::world;
}

/// Sizes of the groups that part a larger one: so many neighbours of `data` (context fastest) or `tensor` each.
struct Divisions {
  std::int64_t expert = 1, shard = 1, kv = 1;
  std::vector<std::int32_t> word_stages;  ///< members of `embedding`, ascending; empty: the first and the last stage
};

/// Immutable map between ranks and coordinates. `sizes` by Axis; `order` lists axes fastest first ("tp-cp-ep-dp-pp"). The
/// expert axis has size one: expert groups part the data group.
class Mesh {
 public:
  Mesh(std::array<std::int64_t, kAxes> sizes, std::string_view order, Divisions divisions = {});

  std::int64_t world_size() const { return world_; }
  std::int64_t size(Axis a) const { return sizes_[static_cast<std::size_t>(a)]; }
  Coords coords(Rank r) const;
  Rank rank(const Coords& c) const;

  /// Members of `g` that contain `r`, ascending group index. A group of one is a list of one. The embedding group of a
  /// rank on another stage is that rank alone.
  std::vector<Rank> members(Group g, Rank r) const;
  /// Position of `r` among the members of `g`.
  std::int64_t position(Group g, Rank r) const;
  /// Number of members of `g` (of the embedding group: on its stages).
  std::int64_t group_size(Group g) const;
  /// The neighbour `offset` stages away on the pipeline axis, cyclically.
  Rank stage_neighbour(Rank r, int offset) const;

 private:
  std::array<std::int64_t, kAxes> sizes_{};
  std::array<std::int64_t, kAxes> strides_{};
  Divisions divisions_;
  std::int64_t world_ = 1;
};

struct Plan;
/// Stage whose chunk holds the first decoder layer, and with it what stands between encoder and decoder; -1: no decoder.
std::int32_t bridge_stage(const Plan& plan);
/// Stages that use the word matrix, ascending: as the input of a stack or, where it is tied, as the output matrix.
std::vector<std::int32_t> word_stages(const Plan& plan);
/// Ranks of the data group that together hold one copy of what ZeRO shards; 1 without ZeRO.
std::int64_t shard_group_size(const Plan& plan);
Mesh make_mesh(const Plan& plan);

}  // namespace tandem
