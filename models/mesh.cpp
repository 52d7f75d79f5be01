#include "models/mesh.hpp"

#include "models/base/error.hpp"
#include "models/plan.hpp"

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

/// All positions along the axes that `g` spans; the last axis listed varies slowest.
std::vector<Axis> spanned(Group g) {
  switch (g) {
    case Group::tensor: return {Axis::tp};
    case Group::data: return {Axis::cp, Axis::ep, Axis::dp};
    case Group::pipeline: case Group::embedding: return {Axis::pp};
    case Group::model: return {Axis::tp, Axis::pp};
    case Group::world: return {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};
  }
  return {};
}

}  // namespace

std::string_view name(Group g) {
  constexpr std::string_view names[] = {"tensor", "data", "pipeline", "model", "embedding", "world"};
  return names[static_cast<std::size_t>(g)];
}

Mesh::Mesh(std::array<std::int64_t, kAxes> sizes, std::string_view order) : sizes_(sizes) {
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

std::vector<Rank> Mesh::members(Group g, Rank r) const {
  const Coords mine = coords(r);
  const auto last = static_cast<std::int32_t>(size(Axis::pp) - 1);
  if (g == Group::embedding && mine[Axis::pp] != 0 && mine[Axis::pp] != last) return {r};

  std::vector<Coords> found{mine};
  for (const Axis a : spanned(g)) {
    std::vector<Coords> next;
    for (std::int32_t i = 0; i < size(a); ++i)
      for (Coords c : found) {
        c[a] = i;
        if (g != Group::embedding || i == 0 || i == last) next.push_back(c);
      }
    found = std::move(next);
  }
  std::vector<Rank> members;
  for (const Coords& c : found) members.push_back(rank(c));
  return members;
}

Rank Mesh::stage_neighbour(Rank r, int offset) const {
  Coords c = coords(r);
  c[Axis::pp] += offset;
  require(c[Axis::pp] >= 0 && c[Axis::pp] < size(Axis::pp), "stage neighbour outside the pipeline");
  return rank(c);
}

Mesh make_mesh(const Plan& plan) {
  // The expert axis re-partitions data x context and tensor; it adds no ranks.
  return Mesh({plan.parallel.tensor, plan.parallel.context, 1, plan.parallel.data, plan.parallel.pipeline},
              plan.parallel.rank_order);
}

}  // namespace tandem
