#pragma once
// Fits a device's few constants to measured step times. Every source has equal weight.

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
  double before = 0, after = 0;      ///< with the old constants, and with those fitted to all sources
  std::optional<double> left_out;    ///< fitted to all other sources, by the linear model at the best fit to all; nullopt
                                     ///< if there is no other source
};

struct ConstantFit {
  Constant before;
  double fitted = 0;
  double least = 0, most = 0;        ///< over the fits that leave out a source, and this fit
  bool at_border = false;            ///< step times depend on it, and it is at the border of its range, which suggests that a term is missing
  std::string most_sensitive;        ///< the source whose step times depend most on it
  double sensitivity = 0;            ///< their mean relative change when the constant moves by an eighth of its range
};

struct Fit {
  std::vector<ConstantFit> constants;
  std::vector<SourceFit> sources;
  int records = 0, refused = 0;      ///< refused: records of any device
  int per_source = 0;                ///< largest number of records per source in the search; 0: all
  bool stopped = false;              ///< the search was stopped: errors cover only its records, and no source was left out
  bool kept = false;                 ///< no better constants were found: they are unchanged, and nothing is left out
  int evaluations = 0;               ///< sets of constants with which the sampled records were simulated
  double before = 0, after = 0;      ///< means over sources
  std::optional<double> left_out;
};

struct FitOptions {
  Jobs jobs;                         ///< if they are stopped, the fit is the best one found so far
  int per_source = 12;               ///< records per source in the search, evenly spread; 0: all
  std::function<void(int)> tell = [](int) {};  ///< called with the number of sets of constants tried
};

/// Minimises the mean over sources of the mean absolute log error. Simulates the sampled records
/// around a point, minimises a linear model of their errors nearby, and repeats while the simulator
/// confirms progress. All models and plans share one set of constants. Reported errors cover all
/// records. If the result is worse on them than the old constants, the sample was misleading: the
/// search repeats with twice the records per source, up to all. If nothing is better, constants
/// stay. So does a constant that no source feels (less than 0.05 % of its step times).
/// Throws ConfigError without records of this device, FitStopped if stopped before any try.
Fit fit_device(const ConstantsFile& file, const FitCases& cases, const FitOptions& options);

/// Constants fitted without some sources.
struct FitWithout {
  std::string sets;            ///< the omitted sets: "a", or "a+b" if several sets are one source
  std::vector<double> values;  ///< in the order of the file
};

/// By set: the joined names of the sets of its source. A set that is missing here is a source of its own.
using OneSource = std::map<std::string, std::string>;

/// For each source a fit without it, from the file's values by one linear model. A constant moves at most a quarter of its range.
/// Throws ConfigError if there is only one source, and FitStopped.
std::vector<FitWithout> fit_without_each(const ConstantsFile& file, const FitCases& cases, const OneSource& together,
                                         const FitOptions& options);

/// The number of constants whose value differs from the file's.
int moved(const Fit& fit);

/// The text of `fitted_on` beside every number that the fit changed.
std::string fitted_on(const Fit& fit, const std::string& date);

std::string to_text(const Fit& fit);
std::string to_json(const Fit& fit);

}  // namespace tandem::program
