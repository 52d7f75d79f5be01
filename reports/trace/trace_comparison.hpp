#pragma once
// Compares a simulated step with traces of PyTorch's profiler, or a run's traces with an earlier run's: class by class, collective by
// collective, kernel by kernel.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/plan/mesh.hpp"
#include "reports/compare/judgement.hpp"
#include "reports/timeline/saved_timeline.hpp"
#include "reports/timeline/step_times.hpp"
#include "reports/trace/device_trace.hpp"
#include "reports/trace/rank_step.hpp"
#include "reports/trace/trace_steps.hpp"

namespace tandem {

/// What a user knows beside the traces.
struct TraceOptions {
  std::optional<std::int64_t> rank;    ///< of a trace that does not say it
  std::int64_t whole_steps = 1;        ///< steps of a trace without annotations of steps
  std::optional<double> step_time_s;   ///< of the run without its profiler
};

/// One trace, beside the simulated rank of its number if there is a simulation.
struct TracedRank {
  std::string file, device;
  std::int64_t rank = 0, world_size = -1;  ///< -1: the trace does not say it
  bool told = true;                    ///< whether the trace or the user says the rank; else all ranks are alike, and it is 0
  std::int32_t stage = -1;             ///< -1: no plan tells it
  TraceSteps steps;                    ///< without their events
  RankStep simulated, measured;
  std::vector<std::string> notes;      ///< how steps were found, what was left out
};

/// Mean per rank of tasks or kernels of a class or phase. Seconds.
struct ClassLine {
  std::string cls;
  WorkSum simulated, measured;
  double share = 0;                    ///< (simulated - measured) / the measured step

  double difference_s() const { return simulated.seconds - measured.seconds; }
};

/// Kernels of one name in two traces.
struct KernelLine {
  KernelKey key;
  WorkSum newer, baseline;
  double share = 0;                    ///< (newer - baseline) / the baseline's step

  double difference_s() const { return newer.seconds - baseline.seconds; }
};

struct CollectiveLine {
  CollectiveKey key;
  WorkSum simulated, measured;         ///< calls and time per rank and step
};

/// Of two runs' traces, `simulated` means the newer run and `measured` the earlier one, the baseline.
struct TraceComparison {
  bool of_two_runs = false;
  std::vector<TracedRank> newer;       ///< of two runs: traces of the newer one; else none
  std::vector<TracedRank> ranks;       ///< in the order of the files
  RankStep simulated, measured;        ///< means over these ranks
  StepTimes traced;                    ///< steps of all traces
  StepTimes newly_traced;              ///< of two runs: those of the newer one
  double measured_step_s = 0;          ///< the user's, else the traced median
  double error = 0, low = 0, high = 0; ///< (simulated - measured) / measured; with the spread of the steps
  std::vector<ClassLine> classes;      ///< largest difference first
  std::vector<ClassLine> phases;       ///< computations: forward, backward, optimizer
  std::vector<KernelLine> kernels;     ///< of two runs, largest difference first
  std::vector<CollectiveLine> collectives;           ///< by kind and group, most bytes first
  std::vector<std::pair<std::string, WorkSum>> unknown;  ///< kernels without a class, most time first
  std::vector<std::string> notes;
};

/// The figures of a trace and of its simulated rank; `mesh` is of the simulated plan. Throws ConfigError if the trace's rank is
/// unknown, if the plan has another number of ranks, or if no step is complete.
TracedRank traced_rank(const SavedTimeline& simulated, const Mesh& mesh, const DeviceTrace& trace, const TraceOptions& options);

/// Compares one rank or more. Throws ConfigError if two traces are of one rank.
TraceComparison compare_ranks(std::vector<TracedRank> ranks, const TraceOptions& options);

/// The figures of a trace without a plan. Throws ConfigError if no step is complete.
TracedRank traced_alone(const DeviceTrace& trace, const TraceOptions& options);

/// Compares two runs by the means over the ranks of each. Throws ConfigError if two traces of a run are of one rank.
TraceComparison compare_runs(std::vector<TracedRank> newer, std::vector<TracedRank> baseline);

/// Judges the step time by the spread of the traced steps. Of two runs only a longer step than the baseline's is outside.
Verdict judge_step(const TraceComparison& comparison, std::optional<double> tolerance);

/// The reason of a verdict that is outside or undecided; else empty.
std::string reason_of(const TraceComparison& comparison, Verdict verdict, double tolerance);

/// Calls per step for people: "12"; "2.5" if steps differ.
std::string calls_text(double calls);

/// Notes on collectives whose number or bytes differ, where they take a share of the step.
std::vector<std::string> collective_notes(const TraceComparison& comparison);

/// A table for people.
std::string to_text(const TraceComparison& comparison, Verdict verdict, std::optional<double> tolerance);

/// The keys of `tandem compare SIM TRACE --json` or `tandem compare TRACE TRACE --json`; times in seconds, errors as fractions.
std::string to_json(const TraceComparison& comparison, Verdict verdict, std::optional<double> tolerance);

/// All lines as CSV: the step, the device's time, classes, phases, collectives and kernels.
std::string to_csv(const TraceComparison& comparison);

}  // namespace tandem
