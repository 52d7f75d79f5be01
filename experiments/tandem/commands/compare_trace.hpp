#pragma once
// `tandem compare SIM TRACE...`: a simulated step beside traces of PyTorch's profiler.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/base/exit_code.hpp"
#include "models/base/input.hpp"
#include "reports/timeline/saved_timeline.hpp"
#include "reports/trace/trace_comparison.hpp"

namespace tandem::program {

/// Files that are open for reading, with their names.
struct OpenFile {
  std::string path;
  std::unique_ptr<InputFile> file;
};

/// Opens each file. Throws ConfigError about the first that cannot be read.
std::vector<OpenFile> open_files(const std::vector<std::string>& paths);

/// Whether the files are traces; throws ConfigError if only some are, or if there are several timelines.
bool are_traces(const std::vector<OpenFile>& files);

/// Refuses a trace in the place of the timeline, with the order or the two comparisons that would work.
void require_timeline_first(const std::string& first, InputFile& file, const std::vector<OpenFile>& others);

/// A timeline and the name of its file.
struct SimulatedFile {
  std::string path;
  SavedTimeline timeline;
};

struct TraceQuestion {
  TraceOptions options;
  std::optional<double> tolerance;
  bool json = false;
};

/// Prints the comparison. ExitCode::tolerance if the step time is outside of the tolerance.
ExitCode compare_with_traces(const SimulatedFile& simulated, const std::vector<OpenFile>& traces, const TraceQuestion& question);

}  // namespace tandem::program
