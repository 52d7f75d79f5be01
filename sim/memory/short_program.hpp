#pragma once
// A stage's program with repeated micro-batches in its middle left out, for code that reads its tensors.

#include <cstddef>
#include <optional>
#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem::sim {

/// Repeating instances from `begin` to `end`: each does the same as the instance `period` before it, for later micro-batches. Its
/// tensors have the same sizes, but may lie elsewhere in the arena.
struct Repetition {
  std::size_t begin = 0, end = 0, period = 0;
};

/// Finds the instances that the lowering copied in the middle of a program (Program::copied); nothing if they are few.
std::optional<Repetition> find_repetition(const Program& program);

/// The program, whole or shortened. A reader repeats the last period before the cut in place of the instances left out.
class ShortProgram {
 public:
  /// Keeps the whole program if nothing repeats long enough.
  explicit ShortProgram(const Program& program);

  bool whole() const { return left_out_ == 0; }
  /// The instance where others are left out, and the one a period before. Alike tensors live at both, allocated in the same order.
  std::size_t cut() const { return cut_; }
  std::size_t period_before() const { return cut_ - period_; }
  std::size_t periods_left_out() const { return whole() ? 0 : left_out_ / period_; }

  std::size_t size() const { return program_->instances.size() - left_out_; }
  const Instance& instance(std::size_t i) const { return program_->instances[i < cut_ ? i : i + left_out_]; }
  std::int64_t binding(std::size_t i, std::size_t slot) const { return program_->bindings[instance(i).binding + slot]; }
  /// Allocations in the program's order; they count the instances of the short program.
  const std::vector<Allocation>& allocations() const { return whole() ? program_->memory.allocations : allocations_; }
  const PassingTensors& passing() const { return program_->memory.passing; }

  /// An allocation that is alive across the cut, and its offset after the cut.
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
