#include "exec/run/step_order.hpp"

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

bool same_thread(Stream a, Stream b) {
  return inline_stream(a, Performing::where_issued) && inline_stream(b, Performing::where_issued);
}

}  // namespace

StepOrder::StepOrder(const TaskGraph& graph, const Program& program) : graph_(graph), program_(program) {
  std::uint32_t total = 0;
  for (const auto& instance : program.instances) {
    first_.push_back(total);
    total += static_cast<std::uint32_t>(graph.of(instance).tasks.size());
  }
  awaited_.resize(total);
  std::size_t edge = 0;
  for (std::uint32_t i = 0; i < program.instances.size(); ++i) add_instance(i, edge);
  wait_begin_.push_back(static_cast<std::uint32_t>(waits_.size()));
  require(edge == program.edges.size(), "edges are not in ascending order of the task they lead to");
}

const Task& StepOrder::task(TaskRef t) const { return graph_.of(program_.instances[t.instance]).tasks[t.task]; }

void StepOrder::add_instance(std::uint32_t instance, std::size_t& edge) {
  const auto& tasks = graph_.of(program_.instances[instance]).tasks;
  for (std::uint16_t t = 0; t < tasks.size(); ++t) {
    const bool leaves = is_communication(tasks[t].op) || std::holds_alternative<HostCopy>(tasks[t].op);
    require(inline_stream(tasks[t].stream, Performing::where_issued) || leaves,
            "a computation on a stream that only communicates");
    uses_[static_cast<std::size_t>(tasks[t].stream)] = true;
    refs_.push_back({instance, t});
    wait_begin_.push_back(static_cast<std::uint32_t>(waits_.size()));
    const auto to = number({instance, t});
    for (const auto dep : tasks[t].deps) add_wait(number({instance, dep}), to);
    for (; edge < program_.edges.size(); ++edge) {
      const auto& e = program_.edges[edge];
      if (e.to_instance != instance || e.to_task != t) break;
      add_wait(number({e.from_instance, e.from_task}), to);
    }
    end_waits();
  }
}

void StepOrder::add_wait(std::uint32_t from, std::uint32_t to) {
  require(from < to, "a task depends on one that is issued after it");
  const Stream a = task(ref(from)).stream, b = task(ref(to)).stream;
  if (a == b) return;
  awaited_[from] |= bit(Performing::on_queues);
  if (same_thread(a, b)) return thread_waits_.push_back(from);
  waits_.push_back(from);
  awaited_[from] |= bit(Performing::where_issued);
}

void StepOrder::end_waits() {
  thread_end_.push_back(static_cast<std::uint32_t>(waits_.size()));
  waits_.insert(waits_.end(), thread_waits_.begin(), thread_waits_.end());
  thread_waits_.clear();
}

std::span<const std::uint32_t> StepOrder::waits(std::uint32_t number, Performing how) const {
  const std::uint32_t end = how == Performing::where_issued ? thread_end_[number] : wait_begin_[number + 1];
  return std::span(waits_).subspan(wait_begin_[number], end - wait_begin_[number]);
}

}  // namespace tandem::exec
