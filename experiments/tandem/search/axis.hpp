#pragma once
// A field of a plan that a search varies, and the values that it takes.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/base/json.hpp"
#include "models/plan/plan.hpp"

namespace tandem::search {

/// One value of an axis.
struct AxisValue {
  std::string text;                ///< as it stands in a plan file, without quotes
  std::function<void(Plan&)> set;  ///< writes it into a plan that is not completed yet
};

struct Axis {
  std::string field;               ///< "parallel.tensor"
  std::string name;                ///< "tensor"
  std::vector<AxisValue> values;   ///< at least one, each once
};

/// What an axis is made from: a field and the values as JSON.
struct AxisRequest {
  std::string field;
  std::vector<std::string> values;  ///< JSON texts
};

/// The field that "tensor", "tp" or "parallel.tensor" names. Throws ConfigError where there is none, or where a search may not vary
/// it: fields that change the model, the cluster or the work of a step.
std::string axis_field(const std::string& name, const std::string& file);

/// Reads "tensor=1,2,4". Throws ConfigError.
AxisRequest read_axis(const std::string& text);

/// Checks every value against the field. Throws ConfigError with field, value, reason and remedy.
Axis make_axis(const AxisRequest& request);

}  // namespace tandem::search
