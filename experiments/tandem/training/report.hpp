#pragma once
// The report of `train`.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exec/run/run.hpp"
#include "models/base/json.hpp"

namespace tandem::program {

/// Totals over all ranks and steps of the run, as the ranks counted them, not as planned.
struct TrainReport {
  struct Collective {
    std::string kind, group;
    std::int64_t calls = 0, payload_bytes = 0;
  };
  std::vector<exec::StepResult> steps;
  std::vector<exec::EvaluationResult> evaluations;
  /// Median over steps of the last batch size, without the first step if possible. Like the rates, nullopt without steps.
  std::optional<double> median_step_time_s;
  std::optional<double> tokens_per_s;             ///< tokens of that batch per median step time
  std::int64_t flops = 0;                         ///< in matrix products
  std::optional<double> model_flops_per_s;        ///< all ranks, without recomputation, in the median step
  std::optional<double> mfu;                      ///< of the devices' published peak; nullopt if that is not known
  std::map<std::string, std::int64_t> bytes_sent; ///< payload by kind: all_reduce ..., send
  std::vector<Collective> collectives;
  std::int64_t arena_bytes = 0;                   ///< largest of any rank
  std::int64_t host_arena_bytes = 0;              ///< largest offloaded part of a rank, in host memory
  std::int64_t workspace_bytes = 0;               ///< largest of any rank: device memory of libraries, outside the arena
  std::int64_t device_bytes = 0;                  ///< device memory in use by all processes, as the driver reports it; 0 on the CPU
  std::int64_t peak_memory_bytes = 0;             ///< largest of any rank: most bytes that its backend had allocated at once
  std::optional<std::string> unsaved;             ///< why the last checkpoint was not written
  std::optional<std::string> metrics_lost;        ///< why the file of metrics lacks its last lines
  std::optional<double> epochs;                   ///< how often the run has read the text that it read most often, since the length of its sequences last changed
  bool interrupted = false;                       ///< by the user or a batch system, before the last step
  std::optional<exec::RankFailure> failure;       ///< what ended the run; its rank is invalid if all ranks failed
  std::optional<double> bigram_entropy_nats;      ///< of a text of bytes; only a lower loss means more than a bigram table
};

/// The figures by which a run's rates are computed.
struct StepScale {
  std::int64_t tokens = 0;                   ///< per sequence
  double model_flops = 0;                    ///< of the last step's batch, over all ranks
  std::optional<double> peak_flops_per_s{};  ///< of all devices, in the type of products
};

TrainReport summarise(const StepScale& scale, const exec::RunResult& result);
std::string to_text(const TrainReport& report);

/// A loss or norm with this many digits. Non-finite and huge values stay readable.
std::string loss_text(double value, int digits);

/// The number, or null if it is not finite, which JSON cannot say.
nlohmann::json finite_number(double value);

/// {step loss grad_norm learning_rate step_time_s global_batch_size loss_scale skipped} of one step; mtp_loss if the model has modules.
nlohmann::json step_json(const exec::StepResult& step);

/// JSON with schema_version, steps[], evaluations[]{step loss}, step_time_s, tokens_per_s, peak_memory_bytes, flops, model_flops_per_s, mfu,
/// bytes_sent{kind}, collectives[], arena_bytes, host_arena_bytes, workspace_bytes, device_bytes, data_bigram_entropy_nats,
/// epochs, interrupted, unsaved (null if the last checkpoint was written), metrics_lost (null if none was), failure{rank step during reason} (null if none failed).
std::string to_json(const TrainReport& report);

/// The run's timeline with each lane's allocated memory filled in.
Timeline timeline_of(const exec::RunResult& result);

}  // namespace tandem::program
