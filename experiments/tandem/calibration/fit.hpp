#pragma once
// Fits a device's few constants to measured step times, every source with one vote.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/calibration/evaluator.hpp"

namespace tandem::program {

/// Mean absolute log error of one source's records.
struct SourceFit {
  std::string set;
  int records = 0;
  double before = 0, after = 0;      ///< with the constants as they were, and as fitted to all sources
  std::optional<double> left_out;    ///< as fitted to all others, from the best fit to all by its linear model; nothing
                                     ///< when there is no other
};

struct ConstantFit {
  Constant before;
  double fitted = 0;
  double least = 0, most = 0;        ///< over the fits that leave a source out (and this one)
  bool at_border = false;            ///< of its plausible range: a sign of a missing term
  std::string felt_by;               ///< the source whose times move most with it
  double felt = 0;                   ///< their mean change when it moves an eighth of its range, as a fraction
};

struct Fit {
  std::vector<ConstantFit> constants;
  std::vector<SourceFit> sources;
  int records = 0, refused = 0;      ///< refused: of whatever device
  int per_source = 0;                ///< records of a source that the search looked at, at most; 0: all
  bool stopped = false;              ///< the search was stopped: errors are of the records that it looked at, nothing is left out
  bool kept = false;                 ///< nothing better was found: the constants are as they were, and nothing is said of others
  int evaluations = 0;               ///< sets of constants that the sampled records were simulated with
  double before = 0, after = 0;      ///< means over sources
  std::optional<double> left_out;
};

struct FitOptions {
  Jobs jobs;                         ///< when they are stopped the fit is what the search has found until then
  int per_source = 12;               ///< records of a source that the search looks at, spread evenly; 0: all
  std::function<void(int)> tell = [](int) {};  ///< called with how many sets of constants were tried
};

/// Minimises the mean over sources of the mean absolute log error: simulates the sampled records around a point, searches the
/// linear model of their errors near it, and goes on from there while the simulator confirms it. One set of constants for all:
/// nothing is fitted for a model, a plan or a source. Errors that are reported are over all records; where what was found is worse
/// over all records than the constants as they were, the sample misled, and the search is made again with twice as many of each
/// source, up to all; constants than which nothing better is found stay. Throws ConfigError when no record is of this device, and
/// FitStopped when it is stopped before it has tried anything.
Fit fit_device(const ConstantsFile& file, const FitCases& cases, const FitOptions& options);

/// The constants as fitted to all sources but some.
struct FitWithout {
  std::string sets;            ///< those left out: "a", or "a+b" of sets that are one source
  std::vector<double> values;  ///< in the order of the file
};

/// By set: the joined names of the sets that are one source with it; where it is not named, itself.
using OneSource = std::map<std::string, std::string>;

/// A fit without each source, from the file's own values by one linear model: a constant moves at most a quarter of its range.
/// Throws ConfigError where there is only one source, and FitStopped.
std::vector<FitWithout> fit_without_each(const ConstantsFile& file, const FitCases& cases, const OneSource& together,
                                         const FitOptions& options);

/// What stands as `fitted_on` beside every fitted number.
std::string fitted_on(const Fit& fit, const std::string& date);

std::string to_text(const Fit& fit);
std::string to_json(const Fit& fit);

}  // namespace tandem::program
