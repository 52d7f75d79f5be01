#pragma once
// A stage's program in the engine's form: each lane's tasks in order, with only those dependencies that the order
// does not already imply. Tasks of a program are numbered in issue order ("position").

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "sim/network/communications.hpp"
#include "sim/network/quotient.hpp"

namespace tandem::sim {

inline constexpr std::size_t kLanes = kStreams;

/// The lane of each stream. On an accelerator every stream is a lane. On a synchronous device the host thread runs the compute and
/// tensor streams itself, so both are lane 0.
LaneOfStream lanes_of(bool synchronous);

/// A dependency on a task of the same instance on another lane.
struct LaneDep {
  std::uint32_t slot;
  std::uint16_t task;
  std::uint8_t lane;
};

/// A task of a template on a lane.
struct LaneTask {
  std::span<const LaneDep> deps;  ///< a part of LaneTemplate::deps
  std::uint32_t slot = 0;         ///< see Communications
  std::uint32_t issued = 1;       ///< host operations of its instance up to this task, its own included
  std::uint16_t task = 0;         ///< index in the template
  std::uint32_t host = 1;         ///< host operations that issue it
  bool launch_only = false;       ///< the host thread only launches it here; it runs on another lane
};

/// A template's tasks by lane. They point into `deps`, so it can be moved but not copied.
struct LaneTemplate {
  LaneTemplate() = default;
  LaneTemplate(LaneTemplate&&) = default;
  LaneTemplate& operator=(LaneTemplate&&) = default;

  std::array<std::vector<LaneTask>, kLanes> lanes;
  std::vector<LaneDep> deps;
  std::uint32_t first_slot = 0;
};

/// The task at position `to` waits for a task of another instance.
struct LaneEdge {
  std::uint32_t to;
  std::uint32_t from;           ///< position
  std::uint32_t from_instance;
  std::uint32_t from_slot;
  std::uint16_t from_task;
  std::uint8_t from_lane = 0;
  bool host_waits = false;  ///< the host issues `to` only when `from` has ended
};

struct LaneOrder {
  std::vector<std::uint32_t> instances;  ///< those with tasks on the lane, ascending
  std::vector<LaneEdge> edges;           ///< ascending `to`, then an end mark
};

/// Where an instance begins. A lane reads these fields together.
struct InstanceStart {
  std::uint64_t host = 0;  ///< host operations that issue all earlier instances
  std::uint32_t base = 0;  ///< position of its first task
  std::uint32_t tmpl = 0;
};

struct LaneProgram {
  std::vector<InstanceStart> starts;  ///< by instance, then one past the end
  std::array<LaneOrder, kLanes> lanes;
  bool host_waits = false;  ///< some edge makes the host wait

  std::size_t instances() const { return starts.size() - 1; }
  std::size_t tasks() const { return starts.back().base; }
};

std::vector<LaneTemplate> make_lane_templates(const TaskGraph& graph, const Communications& communications, bool synchronous);

/// Returns one program a stage. Throws ContractError on an edge that names no task.
std::vector<LaneProgram> make_lane_programs(const TaskGraph& graph, const Communications& communications, bool synchronous);

/// Instance and task at a position.
struct Place {
  std::uint32_t instance;
  std::uint16_t task;
};
Place place_of(const LaneProgram& lane_program, std::uint32_t position);

}  // namespace tandem::sim
