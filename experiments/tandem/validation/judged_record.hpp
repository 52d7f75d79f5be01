#pragma once
// A measured record beside what the simulator says of it.

#include <functional>
#include <string>
#include <vector>

#include "experiments/tandem/validation/measurement.hpp"
#include "models/base/threads.hpp"
#include "models/plan/plan_traits.hpp"

namespace tandem::program {

/// What grouping and baselines ask of a plan.
struct PlanDigest {
  std::string device;    ///< as the topology's preset names it
  std::string compute;   ///< type that matrix products compute in
  std::string summary;   ///< one line for people
  std::string whole;     ///< completed plan without names and notes: equal for repeats of one plan
  std::string task;      ///< the same without the layout (parallel, micro-batch, recomputation): equal where only that differs
  std::int64_t devices = 0;
  std::string calibration;  ///< of the device; empty when it has none
  PlanTraits traits;
};

/// A record after its simulation. `refused` says why there is no prediction; empty when there is one.
struct JudgedRecord {
  Measurement measured;
  PlanDigest plan;                          ///< empty when refused
  std::optional<double> step_time_s;
  std::optional<double> low_s, high_s;      ///< 80 % range, not computed from the record's own set
  std::string wider;                        ///< why the range is wider: no record is like it (StepRange::wider); or empty
  std::optional<double> baseline_s;         ///< see baseline.hpp
  std::optional<double> peak_memory_bytes;  ///< of the kind and rank that was measured
  double flops = 0;                         ///< matrix FLOPs of a step on all devices, recomputation included
  std::string situation;                    ///< see sim::situation_of
  bool fits = true;
  std::string refused;
  std::vector<std::string> unverified;      ///< facts in use that no source confirms

  bool counts() const { return measured.grade != "C"; }
  bool timed() const { return step_time_s && measured.step_time_s && *measured.step_time_s > 0; }
  bool weighed() const { return peak_memory_bytes && measured.peak_memory_bytes && *measured.peak_memory_bytes > 0; }
  /// (predicted - measured) / measured; only when timed() or weighed().
  double time_error() const { return *step_time_s / *measured.step_time_s - 1; }
  double memory_error() const { return *peak_memory_bytes / *measured.peak_memory_bytes - 1; }
};

/// Reads every file that judging will read, so that no output replaces one. What cannot be read is told by judging.
void read_inputs(const std::vector<Measurement>& measurements, int jobs);

/// Simulates one record, without what `Measurement::without` says; a plan that is refused is an answer and no error.
JudgedRecord judge(const Measurement& measurement);

/// Simulates all records, or as many as there are when `jobs` are stopped, in their order. The result does not depend on the number
/// of threads. `done` is called with how many are finished, from any thread, never twice at once. Throws what the first failing
/// record threw.
std::vector<JudgedRecord> judge(const std::vector<Measurement>& measurements, const Jobs& jobs,
                                const std::function<void(std::int64_t)>& done);

}  // namespace tandem::program
