#pragma once
// Which experts the tokens of a step chose. A graph of dropless experts on several ranks plans the same
// number of rows for each rank. With the counts of a run, its products and exchanges get their real sizes.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/ops/op.hpp"
#include "models/plan/mesh.hpp"

namespace tandem {

/// Expert choices of one rank's tokens, in one layer and micro-batch.
struct RouterCounts {
  std::int32_t layer = -1, micro_batch = -1;
  std::vector<std::int32_t> counts;   ///< choices of each expert
  bool operator==(const RouterCounts&) const = default;
};

/// Whether the size of an operation depends on the routing: products over a
/// varying number of rows from several ranks, and the exchanges of these rows.
bool follows_routing(const Op& op);

/// The expert choices of all ranks. A rank's experts receive their rows from the members of its expert group.
class Routing {
 public:
  /// `by_rank`: the counts of every rank, in any order. Expert rank e holds the experts [e*n, (e+1)*n).
  Routing(Mesh mesh, const std::vector<std::vector<RouterCounts>>& by_rank);

  /// Rows that `from` sends to the experts of `to`, a member of its expert group. Throws ContractError if counts are missing.
  std::int64_t rows(Rank from, Rank to, std::int32_t layer, std::int32_t micro_batch) const;
  /// Rows that the experts of `rank` receive from all members of its expert group.
  std::int64_t rows_of(Rank rank, std::int32_t layer, std::int32_t micro_batch) const;
  /// `op` with the sizes that it has on `rank` in `instance`: rows of its experts for a product, gathered rows for a gather.
  Op sized(const Op& op, Rank rank, const Instance& instance) const;
  /// Rows that member `from` of an exchange of rows sends to member `to` in `instance`.
  std::int64_t exchanged(const Collective& op, Rank from, Rank to, const Instance& instance) const;
  /// Bytes that `rank` receives from the rest of its group in an all-to-all, a gather or a scatter.
  Bytes received(const Collective& op, Rank rank, const Instance& instance) const;
  /// Rows that the expert tensor group of `rank` multiplies, by layer and micro-batch. Ranks with equal lists do the same work.
  std::vector<std::int64_t> work_of(Rank rank) const;

  /// The counts of `rank`, ascending layer and micro-batch.
  std::vector<RouterCounts> of(Rank rank) const;
  const Mesh& mesh() const { return mesh_; }

 private:
  using Key = std::pair<std::int32_t, std::int32_t>;
  const std::vector<std::int32_t>& counts(Rank rank, const Key& key) const;

  Mesh mesh_;
  std::vector<std::map<Key, std::vector<std::int32_t>>> counts_;  ///< by rank
};

}  // namespace tandem
