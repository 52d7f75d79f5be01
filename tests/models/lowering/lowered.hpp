#pragma once
// What tests of a lowered plan ask of it: its graph, its parameters, its operations, and why it is refused.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "models/planfile/plan_trained.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::tests {

/// A plan whose cluster has one device for each of its ranks.
inline nlohmann::json with_devices(nlohmann::json plan) {
  std::int64_t devices = 1;
  for (const char* axis : {"tensor", "pipeline", "data", "context"}) devices *= plan["parallel"].value(axis, std::int64_t{1});
  plan["cluster"]["devices"] = devices;
  return plan;
}

inline Plan parsed(const nlohmann::json& plan) { return parse_plan(plan.dump(), "test.json"); }

inline TaskGraph graph_of(const nlohmann::json& plan) {
  TaskGraph graph = lower(parsed(plan));
  graph.check();
  return graph;
}

/// Parameters as they are counted from the plan's fields.
inline std::int64_t parameters(const nlohmann::json& plan) {
  const Plan p = parsed(plan);
  return count_parameters(p.model, p.padded_vocab_size()).total;
}

/// Operations of one type in the templates of this name.
template <class T>
std::vector<T> operations(const TaskGraph& graph, const std::string& name) {
  std::vector<T> found;
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks)
      if (const T* op = std::get_if<T>(&task.op); op && t.name == name) found.push_back(*op);
  return found;
}

/// Bytes of a stage's allocations of this name.
inline std::int64_t bytes_named(const Program& p, const std::string& name) {
  std::int64_t sum = 0;
  for (const Allocation& a : p.memory.allocations)
    if (a.name == name) sum += a.bytes.count();
  return sum;
}

/// Bytes of the first stage's arena.
inline Bytes arena(const nlohmann::json& plan) { return graph_of(plan).programs.front().memory.arena_bytes; }

/// The first problem for which a plan can be neither lowered nor trained; empty if there is none.
inline std::string refusal(const nlohmann::json& plan) {
  try {
    const Plan p = parsed(plan);
    require_lowerable(p);
    require_trainable(p);
    return "";
  } catch (const InfeasibleError& e) {
    return e.problems().front().message();
  }
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tandem::tests
