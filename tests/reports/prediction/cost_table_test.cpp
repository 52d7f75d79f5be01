#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "models/base/error.hpp"
#include "reports/prediction/cost_table.hpp"
#include "reports/prediction/op_fields.hpp"
#include "tests/catch.hpp"

using namespace tandem;
namespace fs = std::filesystem;

namespace {

struct TemporaryFile {
  ~TemporaryFile() { fs::remove(path); }
  void write(const std::string& text) const { std::ofstream(path) << text; }
  std::string read() const {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string path = (fs::temp_directory_path() / ("tandem_cost_table_" + std::to_string(::getpid()) + ".json")).string();
};

/// Sets every field to another value than its default and than its neighbours.
void fill(Op& op, int seed) {
  visit_fields(op, [&](const char*, auto& value) {
    using T = std::decay_t<decltype(value)>;
    ++seed;
    if constexpr (std::is_same_v<T, bool>)
      value = seed % 2 == 0;
    else if constexpr (std::is_enum_v<T>)
      value = static_cast<T>(seed % 2);
    else
      value = static_cast<T>(seed) + static_cast<T>(0.1 * seed);
  });
}

std::vector<double> values(Op op) {
  std::vector<double> out;
  visit_fields(op, [&](const char*, auto& value) { out.push_back(static_cast<double>(value)); });
  return out;
}

CostTable every_kind() {
  CostTable t;
  t.device = "cpu-host", t.date = "2026-11-20", t.host = "a \"quoted\" processor", t.compiler = "g++ 12", t.notes = "n";
  t.launch_s = 3e-7, t.slowdown = {1.0, 1.25}, t.runtime_bytes = Bytes(12345);
  for (std::size_t k = 0; k < kOpKinds; ++k) {
    Op op = empty_op(k);
    if (is_communication(op)) continue;
    fill(op, static_cast<int>(k));
    t.samples.push_back({op, k % 2 ? DType::fp32 : DType::fp64, 1e-6 * static_cast<double>(k + 1) / 3});
  }
  t.comm = {{"all_reduce", 4, Bytes(4096), 1.5e-5}, {"send", 2, Bytes(8), 2e-6}};
  return t;
}

}  // namespace

TEST_CASE("a cost table comes back from its file as it was, whatever the operation") {
  const TemporaryFile file;
  const CostTable t = every_kind();
  save_cost_table(t, file.path);
  const CostTable back = load_cost_table(file.path);
  CHECK(back.device == t.device);
  CHECK(back.host == t.host);
  CHECK(back.launch_s == t.launch_s);
  CHECK(back.slowdown == t.slowdown);
  CHECK(back.runtime_bytes == t.runtime_bytes);
  REQUIRE(back.samples.size() == t.samples.size());
  std::set<std::size_t> found;
  for (const CostSample& s : t.samples)
    for (const CostSample& b : back.samples)
      if (b.op.index() == s.op.index()) {
        found.insert(s.op.index());
        CHECK(values(b.op) == values(s.op));
        CHECK(b.dtype == s.dtype);
        CHECK(b.seconds == s.seconds);
      }
  CHECK(found.size() == t.samples.size());
  REQUIRE(back.comm.size() == 2);
  CHECK(back.comm[0].kind == "all_reduce");
  CHECK(back.comm[0].ranks == 4);
  CHECK(back.comm[1].bytes == Bytes(8));
  CHECK(back.comm[1].seconds == 2e-6);
}

TEST_CASE("what a table knows of an accelerator comes back from its file") {
  const TemporaryFile file;
  CostTable t = every_kind();
  t.facts = {{"card", "a card"}, {"driver", "1.2.3"}};
  t.figures = {{"power_limit", 700, "W", "as reported"}, {"temperature", -3.5, "C", "in winter"}};
  t.copies = {{"to_host", Bytes(65536), 2e-6}};
  t.samples[0].sustained_s = 3e-3;
  t.samples[0].moved = Bytes(77);
  save_cost_table(t, file.path);
  const CostTable back = load_cost_table(file.path);
  CHECK(back.facts == t.facts);
  REQUIRE(back.figures.size() == 2);
  CHECK(back.figures[1].name == "temperature");
  CHECK(back.figures[1].value == -3.5);
  CHECK(back.figures[1].unit == "C");
  CHECK(back.figures[1].how == "in winter");
  REQUIRE(back.copies.size() == 1);
  CHECK(back.copies[0].kind == "to_host");
  CHECK(back.copies[0].bytes == Bytes(65536));
  CHECK(back.copies[0].seconds == 2e-6);
  const auto with = [](const CostTable& table) {
    return std::count_if(table.samples.begin(), table.samples.end(),
                         [](const CostSample& s) { return s.sustained_s == 3e-3 && s.moved == Bytes(77); });
  };
  CHECK(with(back) == 1);
}

TEST_CASE("an empty cost table can be saved and loaded") {
  const TemporaryFile file;
  save_cost_table(CostTable{}, file.path);
  CHECK(load_cost_table(file.path).samples.empty());
}

TEST_CASE("a folder that is missing is made for the table") {
  const fs::path folder = fs::temp_directory_path() / ("tandem_measured_" + std::to_string(::getpid()));
  const std::string path = (folder / "deeper" / "t.json").string();
  save_cost_table(every_kind(), path);
  CHECK(load_cost_table(path).comm.size() == 2);
  fs::remove_all(folder);
}

TEST_CASE("a bad cost table is refused with the place of the mistake") {
  struct Bad { const char *what, *by, *field; };
  const auto bad = GENERATE(values<Bad>({
      {"\"schema_version\": 1", "\"schema_version\": 2", "schema_version"},
      {"\"launch_s\"", "\"launches\"", ""},
      {"\"ranks\":4", "\"ranks\":1", "comm[0].ranks"},
      {"\"ranks\":4", "\"ranks\":4.5", "comm[0].ranks"},
      {"\"ranks\":4", "\"ranks\":4294967298", "comm[0].ranks"},
      {"\"bytes\":4096", "\"bytes\":18000000000000000000", "comm[0].bytes"},
      {"\"m\":1,\"n\":2,\"k\":3", "\"m\":1000000,\"n\":1000000,\"k\":1000000", "entries.fp64.matmul[0]"},
      {"\"k\":3", "\"k\":9000000000000000000", "entries.fp64.matmul[0].k"},
      {"\"bytes\":4096", "\"bytes\":0", "comm[0].bytes"},
      {"\"fp64\": {", "\"fp65\": {", "entries.fp65"},
      {"\"matmul\"", "\"matmull\"", "entries.fp64.matmull"},
      {"\"slowdown\": [1.0,1.25]", "\"slowdown\": []", "slowdown"},
      {"\"trans_a\":true", "\"trans_a\":1", "entries.fp64.matmul[0].trans_a"},
  }));
  const TemporaryFile file;
  save_cost_table(every_kind(), file.path);
  std::string text = file.read();
  const std::size_t at = text.find(bad.what);
  REQUIRE(at != std::string::npos);
  file.write(text.replace(at, std::string(bad.what).size(), bad.by));
  try {
    load_cost_table(file.path);
    FAIL("accepted " << bad.by);
  } catch (const ConfigError& e) {
    INFO(e.what());
    CHECK(e.problems()[0].file == file.path);
    CHECK(e.problems()[0].field == bad.field);
  }
}

TEST_CASE("a file that is no cost table is refused as such, without a copy of its text") {
  const TemporaryFile file;
  for (const char* text : {R"({"model": {}, "cluster": {}})", R"({"schema_version": 1})", "[1]"}) {
    file.write(text);
    CHECK_THROWS_WITH(load_cost_table(file.path), file.path + ": is no cost table: it lacks \"schema_version\" or \"entries\"; give a file that `tandem measure` wrote");
  }
}

TEST_CASE("the place of measured tables follows the environment") {
  ::setenv("TANDEM_MEASURED", "/somewhere", 1);
  CHECK(measured_table_path("cpu-host") == "/somewhere/cpu-host.json");
  ::unsetenv("TANDEM_MEASURED");
  ::setenv("XDG_DATA_HOME", "/data", 1);
  CHECK(measured_table_path("cpu-host") == "/data/tandem/measured/cpu-host.json");
  ::unsetenv("XDG_DATA_HOME");
}
