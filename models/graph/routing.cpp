#include "models/graph/routing.hpp"

#include <numeric>
#include <string>

#include "models/base/error.hpp"

namespace tandem {
namespace {

/// Whether the operation multiplies a varying number of rows from several ranks.
bool is_ragged(const auto& o) { return o.ragged && o.groups > 1; }

/// Sum of the rows that the ranks of the expert tensor group of `rank` receive.
std::int64_t gathered(const Routing& r, Rank rank, std::int32_t layer, std::int32_t micro_batch) {
  std::int64_t sum = 0;
  for (const Rank member : r.mesh().members(Group::expert_tensor, rank)) sum += r.rows_of(member, layer, micro_batch);
  return sum;
}

}  // namespace

bool follows_routing(const Op& op) {
  return std::visit(overloaded{[](const GroupedMatMul& o) { return is_ragged(o); },
                               [](const GroupedWeightGrad& o) { return is_ragged(o); },
                               [](const GroupedBias& o) { return is_ragged(o); },
                               [](const GroupedBiasGrad& o) { return is_ragged(o); },
                               [](const Collective& o) { return o.row > 0; }, [](const auto&) { return false; }},
                    op);
}

Routing::Routing(Mesh mesh, const std::vector<std::vector<RouterCounts>>& by_rank) : mesh_(std::move(mesh)) {
  require(by_rank.size() == static_cast<std::size_t>(mesh_.world_size()), "a routing needs the numbers of every rank");
  for (const auto& list : by_rank) {
    auto& mine = counts_.emplace_back();
    for (const RouterCounts& c : list) mine[{c.layer, c.micro_batch}] = c.counts;
  }
}

const std::vector<std::int32_t>& Routing::counts(Rank rank, const Key& key) const {
  const auto& mine = counts_[rank.index()];
  const auto found = mine.find(key);
  if (found == mine.end())
    throw ContractError("no routing of layer " + std::to_string(key.first) + ", micro-batch " +
                        std::to_string(key.second) + " on rank " + std::to_string(rank.value()));
  return found->second;
}

std::int64_t Routing::rows(Rank from, Rank to, std::int32_t layer, std::int32_t micro_batch) const {
  const auto& all = counts(from, {layer, micro_batch});
  const auto here = static_cast<std::int64_t>(all.size()) / mesh_.group_size(Group::expert);
  const auto first = all.begin() + mesh_.position(Group::expert, to) * here;
  return std::accumulate(first, first + here, std::int64_t{0});
}

std::int64_t Routing::rows_of(Rank rank, std::int32_t layer, std::int32_t micro_batch) const {
  std::int64_t sum = 0;
  for (const Rank member : mesh_.members(Group::expert, rank)) sum += rows(member, rank, layer, micro_batch);
  return sum;
}

Op Routing::sized(const Op& op, Rank rank, const Instance& instance) const {
  if (!follows_routing(op)) return op;
  Op out = op;
  const auto all = [&] { return gathered(*this, rank, instance.layer, instance.micro_batch); };
  const auto size = [&](auto& o) {
    if constexpr (requires { o.ragged; })
      o.m = o.groups > mesh_.group_size(Group::expert) ? all() : rows_of(rank, instance.layer, instance.micro_batch);
  };
  std::visit(size, out);
  if (auto* c = std::get_if<Collective>(&out); c != nullptr && c->kind != CollectiveKind::all_to_all) c->elements = all() * c->row;
  return out;
}

std::int64_t Routing::exchanged(const Collective& op, Rank from, Rank to, const Instance& instance) const {
  return op.back ? rows(to, from, instance.layer, instance.micro_batch)
                 : rows(from, to, instance.layer, instance.micro_batch);
}

Bytes Routing::received(const Collective& op, Rank rank, const Instance& instance) const {
  const std::vector<Rank> members = mesh_.members(op.group, rank);
  const auto n = static_cast<std::int64_t>(members.size());
  if (op.row == 0) return bytes_of(op.dtype, op.elements / n * (n - 1));
  const std::int64_t own = rows_of(rank, instance.layer, instance.micro_batch);
  if (op.kind == CollectiveKind::reduce_scatter) return bytes_of(op.dtype, own * (n - 1) * op.row);
  if (op.kind == CollectiveKind::all_gather)
    return bytes_of(op.dtype, (gathered(*this, rank, instance.layer, instance.micro_batch) - own) * op.row);
  std::int64_t rows = 0;
  for (const Rank from : members)
    if (from != rank) rows += exchanged(op, from, rank, instance);
  return bytes_of(op.dtype, rows * op.row);
}

std::vector<RouterCounts> Routing::of(Rank rank) const {
  std::vector<RouterCounts> all;
  for (const auto& [key, counts] : counts_[rank.index()]) all.push_back({key.first, key.second, counts});
  return all;
}

std::vector<std::int64_t> Routing::work_of(Rank rank) const {
  std::vector<std::int64_t> work;
  for (const auto& [key, counts] : counts_[rank.index()]) work.push_back(gathered(*this, rank, key.first, key.second));
  return work;
}

}  // namespace tandem
