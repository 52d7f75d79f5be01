#pragma once
// Measured records of one device, lowered once and simulated again and again with other constants.

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

/// The timed records of grades A and B on devices with this calibration (a name as in their presets, or a path), lowered on
/// `jobs` threads. Records that are refused are left out and counted. Throws FitStopped.
struct FitCases {
  std::vector<FitCase> cases;
  int refused = 0;
};
FitCases fit_cases(const std::vector<Measurement>& measurements, const std::string& calibration, const Jobs& jobs);

/// Thrown where the jobs are stopped before their result is whole.
struct FitStopped {};

/// Logarithms of predicted over measured step times, by case.
using LogErrors = std::vector<double>;

/// Simulates cases with candidate values of the constants. Candidates travel as a calibration file in the system's folder for
/// temporary files, which goes with the evaluator.
class Evaluator {
 public:
  Evaluator(const std::vector<FitCase>& cases, const ConstantsFile& file, const Jobs& jobs);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// Of the cases listed in `which`, in that order. Throws FitStopped.
  LogErrors errors(const std::vector<double>& values, const std::vector<std::size_t>& which);

 private:
  const std::vector<FitCase>& cases_;
  const ConstantsFile& file_;
  const Jobs& jobs_;
  std::string candidate_;
};

}  // namespace tandem::program
