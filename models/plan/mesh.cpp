#include "models/plan/mesh.hpp"

#include <algorithm>

#include "models/base/error.hpp"
#include "models/plan/plan.hpp"

namespace tandem {
namespace {

constexpr std::array<std::string_view, kAxes> kAxisNames{"tp", "cp", "ep", "dp", "pp"};

Axis axis_from_name(std::string_view s) {
  for (int a = 0; a < kAxes; ++a)
    if (kAxisNames[static_cast<std::size_t>(a)] == s) return static_cast<Axis>(a);
  throw ContractError("rank order names an unknown axis");
}

std::vector<Axis> parse_order(std::string_view order) {
  std::vector<Axis> axes;
  while (!order.empty()) {
    const auto dash = order.find('-');
    axes.push_back(axis_from_name(order.substr(0, dash)));
    order.remove_prefix(dash == std::string_view::npos ? order.size() : dash + 1);
  }
  require(axes.size() == kAxes, "rank order must name every axis once");
  return axes;
}

/// The axes that `g`, or the group that it divides, spans. The last axis varies slowest.
std::vector<Axis> spanned(Group g) {
  switch (g) {
    case Group::tensor: case Group::kv: case Group::window_kv: return {Axis::tp};
    case Group::context: case Group::context_heads: case Group::context_keys: return {Axis::cp};
    case Group::data: case Group::shard: case Group::replica: return {Axis::cp, Axis::ep, Axis::dp};
    case Group::expert: case Group::expert_data: case Group::expert_tensor: case Group::expert_shard: case Group::expert_replica:
      return {Axis::tp, Axis::cp, Axis::ep, Axis::dp};
    case Group::pipeline: case Group::embedding: case Group::position: return {Axis::pp};
    case Group::model: return {Axis::tp, Axis::pp};
    case Group::world: return {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};
  }
  return {};
}

/// How a group divides the ranks it spans: `neighbours` in a row, or (across) the ranks
/// with the same index in each row. With a stride, that many rows lie side by side.
struct GroupDivision {
  std::int64_t neighbours = 0;  ///< 0: not divided
  bool across = false;
  std::int64_t stride = 1;

