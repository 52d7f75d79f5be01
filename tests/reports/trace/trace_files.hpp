#pragma once
// Trace files for tests, small or made by tests/fixtures/kineto_trace.py.

#include <zlib.h>

#include <fstream>
#include <string>

#include "models/base/error.hpp"
#include "models/base/input.hpp"
#include "reports/trace/read_trace.hpp"
#include "tests/reports/fixture.hpp"
#include "tests/source_dir.hpp"

namespace traces {

using namespace tandem;

inline DeviceTrace read(const std::string& path) {
  InputFile file(path);
  return read_trace(file, path);
}

inline DeviceTrace of_fixtures() { return read(tests::source_dir() + "/tests/fixtures/kineto_trace.json"); }

/// Reads a text as a trace file.
inline DeviceTrace of_text(const std::string& text) {
  const fixture::TemporaryFile file("trace");
  std::ofstream(file.path(), std::ios::binary) << text;
  return read(file.path());
}

/// The refusal of a text; empty if it is read.
inline std::string refusal(const std::string& text) {
  try {
    of_text(text);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

/// Compressed as `gzip` does it.
inline std::string compressed(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 256, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// One event as JSON. Times in microseconds; `arguments`: the inside of "args".
inline std::string event(const std::string& category, const std::string& name, double start, double time,
                         const std::string& arguments = "") {
  return R"({"ph":"X","cat":")" + category + R"(","name":")" + name + R"(","pid":1,"tid":1,"ts":)" + std::to_string(start) +
         R"(,"dur":)" + std::to_string(time) + R"(,"args":{)" + arguments + "}}";
}

/// A kernel and its launch.
inline std::string kernel(const std::string& name, double launched, double start, double time, int correlation) {
  const std::string argument = "\"correlation\":" + std::to_string(correlation);
  return event("cuda_runtime", "cudaLaunchKernel", launched, 1, argument) + "," + event("kernel", name, start, time, argument);
}

inline std::string file_of(const std::string& events) { return R"({"schemaVersion":1,"traceEvents":[)" + events + "]}"; }

}  // namespace traces
