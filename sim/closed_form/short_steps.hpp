#pragma once
// Step time and memory of a plan from event simulations of short plans with the same layers and layout. These show what one more
// layer or micro-batch adds, whatever limits it: the host, the network, or gathers of weights.

#include <cstdint>
#include <vector>

#include "models/base/once_map.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan_words.hpp"
#include "models/lowering/stage/short_plan.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/network/footprint_store.hpp"
#include "topology/topology.hpp"

namespace tandem::sim {

/// How the memory of a plan that nearly fills its device is estimated.
enum class MemoryEstimate : std::uint8_t {
  allocator,  ///< PyTorch's allocator is simulated through the step: seconds for long steps
  live_peak,   ///< largest sum of live tensors, without fragmentation
};

/// Time and memory of a whole step.
struct ReadStep {
  std::int64_t ps = 0;
  Bytes memory;        ///< memory of the rank that needs most, with the device's runtime
  bool whole = false;  ///< the plan itself was simulated
};

class ShortSteps {
  using Key = std::vector<std::int64_t>;
  struct Known;

 public:
  /// Figures of short plans that several threads share.
  using Store = OnceMap<Key, Known, WordsHash>;

  /// References outlive the object.
  ShortSteps(const Topology& topology, const CostModel& cost, Store& store, FootprintStore& footprints)
      : topology_(topology), cost_(cost), store_(store), footprints_(footprints) {}

  /// Estimates a validated plan without a perturbation. Simulates short plans that are not cached: some milliseconds.
  ReadStep of(const Plan& plan, MemoryEstimate by = MemoryEstimate::allocator);
  /// Likewise, without the memory.
  ReadStep time_of(const Plan& plan);
  /// Memory of a plan by MemoryEstimate::live_peak. Lowers plans of few micro-batches, but does not simulate them.
  Bytes memory_alive(const Plan& plan) { return memory(plan, MemoryEstimate::live_peak); }

 private:
  /// Which figures of a short plan are used: only memory, or also time.
  enum class Reads : std::uint8_t { memory, all };

  /// Step time in ps (0 if only memory is read), then bytes: the live peak of every stage, and the arena of every stage.
  using Point = std::vector<double>;
  struct Slope {
    Point far;     ///< added by all simulated growths together
    Point each;    ///< added by each further growth
    Point change;  ///< `each` less what the first growth added
  };
  struct Known {
    Point base;
    std::vector<Bytes> runtime;    ///< by stage; it does not grow
    std::vector<Slope> slopes;     ///< by growth
    std::vector<Point> together;   ///< by growth of layers: what it adds more with each growth of micro-batches
  };

  /// The point of a whole plan, and by how much it may be wrong.
  struct Sum {
    Point point, unsure;
  };

  static lowering::ShortPlan shortened(const Plan& plan, int level, Reads reads);
  static Sum sum(const lowering::ShortPlan& s, const Known& known);
  Bytes memory(const Plan& plan, MemoryEstimate by);
  const Known& known(const lowering::ShortPlan& s, Reads reads);
  Known read(const lowering::ShortPlan& s, Reads reads) const;
  Point simulated(const Plan& plan, const TaskGraph& graph, Reads reads) const;
  std::vector<Bytes> runtime(const Plan& plan, const TaskGraph& graph) const;
  Bytes memory(const Plan& plan, const Known& known, const Point& sum, MemoryEstimate by) const;
  Bytes walked(const Plan& plan, const std::vector<Bytes>& runtime) const;
  void write_key(const lowering::ShortPlan& s, Reads reads);

  const Topology& topology_;
  const CostModel& cost_;
  Store& store_;
  FootprintStore& footprints_;
  Key key_;  // scratch
};

}  // namespace tandem::sim
