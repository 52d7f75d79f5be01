#pragma once
// A plan field that a search varies, and its values.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/base/json.hpp"
#include "models/plan/plan.hpp"

namespace tandem::search {

/// Its value "balanced" is another list of layers for each layout (split_by_flops).
inline constexpr const char* kSplit = "parallel.pipeline_split";

/// A value of an axis.
struct AxisValue {
  std::string text;                ///< as in a plan file, without quotes
  std::function<void(Plan&)> set;  ///< sets it in an incomplete plan
};

struct Axis {
  std::string field;               ///< "parallel.tensor"
  std::string name;                ///< "tensor"
  std::vector<AxisValue> values;   ///< at least one, without repeats
};

/// An axis before it is checked: a field, and its values as JSON.
struct AxisRequest {
  std::string field;
  std::vector<std::string> values;  ///< JSON texts
};

/// The field named "tensor", "tp" or "parallel.tensor". Throws ConfigError if there is none, or if a search may not vary it,
/// because it changes the model, the cluster or the work of a step.
std::string axis_field(const std::string& name, const std::string& file);

/// The shortest name of a field that axis_field() takes: "tp", "recompute".
std::string short_name(const std::string& field);

/// A value as it stands on a command line: a word without quotes.
std::string word_of(const std::string& json_text);

/// Parses "tensor=1,2,4". Throws ConfigError.
AxisRequest read_axis(const std::string& text);

/// Checks every value against the field. Throws ConfigError with field, value, reason and remedy.
Axis make_axis(const AxisRequest& request);

/// The values of the axis of a field; if there is no such axis, one value that leaves a plan as it is.
std::vector<AxisValue> values_in(const std::vector<AxisRequest>& axes, const char* field);

}  // namespace tandem::search
