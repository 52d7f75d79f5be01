#pragma once
// A calibration file (topology/calibration) and those of its numbers that may be fitted.

#include <map>
#include <string>
#include <vector>

namespace tandem::program {

/// A number with a range of plausibility: {"value": v, "fit": {"low": l, "high": h}}. Where the value is an object of
/// numbers (one for each compute type), each of them is a constant of its own with the same range.
struct Constant {
  std::string key;  ///< dotted, e.g. "communication.overhead_s"
  double value = 0, low = 0, high = 0;
};

class ConstantsFile {
 public:
  /// `device` is a name in topology/calibration or a path. Throws ConfigError, also when nothing in it may be fitted.
  explicit ConstantsFile(const std::string& device);

  const std::string& path() const { return path_; }
  const std::vector<Constant>& constants() const { return constants_; }
  /// The file's text with these values in place of the constants', in their order. When `fitted_on` is not empty it becomes
  /// their origin; everything else stays as it is.
  std::string with(const std::vector<double>& values, const std::string& fitted_on = "") const;

  /// Its text with other values beside each constant, by the name of what they were fitted without; those of before go.
  std::string with_without(const std::map<std::string, std::vector<double>>& values) const;

 private:
  std::string path_, text_;
  std::vector<Constant> constants_;
};

}  // namespace tandem::program
