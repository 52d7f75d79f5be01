#include "models/graph/program_index.hpp"

#include "models/base/error.hpp"

namespace tandem {

ProgramIndex::ProgramIndex(const TaskGraph& graph, const Program& program) : graph_(graph), program_(program) {
  for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
    base_.push_back(static_cast<std::uint32_t>(where_.size()));
    const Template& t = graph.of(program.instances[i]);
    for (std::uint16_t k = 0; k < t.tasks.size(); ++k) {
      where_.push_back({i, k});
      deps_.emplace_back();
      for (const std::uint16_t d : t.tasks[k].deps) {
        require(d < k, "a task depends on itself or on a later task of its template");
        deps_.back().push_back(base_.back() + d);
      }
    }
  }
  for (const Edge& e : program.edges) {
    require(e.to_instance < base_.size() && e.from_instance < e.to_instance, "an edge leaves the program or points back");
    deps_[at(e.to_instance, e.to_task)].push_back(at(e.from_instance, e.from_task));
  }
}

const Task& ProgramIndex::task(std::size_t t) const { return graph_.of(instance_of(t)).tasks[where_[t].task]; }

std::string ProgramIndex::describe(std::size_t t) const {
  const Instance& i = instance_of(t);
  std::string s = "stage " + std::to_string(program_.stage.value()) + ": " + graph_.of(i).name + "/" + task(t).name;
  if (i.layer >= 0) s += " layer " + std::to_string(i.layer);
  if (i.micro_batch >= 0) s += " micro-batch " + std::to_string(i.micro_batch);
  return s + " (" + std::string(name(i.phase)) + ")";
}

}  // namespace tandem