  /// Loop bounds over the ranks in one group with the rank at position `here`: first position, step, end.
  std::int64_t first(std::int64_t here) const {
    if (neighbours == 0) return 0;
    return across ? here % neighbours : here / (neighbours * stride) * neighbours * stride + here % stride;
  }
  std::int64_t step() const { return neighbours == 0 ? 1 : across ? neighbours : stride; }
  std::int64_t end(std::int64_t here, std::int64_t all) const {
    return neighbours == 0 || across ? all : std::min(all, (here / (neighbours * stride) + 1) * neighbours * stride);
  }
};

/// An axis that a group spans.
struct Digit {
  std::int64_t size, stride;
};

GroupDivision group_division(Group g, const Divisions& d) {
  switch (g) {
    case Group::expert: return {d.expert, false, d.expert_tensor};
    case Group::expert_data: return {d.expert * d.expert_tensor, true};
    case Group::expert_tensor: return {d.expert_tensor, false};
    case Group::expert_shard: return {d.expert_shard, false, d.expert * d.expert_tensor};
    case Group::expert_replica: return {d.expert_shard * d.expert * d.expert_tensor, true};
    case Group::shard: return {d.shard, false};
    case Group::replica: return {d.shard, true};
    case Group::kv: return {d.kv, false};
    case Group::window_kv: return {d.window_kv, false};
    case Group::context_heads: return {d.context_heads, false};
    case Group::context_keys: return {d.context_heads, true};
    default: return {};
  }
}

}  // namespace

std::string_view name(Group g) {
  constexpr std::string_view names[] = {"tensor",  "data",   "pipeline",    "model", "embedding", "world", "context",
                                        "expert", "expert_data", "shard", "replica", "kv",   "position", "expert_tensor",
                                        "expert_shard", "expert_replica", "window_kv", "context_heads", "context_keys"};
  static_assert(std::size(names) == kGroups);
  return names[static_cast<std::size_t>(g)];
}

Mesh::Mesh(std::array<std::int64_t, kAxes> sizes, std::string_view order, Divisions divisions)
    : sizes_(sizes), divisions_(std::move(divisions)) {
  require(size(Axis::ep) == 1, "expert groups part the ranks of a stage; the expert axis itself has size one");
  if (divisions_.expert_tensor == 0) divisions_.expert_tensor = size(Axis::tp);
  if (divisions_.position_stages.empty()) divisions_.position_stages = {0};
  if (divisions_.word_stages.empty()) divisions_.word_stages = {0, static_cast<std::int32_t>(size(Axis::pp) - 1)};
  for (const Axis a : parse_order(order)) {
    strides_[static_cast<std::size_t>(a)] = world_;
    world_ *= size(a);
  }
}

Coords Mesh::coords(Rank r) const {
  Coords c;
  for (std::size_t a = 0; a < kAxes; ++a) c.at[a] = static_cast<std::int32_t>(r.value() / strides_[a] % sizes_[a]);
  return c;
}

Rank Mesh::rank(const Coords& c) const {
  std::int64_t r = 0;
  for (std::size_t a = 0; a < kAxes; ++a) r += c.at[a] * strides_[a];
  return Rank(static_cast<std::int32_t>(r));
}

const std::vector<std::int32_t>* Mesh::stages_of(Group g) const {
  if (g == Group::embedding) return &divisions_.word_stages;
  return g == Group::position ? &divisions_.position_stages : nullptr;
}

std::vector<Rank> Mesh::members(Group g, Rank r) const {
  const Coords mine = coords(r);
  const std::vector<std::int32_t>* stages = stages_of(g);
  const auto member = [&](std::int32_t stage) {
    return !stages || std::find(stages->begin(), stages->end(), stage) != stages->end();
  };
  if (!member(mine[Axis::pp])) return {r};

  // A rank's position counts the group's axes, the first one fastest.
  std::vector<Digit> digits;
  std::int64_t here = 0, all = 1, origin = r.value();
  for (const Axis a : spanned(g)) {
    digits.push_back({size(a), strides_[static_cast<std::size_t>(a)]});
    origin -= mine[a] * digits.back().stride;
    here += mine[a] * all;
    all *= size(a);
  }
  const auto rank_at = [&](std::int64_t place) {
    std::int64_t value = origin;
    for (const Digit& d : digits) value += place % d.size * d.stride, place /= d.size;
    return Rank(static_cast<std::int32_t>(value));
  };
  std::vector<Rank> out;
  const GroupDivision part = group_division(g, divisions_);
  for (std::int64_t place = part.first(here), end = part.end(here, all); place < end; place += part.step())
    if (member(static_cast<std::int32_t>(place))) out.push_back(rank_at(place));
  return out;
}

std::int64_t Mesh::position(Group g, Rank r) const {
  const auto all = members(g, r);
  return std::find(all.begin(), all.end(), r) - all.begin();
}

std::int64_t Mesh::group_size(Group g) const { return static_cast<std::int64_t>(members(g, Rank(0)).size()); }

Rank Mesh::stage_neighbour(Rank r, int offset) const {
  Coords c = coords(r);
  const auto stages = static_cast<std::int32_t>(size(Axis::pp));
  c[Axis::pp] = ((c[Axis::pp] + offset) % stages + stages) % stages;
  return rank(c);
}

std::int64_t shard_group_size(const Plan& plan) {
  const ParallelSpec& q = plan.parallel;
  if (q.zero_stage == 0) return 1;
  return (q.zero_group > 0 ? q.zero_group : q.data) * q.context;
}

std::int64_t expert_copies(const Plan& plan) {
  const ParallelSpec& q = plan.parallel;
  return q.tensor * q.context * q.data / (q.expert * q.expert_tensor);
}

std::int64_t expert_shard_group_size(const Plan& plan) {
  if (plan.parallel.zero_stage == 0) return 1;
  return shard_group_size(plan) * expert_copies(plan) / (plan.parallel.data * plan.parallel.context);
}

std::int32_t bridge_stage(const Plan& plan) {
  const auto layers = plan.layers_per_stage();
  std::int64_t end = 0;
  for (std::size_t k = 0; k < layers.size() && plan.model.num_decoder_layers > 0; ++k) {
    end += layers[k];
    if (end > plan.model.num_layers)
      return static_cast<std::int32_t>(stage_of_part(plan.parallel.schedule, plan.parallel.pipeline, static_cast<std::int64_t>(k)));
  }
  return -1;
}

std::vector<std::int32_t> word_stages(const Plan& plan) {
  const ParallelSpec& q = plan.parallel;
  const std::int64_t last = stage_of_part(q.schedule, q.pipeline, q.pipeline * q.virtual_pipeline - 1);  // has the head
  std::vector<std::int32_t> stages;
  for (std::int32_t s = 0; s < q.pipeline; ++s)
    if (s == 0 || s == bridge_stage(plan) || (s == last && (plan.model.tie_embeddings || plan.model.mtp.num_layers > 0)))
      stages.push_back(s);
  return stages;
}

std::vector<std::int32_t> position_stages(const Plan& plan) {
  const std::int32_t bridge = bridge_stage(plan);
  return bridge > 0 ? std::vector<std::int32_t>{0, bridge} : std::vector<std::int32_t>{0};
}

Mesh make_mesh(const Plan& plan) {
  const ParallelSpec& q = plan.parallel;
  const auto copies = [&](Mixer mixer) {
    return std::max<std::int64_t>(1, q.tensor / std::max<std::int64_t>(1, plan.model.attention_heads(mixer).keys));
  };
  return Mesh({q.tensor, q.context, 1, q.data, q.pipeline}, q.rank_order,
              {q.expert, shard_group_size(plan), copies(Mixer::full), word_stages(plan), position_stages(plan), q.expert_tensor,
               std::max<std::int64_t>(1, expert_shard_group_size(plan)), copies(Mixer::windowed), head_ranks(q)});
}

}  // namespace tandem
