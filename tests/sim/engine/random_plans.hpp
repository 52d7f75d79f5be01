#pragma once
// Random legal plans of up to 512 ranks on the machines there are, for what must hold of every plan.

#include <memory>
#include <optional>
#include <random>

#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "topology/topology.hpp"

namespace tandem::sim::test {

struct RandomPlan {
  Plan plan;
  TaskGraph graph;
  std::shared_ptr<const Topology> topology;
};

class PlanGenerator {
 public:
  explicit PlanGenerator(std::uint32_t seed, std::int64_t most_ranks = 512) : random_(seed), most_(most_ranks) {}

  /// The next legal plan; what the parser, the lowering or the machine refuses is thrown away.
  RandomPlan next();
  /// The next plan's document, legal or not.
  std::string text();
  /// One slow device or more and some slow links of its machine, as a plan's cluster.perturbation.
  Perturbation perturbation(const RandomPlan& of);

 private:
  std::optional<RandomPlan> draw();

  template <class T>
  T pick(std::initializer_list<T> of) {
    return of.begin()[random_() % of.size()];
  }
  bool one_in(std::uint32_t n) { return random_() % n == 0; }

  std::mt19937 random_;
  std::int64_t most_;
};

}  // namespace tandem::sim::test
