#pragma once
// What the host adds to computations: its own time for a task, and what cores that compute at once take from each other.

#include <string>
#include <vector>

#include "exec/measure/measure.hpp"

namespace tandem::exec {

/// Seconds between two tasks of a program whose operations do nothing, run by the executor itself.
double measure_launch();

/// [k-1]: time of a computation when k threads compute at once over its time alone, for k up to the number of cores. Throws
/// MeasuringStopped.
std::vector<double> measure_slowdown(const MeasureOptions& options);

/// "model name, 2 cores, 8 GiB" as the operating system tells them.
std::string describe_host();
/// Compiler and version that built this library.
std::string describe_compiler();
/// Memory of this process that is resident now, bytes.
std::int64_t resident_bytes();

}  // namespace tandem::exec
