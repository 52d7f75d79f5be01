#include "exec/run/requirements.hpp"

#include <optional>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/stack/resolve.hpp"

namespace tandem::exec {

void require_steps_left(const SavedState* resume, std::int64_t steps, const EvaluationRhythm& evaluation) {
  if (resume == nullptr || goes_on(resume->facts().steps, steps, evaluation)) return;
  throw ConfigError(Problem{"", "training.steps", std::to_string(steps),
                            "the state to resume has " + std::to_string(resume->facts().steps) + " steps behind it",
                            "give more steps: they count from the beginning of the run"});
}

namespace {

std::vector<DType> types_of(const std::vector<Operand>& operands) {
  std::vector<DType> types;
  for (const auto& o : operands) types.push_back(o.dtype);
  return types;
}

void require_supported(const Plan& plan, const Task& task, const Backend& backend) {
  if (is_communication(task.op)) return;
  const auto in = types_of(task.inputs), out = types_of(task.outputs);
  const Answer answer = backend.supports(task.op, {task.dtype, in, out});
  if (answer.possible) return;
  throw InfeasibleError(Problem{plan.file, "training.precision", plan.training.precision,
                                "the " + std::string(backend.name()) + " backend cannot do " + answer.reason,
                                "choose another precision or backend"});
}

/// The plan field that asks for an operation which not all backends have.
struct UnsupportedField {
  std::string field, value, lacks, instead;
};
std::optional<UnsupportedField> unsupported_field(const Op& op, const ModelSpec& m) {
  if (std::holds_alternative<IndexTopK>(op))
    return UnsupportedField{"model.indexer.heads", std::to_string(m.indexer.heads), "that choose keys",
                    "set model.indexer.heads to 0 for attention to all keys"};
  return std::nullopt;
}

/// Reports a missing kernel by that field, not by the precision.
void require_asked_for(const Plan& plan, const Task& task, const Backend& backend) {
  const std::optional<UnsupportedField> asked = unsupported_field(task.op, plan.model);
  if (!asked || backend.supports(task.op, {task.dtype, {}, {}}).possible) return;
  throw InfeasibleError(Problem{plan.file, asked->field, asked->value,
                                "the " + std::string(backend.name()) + " backend has no kernels " + asked->lacks,
                                "use --backend cpu, or " + asked->instead});
}

}  // namespace

void require_supported(const Plan& plan, const TaskGraph& graph, const Backend& backend) {
  if (const auto problem = unkept_rows(plan)) throw InfeasibleError(*problem);
  for (const auto& t : graph.templates)
    for (const auto& task : t.tasks) require_asked_for(plan, task, backend);
  for (const auto& t : graph.templates)
    for (const auto& task : t.tasks) require_supported(plan, task, backend);
}

}  // namespace tandem::exec
