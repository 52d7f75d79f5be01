#pragma once
// What a log of Megatron-LM measured: step times and memory.

#include <cstdint>
#include <string>
#include <string_view>

#include "models/base/json.hpp"

namespace tandem::import {

/// The parts of a log's line that measurement_record reads, as lines; empty for most lines.
std::string measured_parts(std::string_view line);

/// A record for `tandem validate`: `plan`, with the median of "elapsed time per iteration (ms): 1234.5", or "(s): 1.23", and the most
/// of "max allocated: 5678.90" (MiB). The first line with a time has the warm-up, so it counts only if it is alone. Lines with
/// another "global batch size:" do not count. `file`: the log. Throws ConfigError if no line counts.
nlohmann::ordered_json measurement_record(const nlohmann::ordered_json& plan, std::string_view log, const std::string& file);

}  // namespace tandem::import
