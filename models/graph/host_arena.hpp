#pragma once
// Which weights and optimizer states a rank keeps in host memory (parallel.offload), and at which offsets.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem {

/// A unit's shard of weights or of one optimizer state, kept in host memory. Tasks copy it to and from the device.
struct HostTensor {
  std::string buffer;       ///< "weights", or a state's name
  std::int32_t unit;        ///< index in Program::units
  DType dtype;
  std::int64_t elements;
  std::int64_t offset = 0;  ///< bytes from the start of the host arena
};

/// Layout of a rank's offloaded tensors. Only HostCopy tasks, all on one stream, access them, so no edges are needed.
class HostArena {
 public:
  HostArena() = default;
  /// Collects all HostCopy tasks of a program. Throws ContractError if copies of one tensor disagree or use another stream.
  HostArena(const TaskGraph& graph, const Program& program);

  bool empty() const { return tensors_.empty(); }
  /// Weights come first, so an evaluation graph, which has only these, uses the same offsets.
  const std::vector<HostTensor>& tensors() const { return tensors_; }
  Bytes bytes() const { return Bytes(end_); }
  /// nullptr: this tensor is not in host memory.
  const HostTensor* find(std::string_view buffer, std::int32_t unit) const;
  /// The host tensor that a HostCopy of `instance` reads or writes.
  const HostTensor& of(const Task& copy, const Instance& instance) const;
  /// Whether the optimizer states of a unit are in host memory.
  bool has_states(std::int32_t unit) const;

 private:
  std::vector<HostTensor> tensors_;
  std::int64_t end_ = 0;
};

}  // namespace tandem
