#pragma once
// The result of a simulation: the values behind `tandem simulate --json`.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/base/units.hpp"
#include "models/graph/memory_plan.hpp"
#include "reports/prediction/product_coverage.hpp"
#include "reports/timeline/memory_sample.hpp"
#include "reports/timeline/timeline.hpp"

namespace tandem {

/// Seconds of a role's compute stream by what fills them, up to the end of its step; they add up to the step time.
/// Keys: compute, tensor_comm, context_comm, expert_comm, pipeline_comm, data_comm, optimizer, bubble, launch, host_copy (copies of
/// offloaded states).
using TimeBreakdown = std::map<std::string, double>;

struct RolePrediction {
  Coords coords;                     ///< coordinates of the representative, the first of `ranks`
  std::vector<std::int32_t> ranks;
  Bytes arena_bytes, live_peak_bytes, peak_memory_bytes; ///< peak = arena + runtime
  Bytes needed_bytes;                ///< decides whether the plan fits (sim/memory/role_memory): runtime + arena (host, stack tandem), else + live tensors or what the simulated allocator needs
  Bytes cached_bytes;                ///< memory that an allocator reserves beside the arena while there is room
  BytesByKind memory_bytes{};        ///< live peak by kind, runtime added
  TimeBreakdown time_breakdown_s;              ///< empty if not requested; never for the critical role
  std::vector<MemorySample> memory_over_time;  ///< if requested
};

/// The range in which to expect the measured step time.
struct StepRange {
  double low_s = 0, high_s = 0;
  double share = 0;                  ///< share of outcomes that should lie inside; 0: no range was requested
  std::string basis;                 ///< the records it was computed from, or why it is a default
  std::string wider{};               ///< why it is wider than other plans' errors: nothing like this plan was measured; or empty
};

/// Step times of one plan under several seeds of its jitter.
struct StepSpread {
  std::int64_t seeds = 0;                ///< 0: there is no jitter, or one seed only
  double mean_s = 0, deviation_s = 0;    ///< sample standard deviation (seeds - 1)
  double low_s = 0, high_s = 0;
};

/// The cost of a plan's perturbation.
struct PerturbationCost {
  Duration undisturbed;                  ///< step time of the plan without it
  std::vector<std::string> changes;      ///< one phrase each
  StepSpread spread;
};

struct Prediction {
  /// From the end of one step to the end of the next. If the update is validated afterwards (parallel.optimizer_sync), steps
  /// overlap, and it is less than the makespan.
  Duration step_time;
  Duration makespan;                     ///< one step alone, from its first start to its last end
  StepRange range;
  double tokens_per_s = 0, samples_per_s = 0;
  double model_tflops_per_device = 0;    ///< without recomputation
  double hardware_tflops_per_device = 0; ///< every matrix FLOP done
  double mfu = 0, hfu = 0;               ///< model and hardware FLOPs as shares of the device's peak in the compute type
  double bubble_fraction = 0;            ///< share of the step, on the critical role
  Bytes device_memory;                   ///< memory of one device
  bool fits = true;
  std::size_t heaviest_role = 0;         ///< index into roles: the most memory
  std::size_t critical_role = 0;         ///< index into roles: the busiest compute stream
  TimeBreakdown kernels_s;               ///< the critical role's "compute": products, attention, other; they add up to it
  std::vector<RolePrediction> roles;     ///< ascending first rank
  std::int64_t ranks = 0;
  std::optional<ProductCoverage> measured_products;  ///< if the device has a measured table of products
  std::optional<PerturbationCost> perturbation; ///< if the plan's cluster has one
  std::vector<std::string> notes;        ///< notes for the reader, e.g. that one receive buffer delays the schedule
  std::shared_ptr<const Timeline> timeline; ///< if requested
};

struct Plan;

/// Index of the role with the largest needed_bytes; heaviest_role has the largest peak_memory_bytes.
std::size_t neediest_role(const Prediction& prediction);
/// Index of the role with the largest live_peak_bytes.
std::size_t fullest_role(const Prediction& prediction);

/// The keys of `tandem simulate --json` (schema_version 1, SI units in the names), the completed plan included.
std::string to_json(const Prediction& prediction, const Plan& plan);

/// A text for people: times, rates, memory by kind, breakdown, notes.
std::string to_text(const Prediction& prediction, const Plan& plan);

/// Memory over time of every role that has it, for reports/plot_memory.py (schema_version 1; times in s, sizes in bytes).
std::string memory_json(const Prediction& prediction, const Plan& plan);

}  // namespace tandem
