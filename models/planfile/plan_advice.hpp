#pragma once
// Notes about a legal plan. Fields that change nothing are in Plan::ineffective.

#include <string>
#include <string_view>
#include <vector>

#include "models/plan/plan.hpp"

namespace tandem {

/// Sentences for the notes of a prediction: what the step leaves out of the run, settings that cost time without need, what
/// frameworks do otherwise; then `plan.ineffective` and the stack's notes.
std::vector<std::string> plan_advice(const Plan& plan);

/// Advice to lower the memory of a plan that does not fit: "recompute more (training.recompute) or split it further".
std::string memory_advice(const Plan& plan);

/// Whether launches that take `share` of a step limit it, so that no faster device would help.
inline bool host_limits(double share) { return share >= 0.5; }
/// Changes of the plan with which the host launches fewer tasks in the same time. `cuda`: the devices have CUDA graphs.
std::string fewer_launches(const Plan& plan, bool cuda);
/// A note that the host limits the step, with the share and fewer_launches(); empty if it does not.
std::string host_note(const Plan& plan, double share, bool cuda);

/// Whether a calibration's fact, as "FILE: FIELD" or FIELD, is of an attention kernel, of collectives or of 4-bit products that the plan
/// does not have. FlashAttention 2 stands in for kernels without facts of their own.
bool is_unused_fact(std::string_view fact, const Plan& plan);

}  // namespace tandem
