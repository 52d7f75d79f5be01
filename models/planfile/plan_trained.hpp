#pragma once
// What the project's runtime does of a plan that can be lowered: refusals, what it does without, and what to tell about it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/plan/plan.hpp"

namespace tandem {

class RowsError;

/// Throws InfeasibleError for types that the runtime lacks or cannot mix, layers without kernels, and updates that may be undone.
void require_trainable(const Plan& plan);
/// Throws ConfigError where the vocabulary has no room for data of `tokens` different tokens.
void require_vocabulary(const Plan& plan, std::int64_t tokens);

/// Takes out of a plan what is simulated only and changes no result of training. Returns a sentence for each field of that kind that
/// the plan gives, and for a cluster that is not of processors. `replays`: the backend is a device that can capture an iteration.
std::vector<std::string> settle_for_training(Plan& plan, bool replays = false);
/// Sets a loss that keeps the sums of each row, from which an evaluation tells every sequence's loss.
void settle_for_evaluation(Plan& plan);
/// With which a rank of the CPU backend computes: `cluster.threads_per_rank` where the plan's devices are processors, else 1.
std::int64_t computing_threads(const Plan& plan);
/// On a machine of `cores` processors: what to tell of a plan for more of them, which is trained all the same.
std::optional<std::string> crowding(const Plan& plan, std::int64_t cores);

/// "plan.json: model.moe.rows_bound = 2.0: ...": with what those rows need, if their room is known, and the bound that is enough for any.
std::string too_many_rows(const Plan& plan, const RowsError& error);

}  // namespace tandem
