#pragma once
// Rates of a training's steps, as its progress lines and metrics show them.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "exec/run/run_result.hpp"

namespace tandem::program {

/// What one step says about speed. Per device means per rank of the plan.
struct StepRates {
  double samples_per_s = 0, tokens_per_s = 0;
  double tokens_per_s_per_device = 0;
  double model_flops_per_s_per_device = 0;  ///< without recomputed FLOPs
  std::optional<double> mfu{};              ///< of the devices' published peak; nullopt if that is not known
  double elapsed_s = 0;                     ///< since the run's first step began, with evaluations and checkpoints
  double remaining_s = 0;                   ///< the remaining steps at the pace of those behind
  std::int64_t skipped_steps = 0;           ///< updates skipped so far, also before the run was resumed
};

/// The figures by which rates are computed.
struct RateScale {
  std::int64_t sequence_tokens = 0, devices = 1;
  std::int64_t steps = 0;                    ///< that the run shall make
  std::int64_t skipped_before = 0;           ///< updates skipped before the run was resumed
  std::optional<double> peak_flops_per_s{};  ///< of all devices, in the type of products
  std::function<double(std::int64_t global_batch_size)> model_flops{};  ///< of a step with this batch, over all ranks
};

class RateWatch {
 public:
  using Clock = std::chrono::steady_clock;
  explicit RateWatch(RateScale scale) : scale_(std::move(scale)) {}

  /// The rates of the run's next step, which ended at `now`.
  StepRates add(const exec::StepResult& step, Clock::time_point now = Clock::now());

 private:
  double model_flops(std::int64_t batch);
  double remaining(const exec::StepResult& step, Clock::time_point now) const;

  RateScale scale_;
  std::map<std::int64_t, double> flops_;  ///< by batch size
  std::int64_t done_ = 0, skipped_ = 0;
  Clock::time_point first_began_, first_ended_;
};

/// The end of a progress line: "132 tokens/s/device  0.003 TFLOP/s/device  left 0:01:05".
std::string rates_text(const StepRates& rates);

}  // namespace tandem::program
