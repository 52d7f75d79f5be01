#include "sim/result/product_coverage.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "sim/cost/product_table.hpp"

namespace tandem::sim {
namespace {

/// Seconds of all products, and by type and shape of those without a measurement.
struct Times {
  double all = 0;
  std::map<std::pair<DType, ProductShape>, double> by_law;
};

/// How many instances of each template a program has.
std::vector<double> instances_of(const TaskGraph& graph, const Program& program) {
  std::vector<double> count(graph.templates.size(), 0);
  for (const Instance& i : program.instances) ++count[i.tmpl.index()];
  return count;
}

/// The first rank of every stage. Ranks of a stage have the same shapes; with replayed rows of experts the first stands for them.
std::vector<Rank> first_ranks(const Setup& setup) {
  std::vector<Rank> out(setup.graph.programs.size(), Rank(-1));
  for (std::int32_t r = setup.mesh.world_size(); r-- > 0;) out[setup.stage_of(Rank(r)).index()] = Rank(r);
  return out;
}

void add(const Setup& setup, Rank rank, const std::vector<double>& instances, Times& times) {
  for (std::size_t t = 0; t < instances.size(); ++t)
    for (const Task& task : setup.graph.templates[t].tasks) {
      const Op op = setup.replay == nullptr ? task.op : setup.replay->timed(rank, t, task.op);
      const auto shape = product_shape(op);
      if (!shape || instances[t] == 0) continue;
      const double seconds = instances[t] * setup.cost.duration(op, task.dtype).seconds();
      times.all += seconds;
      if (!setup.cost.covered(op, task.dtype)) times.by_law[{task.dtype, *shape}] += seconds;
    }
}

UncoveredProduct uncovered(DType type, const ProductShape& s, double share) {
  return {std::string(name(s.kind)),
          std::string(name(type)),
          s.batch,
          s.m,
          s.n,
          s.k,
          s.accumulate ? std::string(name(s.total)) : "no",
          share};
}

}  // namespace

std::optional<ProductCoverage> product_coverage(const Setup& setup) {
  const ProductTable* table = setup.cost.products();
  if (table == nullptr) return std::nullopt;
  Times times;
  const std::vector<Rank> ranks = first_ranks(setup);
  for (std::size_t s = 0; s < ranks.size(); ++s)
    add(setup, ranks[s], instances_of(setup.graph, setup.graph.programs[s]), times);
  ProductCoverage out{
      table->name(), table->card(), table->date(), table->source(), static_cast<std::int64_t>(table->size()), 0, {}};
  if (times.all <= 0) return out;
  double by_law = 0;
  for (const auto& [key, seconds] : times.by_law) {
    out.not_covered.push_back(uncovered(key.first, key.second, seconds / times.all));
    by_law += seconds;
  }
  out.share = std::max(0.0, 1 - by_law / times.all);
  std::stable_sort(out.not_covered.begin(), out.not_covered.end(),
                   [](const UncoveredProduct& a, const UncoveredProduct& b) { return a.share > b.share; });
  return out;
}

}  // namespace tandem::sim
