#pragma once
// A framework's configuration as Python code that sets its fields.

#include <string>
#include <utility>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::arguments {

/// A value as Python reads it: True, None, "text", [1, 2].
std::string python_value(const nlohmann::json& value);

/// Lines of a program: `head` above the function, `first` and `last` in it.
struct PythonLines {
  std::vector<std::string> head, first, last;
};

/// The function `plan(config)`: its first lines, an assignment to each field that no last line names, and its last lines. `{NAME}` in
/// a last line is the value of the field NAME.
std::string python_text(const std::vector<std::pair<std::string, nlohmann::json>>& fields, const PythonLines& lines);

}  // namespace tandem::arguments
