#pragma once
// What of a rank's weights and optimizer states lies in its host's memory (parallel.offload), and where.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem {

/// A unit's part of a buffer, of which tasks have copies on the device.
struct HostTensor {
  std::string buffer;       ///< "weights", or a state's name
  std::int32_t unit;        ///< of Program::units
  DType dtype;
  std::int64_t elements;
  std::int64_t offset = 0;  ///< bytes into the host's arena
};

/// Only HostCopies touch it, and all of them are on one stream. So its order is all the order that these bytes need.
class HostArena {
 public:
  HostArena() = default;
  /// Of all copies of a program. Throws ContractError where they disagree, or one is not on the host's stream.
  HostArena(const TaskGraph& graph, const Program& program);

  bool empty() const { return tensors_.empty(); }
  /// Weights first: a graph that only evaluates has these alone, at the same places.
  const std::vector<HostTensor>& tensors() const { return tensors_; }
  Bytes bytes() const { return Bytes(end_); }
  /// nullptr: it is not in the host's memory.
  const HostTensor* find(std::string_view buffer, std::int32_t unit) const;
  /// What a HostCopy of an instance comes from or goes to.
  const HostTensor& of(const Task& copy, const Instance& instance) const;
  /// Whether a unit's states are there.
  bool has_states(std::int32_t unit) const;

 private:
  std::vector<HostTensor> tensors_;
  std::int64_t end_ = 0;
};

}  // namespace tandem
