#pragma once
// A stage's program without micro-batches in its middle that do what those before them did, for readers of its tensors.

#include <cstddef>
#include <optional>
#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem::sim {

/// Instances from `begin` to `end` that repeat: each is what the one `period` before it was, for the next micro-batches. It touches their
/// tensors alike, but these may lie in other places of the arena.
struct Repetition {
  std::size_t begin = 0, end = 0, period = 0;
};

/// Those that the lowering copied in the middle of a program (Program::copied); nothing where it copied few.
std::optional<Repetition> find_repetition(const Program& program);

/// The program, or what is left of it: a reader goes through the last period before the cut again and again in place of what was left out.
class ShortProgram {
 public:
  /// All of it where nothing repeats long enough.
  explicit ShortProgram(const Program& program);

  bool whole() const { return left_out_ == 0; }
  /// Where instances are left out, and a period before: the same is alive at both, and came in the same order.
  std::size_t cut() const { return cut_; }
  std::size_t period_before() const { return cut_ - period_; }
  std::size_t periods_left_out() const { return whole() ? 0 : left_out_ / period_; }

  std::size_t size() const { return program_->instances.size() - left_out_; }
  const Instance& instance(std::size_t i) const { return program_->instances[i < cut_ ? i : i + left_out_]; }
  std::int64_t binding(std::size_t i, std::size_t slot) const { return program_->bindings[instance(i).binding + slot]; }
  /// In the order of the program's, with its own numbers of instances.
  const std::vector<Allocation>& allocations() const { return whole() ? program_->memory.allocations : allocations_; }
  const PassingTensors& passing() const { return program_->memory.passing; }

  /// An allocation that is there on both sides of the cut, and where it lies behind it.
  struct Moved {
    std::size_t allocation = 0;
    std::int64_t offset = 0;
  };
  const std::vector<Moved>& moved() const { return moved_; }

 private:
  void shorten(const Repetition& r);
  bool leave_out(std::size_t instances, std::size_t begin);

  const Program* program_;
  std::size_t cut_ = 0, period_ = 0, left_out_ = 0;
  std::vector<Allocation> allocations_;
  std::vector<Moved> moved_;
};

}  // namespace tandem::sim
