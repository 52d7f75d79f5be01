#pragma once
// What the rules of a framework refuse in a plan.

#include <string>
#include <vector>

#include "models/stack/resolve.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::test {

using Fields = std::vector<std::string>;

/// Fields that `stack` refuses in a plan, in the order of its rules.
inline Fields refused(const std::string& text, const std::string& stack) {
  Fields fields;
  for (const Problem& p : stack_problems(parse_plan(text, "stack.json"), stack)) fields.push_back(p.field);
  return fields;
}

}  // namespace tandem::test
