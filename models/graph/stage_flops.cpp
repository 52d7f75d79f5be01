#include "models/graph/stage_flops.hpp"

namespace tandem {

FlopsOfStages::FlopsOfStages(const TaskGraph& graph) : graph_(graph), rows_(expert_rows(graph)), copies_(graph) {
  for (auto& known : known_) known.resize(graph.templates.size());
}

const StageFlops& FlopsOfStages::of(const Program& program, const Instance& i) {
  std::optional<StageFlops>& known = known_[static_cast<std::size_t>(i.phase)][i.tmpl.index()];
  if (known) return *known;
  known.emplace();
  for (const Task& task : graph_.of(i).tasks) {
    known->hardware += static_cast<double>(matrix_flops(task.op).count());
    known->model += static_cast<double>(model_flops(task, i.phase, rows_).count()) * copies_.share(program, i, task);
  }
  return *known;
}

StageFlops FlopsOfStages::of(const Program& program) {
  StageFlops sum;
  for (const Instance& i : program.instances) {
    const StageFlops& flops = of(program, i);
    sum.hardware += flops.hardware;
    sum.model += flops.model;
  }
  return sum;
}

double model_flops_of_step(const TaskGraph& graph, std::int64_t ranks) {
  FlopsOfStages flops(graph);
  double of_one_rank_each = 0;
  for (const Program& p : graph.programs) of_one_rank_each += flops.of(p).model;
  return of_one_rank_each * static_cast<double>(ranks) / static_cast<double>(graph.programs.size());
}

}  // namespace tandem
