#pragma once
// What `train` prints at its end.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exec/run/run.hpp"

namespace tandem::program {

/// Totals are over all ranks and steps of the run, as the ranks' own counters saw them, not as planned.
struct TrainReport {
  struct Collective {
    std::string kind, group;
    std::int64_t calls = 0, payload_bytes = 0;
  };
  std::vector<exec::StepResult> steps;
  std::vector<exec::EvaluationResult> evaluations;
  double median_step_time_s = 0;                  ///< of the steps with the last one's batch, without the run's first when there are more
  double tokens_per_s = 0;                        ///< tokens of that batch over the median step time
  std::int64_t flops = 0;                         ///< of matrix products
  double model_flops_per_s = 0;                   ///< of all ranks, without recomputation, in the median step
  std::optional<double> mfu;                      ///< of the devices' published peak; none where it is not known
  std::map<std::string, std::int64_t> bytes_sent; ///< payload by kind: all_reduce ..., send
  std::vector<Collective> collectives;
  std::int64_t arena_bytes = 0;                   ///< heaviest rank
  std::int64_t host_arena_bytes = 0;              ///< of it offloaded, in the host's memory; heaviest rank
  std::int64_t workspace_bytes = 0;               ///< of libraries on its device, beside the arena; heaviest rank
  std::int64_t device_bytes = 0;                  ///< of a device in use as its driver says, by everybody; 0 where ranks have none
  std::int64_t peak_memory_bytes = 0;             ///< heaviest rank: all that its backend had handed out at once
  std::optional<exec::RankFailure> failure;       ///< what ended the run; its rank is none where all ranks did
  double bigram_entropy_nats = 0;                 ///< of the data: what a loss must fall below to mean more than a table
};

/// What a run's rates are measured by.
struct StepScale {
  std::int64_t tokens = 0;                   ///< of a sequence
  double model_flops = 0;                    ///< of the last step's batch, all ranks
  std::optional<double> peak_flops_per_s{};  ///< of all devices, in the type of products
};

TrainReport summarise(const StepScale& scale, const exec::RunResult& result);
std::string to_text(const TrainReport& report);

/// A loss or a norm with so many digits; what has left the numbers or grown out of all bounds stays readable.
std::string loss_text(double value, int digits);

/// schema_version, steps[], evaluations[]{step loss}, tokens_per_s, peak_memory_bytes, flops, model_flops_per_s, mfu,
/// bytes_sent{kind}, collectives[], arena_bytes, host_arena_bytes, workspace_bytes, device_bytes, data_bigram_entropy_nats, failure{rank step during reason} (null
/// where none failed).
std::string to_json(const TrainReport& report);

/// The run's timeline with every lane's allocated memory filled in.
Timeline timeline_of(const exec::RunResult& result);

}  // namespace tandem::program
