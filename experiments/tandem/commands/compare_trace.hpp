#pragma once
// `tandem compare SIM TRACE...` and `tandem compare TRACE TRACE`: traces of PyTorch's profiler.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/base/exit_code.hpp"
#include "models/base/input.hpp"
#include "reports/timeline/saved_timeline.hpp"
#include "reports/trace/trace_comparison.hpp"

namespace tandem::program {

/// A file for reading, with its name. Files of a folder are opened when they are read: a folder may have thousands.
struct OpenFile {
  std::string path;
  std::unique_ptr<InputFile> file;  ///< null: of a folder, and known to be a trace
};

/// Opens each file. A folder stands for the traces in it. Throws ConfigError about the first file that cannot be read, and about a
/// folder without traces.
std::vector<OpenFile> open_files(const std::vector<std::string>& paths);

/// Whether the files are traces; throws ConfigError if only some are, or if there are several timelines.
bool are_traces(const std::vector<OpenFile>& files);

/// Refuses a trace before a timeline, and traces of a run that are not in one folder, with what would work.
void require_two_runs(const std::string& newer, const std::vector<std::string>& others, const std::vector<OpenFile>& files);

/// A timeline and the name of its file.
struct SimulatedFile {
  std::string path;
  SavedTimeline timeline;
};

struct TraceQuestion {
  TraceOptions options;
  std::optional<double> tolerance;
  std::string html, csv;  ///< files to write; empty: none
  bool json = false;
};

/// Prints the comparison. ExitCode::tolerance if the step time is outside of the tolerance.
ExitCode compare_with_traces(const SimulatedFile& simulated, const std::vector<OpenFile>& traces, const TraceQuestion& question);

/// Compares the traces of a run with those of an earlier one. ExitCode::tolerance if the step became slower than the tolerance says.
ExitCode compare_traced_runs(const std::vector<OpenFile>& newer, const std::vector<OpenFile>& baseline,
                             const TraceQuestion& question);

}  // namespace tandem::program
