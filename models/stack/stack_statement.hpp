#pragma once
// What a stack's file says of plans with a list of conditions: [{"when": optional, "source": ..., "verified": ...}].

namespace tandem {

struct Plan;

/// Whether the file of the plan's stack (models/stacks) has a list `key` with an entry whose conditions hold. Throws ConfigError on a
/// list that is not of that form.
bool stack_states(const Plan& plan, const char* key);

}  // namespace tandem
