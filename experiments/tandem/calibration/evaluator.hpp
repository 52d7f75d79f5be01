#pragma once
// Measured records of one device, lowered once and simulated repeatedly with different constants.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/tandem/calibration/constants_file.hpp"
#include "experiments/tandem/validation/measurement.hpp"
#include "models/base/threads.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/plan.hpp"
#include "topology/topology.hpp"

namespace tandem::program {

/// One measured step, ready to be simulated.
struct FitCase {
  std::string id, set;
  double measured_s = 0;
  Plan plan;
  TaskGraph graph;
  std::shared_ptr<const Topology> topology;
};

/// Timed records of grades A and B on devices with this calibration (a preset's name, or a path). Lowered on `jobs` threads.
/// Refused records are omitted and counted. Throws FitStopped.
struct FitCases {
  std::vector<FitCase> cases;
  int refused = 0;
};
FitCases fit_cases(const std::vector<Measurement>& measurements, const std::string& calibration, const Jobs& jobs);

/// Thrown if the jobs are stopped before their result is complete.
struct FitStopped {};

/// log(predicted / measured step time), by case.
using LogErrors = std::vector<double>;

/// Simulates cases with candidate values of the constants. They are passed in a temporary calibration file, which the destructor
/// removes.
class Evaluator {
 public:
  Evaluator(const std::vector<FitCase>& cases, const ConstantsFile& file, const Jobs& jobs);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// Errors of the cases in `which`, in that order. Throws FitStopped.
  LogErrors errors(const std::vector<double>& values, const std::vector<std::size_t>& which);

 private:
  const std::vector<FitCase>& cases_;
  const ConstantsFile& file_;
  const Jobs& jobs_;
  std::string candidate_;
};

}  // namespace tandem::program
