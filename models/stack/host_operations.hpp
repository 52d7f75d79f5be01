#pragma once
// What a framework has its host do to issue a task. A task stands for one kernel, but before it is launched the host has run a module's
// Python, views and allocations, autograd's functions and hooks: a few operations of the framework in one stack, a dozen in another.
// A device says how long its host takes for one operation (`launch_s`, topology/calibration), a stack how many a task has.

#include <cstdint>
#include <map>
#include <string>

#include "models/ops/op.hpp"

namespace tandem {

struct Plan;

/// Host operations by kind of task (`kind_name`).
struct HostOperations {
  std::int64_t otherwise = 1;                         ///< of kinds that are not listed
  std::map<std::string, std::int64_t, std::less<>> tasks;
  std::map<std::string, std::int64_t, std::less<>> per_parameter;  ///< more, for each parameter tensor of the stage
  bool update_recorded = false;  ///< nothing behind the last pass begins before the host has all of it (a lazily traced graph)

  /// Of one task on a stage with so many parameter tensors.
  std::int64_t of(const Op& op, std::int64_t parameters) const;
};

/// What the file of the plan's stack (models/stacks) says, 1 for every task where it says nothing. The plan is complete. Throws
/// ConfigError on a table that is not of the form that models/stacks/README.md describes.
HostOperations stack_host_operations(const Plan& plan);

}  // namespace tandem
