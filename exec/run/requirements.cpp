#include "exec/run/requirements.hpp"

#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/stack/resolve.hpp"

namespace tandem::exec {

void require_steps_left(const SavedState* resume, std::int64_t steps, const EvaluationRhythm& evaluation) {
  if (resume == nullptr || resume->facts().steps < steps) return;
  if (resume->facts().steps == steps && due_after(steps, evaluation)) return;
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

/// Reports a missing indexer kernel by the plan field that asks for it, not by its precision.
void require_indexer(const Plan& plan, const Task& task, const Backend& backend) {
  if (!std::holds_alternative<IndexTopK>(task.op) || backend.supports(task.op, {task.dtype, {}, {}}).possible) return;
  throw InfeasibleError(Problem{plan.file, "model.indexer.heads", std::to_string(plan.model.indexer.heads),
                                "the " + std::string(backend.name()) + " backend has no kernels that choose keys",
                                "use --backend cpu, or set model.indexer.heads to 0 for attention to all keys"});
}

}  // namespace

void require_supported(const Plan& plan, const TaskGraph& graph, const Backend& backend) {
  if (const auto problem = unkept_rows(plan)) throw InfeasibleError(*problem);
  for (const auto& t : graph.templates)
    for (const auto& task : t.tasks) require_indexer(plan, task, backend);
  for (const auto& t : graph.templates)
    for (const auto& task : t.tasks) require_supported(plan, task, backend);
}

}  // namespace tandem::exec
