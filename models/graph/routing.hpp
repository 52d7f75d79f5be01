#pragma once
// Which experts the tokens of a step have chosen. A graph of dropless experts on several ranks plans an even share of rows for
// each; with the numbers of a run its products and exchanges get the sizes they had there.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/ops/op.hpp"
#include "models/plan/mesh.hpp"

namespace tandem {

/// What the router of one layer gave for one micro-batch of one rank.
struct RouterCounts {
  std::int32_t layer = -1, micro_batch = -1;
  std::vector<std::int32_t> counts;   ///< choices of each expert
  bool operator==(const RouterCounts&) const = default;
};

/// Whether the size of an operation follows the numbers: products over rows of unequal numbers from several ranks, and the
/// exchanges that bring these rows.
bool follows_routing(const Op& op);

/// The numbers of all ranks. Rows of one rank's experts are those that the members of its expert group send there.
class Routing {
 public:
  /// `by_rank`: of every rank what it routed, in any order. Expert rank e holds the experts [e*n, (e+1)*n).
  Routing(Mesh mesh, const std::vector<std::vector<RouterCounts>>& by_rank);

  /// Rows that `from` sends to the experts of `to`, a member of its expert group. ContractError where nothing is known.
  std::int64_t rows(Rank from, Rank to, std::int32_t layer, std::int32_t micro_batch) const;
  /// Rows that the experts of `rank` get from all members of its expert group.
  std::int64_t rows_of(Rank rank, std::int32_t layer, std::int32_t micro_batch) const;
  /// `op` as `rank` does it in `instance`: a product with the rows that its experts get there, a gather with those it makes one.
  Op sized(const Op& op, Rank rank, const Instance& instance) const;
  /// Rows that member `from` of an exchange of rows sends to member `to` in `instance`.
  std::int64_t exchanged(const Collective& op, Rank from, Rank to, const Instance& instance) const;
  /// Bytes that `rank` gets from the others of its group in an all-to-all, a gather or a scatter.
  Bytes received(const Collective& op, Rank rank, const Instance& instance) const;
  /// Numbers that two ranks have in common when they do the same work: rows of their expert tensor group, by layer and micro-batch.
  std::vector<std::int64_t> work_of(Rank rank) const;

  /// What `rank` routed, in order of layer and micro-batch.
  std::vector<RouterCounts> of(Rank rank) const;
  const Mesh& mesh() const { return mesh_; }

 private:
  using Key = std::pair<std::int32_t, std::int32_t>;
  const std::vector<std::int32_t>& counts(Rank rank, const Key& key) const;

  Mesh mesh_;
  std::vector<std::map<Key, std::vector<std::int32_t>>> counts_;  ///< by rank
};

}  // namespace tandem
