#pragma once
// A measured record with its prediction.

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "experiments/tandem/validation/measurement.hpp"
#include "models/base/threads.hpp"
#include "models/plan/plan_traits.hpp"

namespace tandem::program {

/// Facts about a plan for grouping and baselines.
struct PlanDigest {
  std::string device;    ///< name of the topology's preset
  std::string compute;   ///< compute type of matrix products
  std::string summary;   ///< one line for people
  std::string whole;     ///< completed plan without names and notes; equal for repeats of a plan
  std::string task;      ///< the same without its layout (parallel, micro-batch, recomputation); equal if only the layout differs
  std::int64_t devices = 0;
  std::string calibration;  ///< calibration of the device; empty if it has none
  PlanTraits traits;
};

/// A record after simulation. `refused`: why there is no prediction; else empty.
struct JudgedRecord {
  Measurement measured;
  PlanDigest plan;                          ///< empty if refused
  std::optional<double> step_time_s;
  std::optional<double> low_s, high_s;      ///< 80 % range, computed without the record's own set
  std::string wider;                        ///< why the range is wider than usual: no similar record (StepRange::wider); else empty
  std::optional<double> baseline_s;         ///< see baseline.hpp
  std::optional<double> peak_memory_bytes;  ///< of the measured kind and rank
  double flops = 0;                         ///< matrix FLOPs of a step on all devices, recomputation included
  std::string situation;                    ///< see sim::situation_of
  double host_share = 0;                    ///< see sim::host_share
  bool fits = true;
  std::string refused;
  std::vector<std::string> unverified;      ///< facts used without a confirming source
  std::vector<std::string> measured_tables; ///< notes about tables of this machine that the prediction used

  bool counts() const { return measured.grade != "C"; }
  bool timed() const { return step_time_s && measured.step_time_s && *measured.step_time_s > 0; }
  bool weighed() const { return peak_memory_bytes && measured.peak_memory_bytes && *measured.peak_memory_bytes > 0; }
  /// (predicted - measured) / measured. Requires timed() or weighed().
  double time_error() const { return *step_time_s / *measured.step_time_s - 1; }
  double memory_error() const { return *peak_memory_bytes / *measured.peak_memory_bytes - 1; }
};

/// Reads every file that judging will read, so that no output replaces one. Errors are reported later, by judging. Returns the tables
/// of errors that calibrations of the records name.
std::set<std::string> read_inputs(const std::vector<Measurement>& measurements, int jobs);

/// Simulates one record, without the sources in `Measurement::without`. A refused plan is a result, not an error.
JudgedRecord judge(const Measurement& measurement);

/// Simulates all records in order, or fewer if `jobs` are stopped. Results do not depend
/// on the number of threads. `done` is called with the number of finished records, on
/// any thread but never concurrently. Throws the error of the first failing record.
std::vector<JudgedRecord> judge(const std::vector<Measurement>& measurements, const Jobs& jobs,
                                const std::function<void(std::int64_t)>& done);

}  // namespace tandem::program
