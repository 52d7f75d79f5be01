#pragma once
// Times of communications that start together and share their links with no others, and whether others share them.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "models/ops/op.hpp"
#include "models/plan/plan_words.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/network/link_capacities.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// Ranks first + i x stride + j for i < count, j < inner.
struct Members {
  std::int64_t first = 0, stride = 1, count = 1, inner = 1;
  std::int64_t groups = 1;  ///< groups like this one, each one rank further on, that do the same at the same time
  std::int64_t size() const { return count * inner; }
};

class LinkTimes {
 public:
  /// References outlive the object.
  LinkTimes(const Topology& topology, const CostModel& cost);

  /// Picoseconds of a Collective among the members, or of a Send from the first to the second, while the other groups do the same.
  std::int64_t alone(const Op& op, const Members& members);

  /// Whether `op` of `members` shares a link with `op` of the groups n x `by` ranks further on, n < `times`.
  bool crowded(const Op& op, const Members& members, std::int64_t times, std::int64_t by);
  /// Whether `a` of one group and `b` of another share a link.
  bool meet(const Op& a, const Members& of_a, const Op& b, const Members& of_b);

 private:
  using Key = std::vector<std::int64_t>;
  std::vector<std::uint32_t> links_of(const Op& op, const Members& members) const;
  void write_key(const Op& op, const Members& members);

  const Topology& topology_;
  const CostModel& cost_;
  LinkCapacities links_;
  std::unordered_map<Key, std::int64_t, WordsHash> alone_;
  std::unordered_map<Key, bool, WordsHash> shared_;
  Key key_;  // scratch
};

}  // namespace tandem::sim
