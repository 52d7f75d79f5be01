#pragma once
// What people should know about a plan that can be done: beside its fields that change nothing (Plan::ineffective).

#include <string>
#include <string_view>
#include <vector>

#include "models/plan/plan.hpp"

namespace tandem {

/// Sentences for the notes of a prediction: what of the run is not in its step, what costs time for nothing, what the stack does
/// otherwise, then `plan.ineffective` and the stack's notes.
std::vector<std::string> plan_advice(const Plan& plan);

/// What would lower the memory of a plan that does not fit: "recompute more (training.recompute) or split it further".
std::string memory_advice(const Plan& plan);

/// Whether launches that take `share` of a step limit it, so that no faster device would help.
inline bool host_limits(double share) { return share >= 0.5; }
/// What would have the host launch less; `cuda`: the devices have CUDA graphs.
std::string fewer_launches(const Plan& plan, bool cuda);
/// That with the share, as a note; empty where launches do not limit the step.
std::string host_note(const Plan& plan, double share, bool cuda);

/// Whether a calibration's fact, as "FILE: FIELD" or FIELD, is of an attention kernel, of collectives or of 4-bit products that the plan
/// does not have. FlashAttention 2 stands in for kernels without facts of their own.
bool is_unused_fact(std::string_view fact, const Plan& plan);

}  // namespace tandem
