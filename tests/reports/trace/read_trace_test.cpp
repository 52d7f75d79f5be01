#include "reports/trace/read_trace.hpp"

#include <fstream>
#include <sstream>

#include "models/base/error.hpp"
#include "reports/trace/trace_store.hpp"
#include "tests/catch.hpp"
#include "tests/reports/trace/trace_files.hpp"

using namespace tandem;
using Catch::Matchers::Contains;

namespace {

const std::string kOne = traces::file_of(traces::kernel("gemm", 1, 2, 3, 7));

bool is_trace(const std::string& text) {
  const fixture::TemporaryFile path("looks");
  std::ofstream(path.path(), std::ios::binary) << text;
  InputFile file(path.path());
  return looks_like_trace(file);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("microseconds are read to the nanosecond, whatever the clock's size") {
  std::int64_t ns = 0;
  REQUIRE(read_microseconds("4458676416788.123", ns));
  CHECK(ns == 4458676416788123);
  REQUIRE(read_microseconds("1682725898079292", ns));
  CHECK(ns == 1682725898079292000);
  REQUIRE(read_microseconds("-1.5", ns));
  CHECK(ns == -1500);
  REQUIRE(read_microseconds("2.0009", ns));
  CHECK(ns == 2000);
  CHECK_FALSE(read_microseconds("1e3", ns));
  CHECK_FALSE(read_microseconds("99999999999999999999", ns));
}

TEST_CASE("a trace keeps the device's work, the host's ranges and launches, and what NCCL says") {
  const DeviceTrace trace = traces::of_fixtures();
  CHECK(trace.rank == 2);
  CHECK(trace.world_size == 8);
  CHECK(trace.device == "NVIDIA H100 80GB HBM3");
  // 12 computations, 3 collectives, a copy and a clearing in each of 4 steps, and one more collective in the third.
  CHECK(trace.events.size() == 4 * 17 + 1);
  CHECK(trace.launches.size() == trace.events.size());
  REQUIRE(trace.collectives.size() == 13);
  CHECK(trace.collectives[0].name == "_reduce_scatter_base");
  CHECK(trace.collectives[0].in == 4 << 20);
  CHECK(trace.collectives[0].out == 1 << 20);
  CHECK(trace.collectives[0].ranks == "[0, 2, 4, 6]");
}

TEST_CASE("a compressed trace is the plain one") {
  const std::string plain = text_of(tests::source_dir() + "/tests/fixtures/kineto_trace.json");
  const DeviceTrace a = traces::of_text(plain), b = traces::of_text(traces::compressed(plain));
  REQUIRE(a.events.size() == b.events.size());
  for (std::size_t i = 0; i < a.events.size(); ++i) {
    REQUIRE(a.events[i].start == b.events[i].start);
    REQUIRE(a.names[a.events[i].name] == b.names[b.events[i].name]);
  }
  const std::string members = traces::compressed(plain.substr(0, 5000)) + traces::compressed(plain.substr(5000));
  CHECK(traces::of_text(members).events.size() == a.events.size());
}

TEST_CASE("categories of PyTorch 1.8 and bare lists of events are read, too") {
  const std::string old = "[" + traces::event("Kernel", "gemm", 5, 2) + "," + traces::event("Memcpy", "Memcpy HtoD", 8, 1) + "]";
  const DeviceTrace trace = traces::of_text(old);
  REQUIRE(trace.events.size() == 2);
  CHECK(trace.events[1].work == DeviceWork::copy);
  CHECK(trace.rank == -1);
}

TEST_CASE("process groups of the head are read with their ranks") {
  const std::string head = R"({"distributedInfo":{"rank":1,"world_size":4,"pg_config":[{"pg_name":"5","pg_desc":"mesh_tp","pg_size":2,"ranks":[1,3]}]},)";
  const DeviceTrace trace = traces::of_text(head + kOne.substr(1));
  REQUIRE(trace.groups.count("5") == 1);
  CHECK(trace.groups.at("5").description == "mesh_tp");
  CHECK(trace.groups.at("5").ranks == std::vector<std::int32_t>{1, 3});
}

TEST_CASE("a file is taken for a trace by what it holds, not by its name") {
  CHECK(is_trace(kOne));
  CHECK(is_trace(traces::compressed(kOne)));
  CHECK_FALSE(is_trace(R"({"format":"tandem timeline","schema_version":1})"));
  CHECK_FALSE(is_trace("step 1: loss 2.3"));
}

TEST_CASE("damaged traces are refused by place and reason") {
  CHECK_THAT(traces::refusal("{\"traceEvents\": [oops"), Contains("is no JSON from byte"));
  CHECK_THAT(traces::refusal(kOne.substr(0, kOne.size() - 2)), Contains("is no JSON from byte") && Contains("let the profiler finish the file"));
  const std::string left_out = R"("Process Group Description": , "dtype": "Float")";  // as PyTorch wrote it for groups without a text
  CHECK_THAT(traces::refusal(traces::file_of(traces::event("kernel", "nccl", 1, 2, left_out))),
             Contains("traceEvents[0].args.Process Group Description: is no JSON") && Contains("some versions of PyTorch leave it out"));
  const std::string packed = traces::compressed(text_of(tests::source_dir() + "/tests/fixtures/kineto_trace.json"));
  CHECK_THAT(traces::refusal(packed.substr(0, packed.size() / 2)), Contains("its compressed data ends early"));
  std::string broken = packed;
  broken[broken.size() / 2] = static_cast<char>(broken[broken.size() / 2] ^ 0x55);
  CHECK_THAT(traces::refusal(broken), Contains("its compressed data is damaged") || Contains("is no JSON"));
  CHECK_THAT(traces::refusal("{}"), Contains("traceEvents") && Contains("is missing"));
  CHECK_THAT(traces::refusal(traces::file_of(traces::event("cpu_op", "aten::mm", 1, 2))),
             Contains("has no kernel of a device") && Contains("ProfilerActivity.CUDA"));
  CHECK_THAT(traces::refusal(traces::file_of(traces::event("kernel", "gemm", 1, -2))), Contains("traceEvents[0]") && Contains("has a negative dur"));
  CHECK_THAT(traces::refusal(traces::file_of(traces::event("kernel", "gemm", 1, 2) + "," + traces::event("kernel", "gemm", 1e13, 2))),
             Contains("traceEvents[1]") && Contains("more than an hour"));
  CHECK_THAT(traces::refusal(R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","ts":1}]})"), Contains("has no dur"));
}

TEST_CASE("a file with several devices at work is refused, but not one with a few stray events") {
  const auto on_second = [](double time) {
    return traces::file_of(traces::event("kernel", "gemm", 1, 100) + "," + traces::event("kernel", "gemm", 1, time, "\"device\":3"));
  };
  CHECK_THAT(traces::refusal(on_second(11)), Contains("devices 1 and 3") && Contains("11 % of the first one's work") && Contains("rank0.json rank1.json"));
  CHECK_THAT(traces::refusal(on_second(200)), Contains("devices 3 and 1") && Contains("50 %"));
  CHECK(traces::of_text(on_second(10)).other_devices == 1);
}
