#pragma once
// The lines of a comparison's tables, and what to note about two runs. Private to reports/trace.

#include <string>
#include <vector>

#include "reports/trace/trace_comparison.hpp"

namespace tandem {

/// Sets the lines of all tables from the figures of both sides, and notes kernels without a class.
void set_lines(TraceComparison& comparison);

/// Where two runs differ in devices, numbers of ranks or traced ranks.
std::vector<std::string> run_notes(const TraceComparison& comparison);

}  // namespace tandem
