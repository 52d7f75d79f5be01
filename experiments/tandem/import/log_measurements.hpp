#pragma once
// What a log of Megatron-LM measured: step times and memory.

#include <cstdint>
#include <string>
#include <string_view>

#include "models/base/json.hpp"

namespace tandem::import {

struct LogMeasurements {
  std::int64_t lines = 0;          ///< lines with a step time that count
  double step_time_s = 0;          ///< their median
  double max_allocated_bytes = 0;  ///< largest of the ranks that print it; 0: none does
};

/// Reads "elapsed time per iteration (ms): 1234.5" and "max allocated: 5678.90" (MiB). The first line with a time has the warm-up,
/// so it counts only if it is alone.
LogMeasurements measurements_of(std::string_view log);

/// The parts of a log's line that measurements_of reads, as lines; empty for most lines.
std::string measured_parts(std::string_view line);

/// A record for `tandem validate`: `plan`, measured as `m`. `file`: the log. Throws ConfigError if the log has no step time.
nlohmann::ordered_json measurement_record(const nlohmann::ordered_json& plan, const LogMeasurements& m, const std::string& file);

}  // namespace tandem::import
