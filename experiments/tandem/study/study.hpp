#pragma once
// A study: one plan, fields that vary, and published figures to compare the results with.

#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/study/goal.hpp"

namespace tandem::study {

/// A value of an axis: its label (JSON text of a string or number), and its changes to the plan (JSON object of dotted fields; null
/// removes a field).
struct AxisValue {
  std::string label;
  std::string set;
};

struct Axis {
  std::string name;
  std::vector<AxisValue> values;
};

/// A plan of a study. `at`: JSON object from axis name to label.
struct Point {
  std::string at;
  std::string plan;        ///< JSON text, as in a plan file
  std::string impossible;  ///< why this plan is impossible (e.g. degrees that do not divide the devices); else empty
};

struct Study {
  std::string file;
  std::string name;
  std::string text;  ///< JSON of the study including its base plan, for reports
  std::vector<Axis> axes;
  std::optional<Goal> goal;
  std::vector<Point> points;  ///< all combinations, the last axis fastest
};

/// Reads and checks a study file (format: experiments/studies/README.md) and makes its plans. Throws ConfigError with file, field,
/// value, reason and remedy.
Study load_study(const std::string& path);

}  // namespace tandem::study
