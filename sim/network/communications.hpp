#pragma once
// Lists every distinct communication of a graph once.

#include <compare>
#include <cstdint>
#include <vector>

#include "models/graph/task_graph.hpp"

namespace tandem::sim {

/// With whom a rank communicates: a kind of group on a stream, or a neighbour `offset` stages on.
struct Port {
  enum class Kind : std::uint8_t { collective, send, core };
  Kind kind = Kind::collective;
  Group group = Group::tensor;
  Stream stream = Stream::tensor;  ///< stream of the collective
  int offset = 0;                  ///< sender to receiver, in stages
  auto operator<=>(const Port&) const = default;
};

/// One size and kind of communication through a port.
struct Message {
  std::uint32_t port = 0;
  Op op;  ///< Collective, or Send for both ends
  std::int32_t tmpl = -1;  ///< template that exchanges replayed rows, whose number depends on it; else -1
};

/// Slots number the tasks of all templates consecutively: slot = first_slot[template] + task.
struct Communications {
  struct Entry {
    std::int32_t message = -1;  ///< -1: computation
    bool receiver = false;
  };
  std::vector<Port> ports;
  std::vector<Message> messages;
  std::vector<std::uint32_t> first_slot;              ///< by template, and the total
  std::vector<Entry> entries;                         ///< by slot
  std::vector<std::vector<std::uint32_t>> templates;  ///< by stage: ascending templates that occur
  std::uint32_t core_port = 0;                        ///< port of computations on shared processors
};

/// `replayed`: exchanges of rows in different templates are different messages.
Communications list_communications(const TaskGraph& graph, bool replayed = false);

}  // namespace tandem::sim
