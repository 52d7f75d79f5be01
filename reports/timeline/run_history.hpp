#pragma once
// What a training did step by step, beside the one step whose timeline is kept.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

struct TrainedStep {
  std::int64_t step = 0;                              ///< 0-based
  double loss = 0, grad_norm = 0, learning_rate = 0;  ///< the first two may be no numbers
  double step_time_s = 0;
  std::int64_t global_batch_size = 0;                 ///< sequences
};

struct EvaluatedStep {
  std::int64_t step = 0;                              ///< the last one trained before it
  double loss = 0;
};

struct RunHistory {
  std::vector<TrainedStep> steps;                     ///< ascending
  std::vector<EvaluatedStep> evaluations;             ///< ascending
  std::int64_t kept_step = 0;                         ///< whose timeline the file holds
  std::int64_t peak_memory_bytes = 0;                 ///< handed out by the backend, most of all ranks
};

/// kept_step, peak_memory_bytes, step_times{} (of step_times.hpp), steps[], evaluations[] with the names above; what is no number is
/// null.
std::string to_json(const RunHistory& history);

}  // namespace tandem
