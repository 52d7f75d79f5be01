#pragma once
// Host costs of computations: the time per task, and the slowdown between cores that compute at once.

#include <string>
#include <vector>

#include "exec/measure/measure.hpp"

namespace tandem::exec {

/// Host seconds per task, measured on a program whose operations do nothing, run by the executor.
double measure_launch();

/// Element k-1: time of a computation on each of k threads at once, divided by its time alone. k goes up to the number of cores.
/// Throws MeasuringStopped.
std::vector<double> measure_slowdown(const MeasureOptions& options);

/// "model name, 2 cores, 8 GiB", from the operating system.
std::string describe_host();
/// Name and version of the compiler of this library.
std::string describe_compiler();
/// Resident memory of this process, in bytes.
std::int64_t resident_bytes();

}  // namespace tandem::exec
