#pragma once
// A calibration file (topology/calibration) and its numbers that may be fitted.

#include <map>
#include <string>
#include <vector>

namespace tandem::program {

/// A number with a plausible range: {"value": v, "fit": {"low": l, "high": h}}. If the value is an object of numbers (one per
/// compute type), each is a separate constant with this range.
struct Constant {
  std::string key;  ///< dotted, e.g. "communication.overhead_s"
  double value = 0, low = 0, high = 0;
};

class ConstantsFile {
 public:
  /// `device`: a name in topology/calibration, or a path. Throws ConfigError, also if the file has no constant to fit.
  explicit ConstantsFile(const std::string& device);

  const std::string& path() const { return path_; }
  const std::vector<Constant>& constants() const { return constants_; }
  /// The file's text with new `values` of the constants, in their order. A non-empty `fitted_on` becomes the recorded origin of
  /// those that differ from the file's. Everything else is unchanged, also the constants with the same value.
  std::string with(const std::vector<double>& values, const std::string& fitted_on = "") const;

  /// The file's text with further values of each constant, keyed by the sources left out of their fit. Replaces earlier ones.
  std::string with_without(const std::map<std::string, std::vector<double>>& values) const;

 private:
  std::string path_, text_;
  std::vector<Constant> constants_;
};

}  // namespace tandem::program
