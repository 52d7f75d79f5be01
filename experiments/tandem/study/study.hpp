#pragma once
// A study: one plan, fields of it that vary, and published figures to lay beside what comes out.

#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/study/goal.hpp"

namespace tandem::study {

/// One value of an axis: how it is called (JSON text: a string or a number) and what it changes in the plan (JSON
/// object of dotted fields; null removes a field).
struct AxisValue {
  std::string label;
  std::string set;
};

struct Axis {
  std::string name;
  std::vector<AxisValue> values;
};

/// One plan of a study. `at` is a JSON object from axis name to label.
struct Point {
  std::string at;
  std::string plan;        ///< JSON text of the plan, as a plan file would hold it
  std::string impossible;  ///< why there is no such plan (degrees that do not divide the devices); empty: there is one
};

struct Study {
  std::string file;
  std::string name;
  std::string text;  ///< the study with its base plan in place: all that a report needs (JSON)
  std::vector<Axis> axes;
  std::optional<Goal> goal;
  std::vector<Point> points;  ///< every combination, the last axis fastest
};

/// Reads a study file, checks it and forms its plans. experiments/studies/README.md says what it holds. Throws
/// ConfigError naming file, field, value, reason and remedy.
Study load_study(const std::string& path);

}  // namespace tandem::study
