// Exact books of a stage's step, counted on the graph.

#include <map>

#include "models/graph/task_graph.hpp"

namespace tandem {
namespace {

/// Adds `times` copies of a template's tasks.
void add(Books& books, std::map<std::pair<CollectiveKind, Group>, Books::Line>& lines, const Template& t,
         std::int64_t times) {
  for (const Task& task : t.tasks) {
    books.matrix += matrix_flops(task.op) * times;
    if (const auto* c = std::get_if<Collective>(&task.op)) {
      Books::Line& line = lines.try_emplace({c->kind, c->group}, Books::Line{c->kind, c->group, 0, Bytes(0)}).first->second;
      line.calls += times;
      line.payload += payload(task.op) * times;
    }
    if (std::holds_alternative<Send>(task.op)) {
      books.sends += times;
      books.sent += payload(task.op) * times;
    }
  }
}

}  // namespace

Books count(const TaskGraph& graph, StageId stage) {
  std::vector<std::int64_t> times(graph.templates.size(), 0);
  for (const Instance& i : graph.program(stage).instances) ++times[i.tmpl.index()];
  Books books;
  std::map<std::pair<CollectiveKind, Group>, Books::Line> lines;
  for (std::size_t t = 0; t < times.size(); ++t)
    if (times[t] > 0) add(books, lines, graph.templates[t], times[t]);
  for (const auto& [key, line] : lines) books.collectives.push_back(line);
  return books;
}

}  // namespace tandem
