#pragma once
// The operations and annotations of the host within which each piece of device work was launched.

#include <cstdint>
#include <vector>

#include "reports/trace/device_trace.hpp"

namespace tandem {

/// A tree of stacks: equal stacks are stored once.
class LaunchStacks {
 public:
  static constexpr std::int32_t kNone = -1;

  explicit LaunchStacks(const DeviceTrace& trace);

  /// The innermost range around an event's launch; kNone: no launch or no range is known.
  std::int32_t of(std::size_t event) const { return event_stacks_[event]; }
  /// Whether a captured graph was replayed: the ranges around its launch are not those of the event's own operation.
  bool replayed(std::size_t event) const { return replayed_[event]; }
  std::uint32_t name(std::int32_t stack) const { return nodes_[static_cast<std::size_t>(stack)].name; }
  /// The next range outwards; kNone: there is none.
  std::int32_t outer(std::int32_t stack) const { return nodes_[static_cast<std::size_t>(stack)].outer; }

 private:
  struct Node {
    std::int32_t outer;
    std::uint32_t name;
  };
  std::vector<Node> nodes_;
  std::vector<std::int32_t> event_stacks_;
  std::vector<bool> replayed_;
};

}  // namespace tandem
