#include "reports/trace/read_trace.hpp"

#include <cmath>
#include <istream>
#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "reports/trace/trace_reader.hpp"
#include "reports/trace/trace_text.hpp"

namespace tandem {

namespace {

constexpr std::size_t kHead = 4096;

constexpr double kStray = 0.1;  ///< most work of a second device, beside the first one's, in the trace of one rank

const char* const kRecord = "record with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) and export_chrome_trace";

void require_work(const DeviceTrace& trace, const TraceReader& reader) {
  if (!reader.has_events()) throw ConfigError(Problem{trace.path, "traceEvents", "", "is missing: this is no trace of PyTorch's profiler", kRecord});
  if (trace.events.empty())
    throw ConfigError(Problem{trace.path, "traceEvents", "", "has no kernel of a device, only work of the host", kRecord});
}

/// Refuses a file of several ranks: a comparison would judge one of them, maybe with another one's number.
void require_one_device(const DeviceTrace& trace) {
  const auto& [first, second, share] = trace.second;
  if (share <= kStray) return;
  throw ConfigError(Problem{trace.path, "traceEvents", "devices " + std::to_string(first) + " and " + std::to_string(second),
                            "are several ranks in one file: the second has " + std::to_string(std::lround(100 * share)) + " % of the first one's work",
                            "give the ranks' own files, as the profiler wrote them: tandem compare SIM rank0.json rank1.json"});
}

}  // namespace

bool looks_like_trace(InputFile& file) {
  const std::string head(file.head(kHead));
  if (head.starts_with("\x1f\x8b")) return true;
  for (const char* mark : {"\"traceEvents\"", "\"schemaVersion\"", "\"deviceProperties\"", "\"distributedInfo\"", "\"ph\""})
    if (head.find(mark) != head.npos) return true;
  return false;
}

DeviceTrace read_trace(InputFile& file, const std::string& path) {
  TraceText text(file, path);
  std::istream stream(&text);
  DeviceTrace trace;
  trace.path = path;
  TraceReader reader(trace);
  nlohmann::json::sax_parse(stream, &reader);
  reader.finish();
  require_work(trace, reader);
  require_one_device(trace);
  return trace;
}

}  // namespace tandem
