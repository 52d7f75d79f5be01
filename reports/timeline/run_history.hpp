#pragma once
// All steps of a training, beside the one step whose timeline is kept.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tandem {

struct TrainedStep {
  std::int64_t step = 0;                              ///< 0-based
  double loss = 0, grad_norm = 0, learning_rate = 0;  ///< loss and grad_norm may be NaN or infinite
  double step_time_s = 0;
  std::int64_t global_batch_size = 0;                 ///< sequences
  std::optional<double> mtp_loss = std::nullopt;      ///< of modules for multi-token prediction; nullopt: none
};

struct EvaluatedStep {
  std::int64_t step = 0;                              ///< the last step trained before the evaluation
  double loss = 0;
};

struct RunHistory {
  std::vector<TrainedStep> steps;                     ///< ascending
  std::vector<EvaluatedStep> evaluations;             ///< ascending
  std::int64_t kept_step = 0;                         ///< the step whose timeline the file holds
  std::int64_t peak_memory_bytes = 0;                 ///< allocated by the backend on the rank with most
};

/// kept_step, peak_memory_bytes, step_times{} (of step_times.hpp), steps[], evaluations[] with the names above. NaN and infinity
/// become null.
std::string to_json(const RunHistory& history);

}  // namespace tandem
