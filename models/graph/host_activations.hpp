#pragma once
// Where activations that wait in host memory lie there (parallel.offload.activations).

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem {

/// Whether the task copies an activation, and not weights or an optimizer state.
bool copies_activation(const Template& t, const Task& task);

/// Host memory of one stage's activations. A tensor has bytes there from the task that copies it out to the one that copies it back;
/// then the next tensor of its size takes them, as in a pool of pinned buffers. All copies run on one stream, so no edges are needed.
class HostActivations {
 public:
  HostActivations() = default;
  /// Throws ContractError if a tensor comes back that is not there, or stays there.
  HostActivations(const TaskGraph& graph, const Program& program);

  Bytes bytes() const { return Bytes(end_); }
  /// Where task `task` of instance `instance`, a copy of an activation, reads or writes: bytes into this memory.
  std::int64_t offset(std::uint32_t instance, std::uint16_t task) const;

 private:
  void copy(const Instance& instance, const Task& task, std::uint64_t number);

  struct Held {
    std::int64_t offset, bytes;
  };
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::string_view>;  ///< layer, micro-batch, chunk, tensor
  using Place = std::pair<std::uint64_t, std::int64_t>;  ///< instance and task, offset
  std::vector<Place> places_;                            ///< ascending
  std::map<Key, Held> held_;                             ///< while the program is read
  std::map<std::int64_t, std::vector<std::int64_t>> free_;  ///< offsets, by bytes
  std::int64_t end_ = 0;
};

}  // namespace tandem
