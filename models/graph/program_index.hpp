#pragma once
// A program with its tasks numbered in issue order and every dependency listed: for checks and tests, not for large
// simulations.

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem {

class ProgramIndex {
 public:
  ProgramIndex(const TaskGraph& graph, const Program& program);

  std::size_t size() const { return where_.size(); }
  std::uint32_t instance(std::size_t t) const { return where_[t].instance; }
  std::uint16_t task_number(std::size_t t) const { return where_[t].task; }
  const Task& task(std::size_t t) const;
  const Instance& instance_of(std::size_t t) const { return program_.instances[where_[t].instance]; }
  const std::vector<std::uint32_t>& deps(std::size_t t) const { return deps_[t]; }
  std::uint32_t at(std::uint32_t instance, std::uint16_t task) const { return base_[instance] + task; }
  const Program& program() const { return program_; }
  /// "stage 1: block_forward/qkv layer 3 micro-batch 2 (forward)".
  std::string describe(std::size_t t) const;

 private:
  struct Where {
    std::uint32_t instance;
    std::uint16_t task;
  };
  const TaskGraph& graph_;
  const Program& program_;
  std::vector<std::uint32_t> base_;
  std::vector<Where> where_;
  std::vector<std::vector<std::uint32_t>> deps_;
};

}  // namespace tandem
