#pragma once
// The table behind explanations: one row for each key of `simulate --json`. Private to experiments/tandem/explain.

#include <functional>
#include <string>
#include <vector>

#include "experiments/tandem/explain/explanation.hpp"

namespace tandem::program {

/// How the range of the step time carries over to a value.
enum class RangeKind {
  grows,     ///< with the step time
  shrinks,   ///< when the step takes longer
  part,      ///< a part of the step, of which only the sum was ever measured
  exact,     ///< follows from the plan
  itself,    ///< it is the range
  layout,    ///< of memory: the layout is exact, without additions of a framework
};

struct Row {
  std::string key;      ///< without "roles[]."
  std::string formula;
  std::function<std::string(const ExplainedCase&, std::size_t place)> filled;  ///< place: of the role, or in the list that the key asks of
  RangeKind range;
  std::vector<std::string> facts;  ///< "part" or "part:field" of the facts in use; a field's beginning will do
};

std::vector<Row> time_rows();
std::vector<Row> rate_rows();
std::vector<Row> memory_rows();
std::vector<Row> perturbation_rows();
std::vector<Row> other_rows();
std::vector<Row> product_rows();

/// Explains "plan.x.y" from the schema of plans.
Explanation explain_plan_field(const ExplainedCase& c, const std::string& key);

}  // namespace tandem::program
