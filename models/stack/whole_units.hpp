#pragma once
// Whether a pipeline's stages have what data ranks share whole between micro-batches.

namespace tandem {

struct Plan;

/// Under ZeRO 2 and 3 a stage of a pipeline gathers its weights once a step and reduces its gradients once, and holds both whole
/// between its micro-batches: what the file of the plan's stack (models/stacks) says, no where it says nothing. The plan is complete.
/// Throws ConfigError on a list that is not of the form that models/stacks/README.md describes.
bool whole_between_micro_batches(const Plan& plan);

}  // namespace tandem
