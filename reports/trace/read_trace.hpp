#pragma once
// Reads a trace of PyTorch's profiler (Kineto), in the Chrome trace-event format.

#include <string>

#include "models/base/input.hpp"
#include "reports/trace/device_trace.hpp"

namespace tandem {

/// Whether a file is a trace rather than one of Tandem's timelines, by its first bytes.
bool looks_like_trace(InputFile& file);

/// Reads a trace, plain or compressed by gzip; `path` is for messages. Keeps events and no tree, so memory is a fraction of the
/// text. Throws ConfigError if the file is damaged, is no trace, or has no work of a device.
DeviceTrace read_trace(InputFile& file, const std::string& path);

}  // namespace tandem
