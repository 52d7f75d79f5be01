#pragma once
// Which communicators a framework makes: it may have two for the same ranks, or one that no task of a step uses.

#include <cstdint>
#include <vector>

#include "models/plan/mesh.hpp"

namespace tandem {

struct Plan;

/// So many communicators of a group.
struct Communicators {
  Group group = Group::world;
  std::int64_t count = 1;
};

/// What the file of the plan's stack (models/stacks) says, nothing where it says nothing; those for sends and receives are not among
/// them. The plan is complete. Throws ConfigError on a list that is not of the form that models/stacks/README.md describes.
std::vector<Communicators> stack_communicators(const Plan& plan);

}  // namespace tandem
