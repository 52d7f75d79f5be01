#include "experiments/tandem/validation/measurement.hpp"

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::program;

namespace {

/// A file of one record whose `measured` has this beside a peak, behind an empty line.
class OneRecord {
 public:
  explicit OneRecord(const std::string& more, const std::string& source = "somewhere", int zero = 0)
      : path_(std::filesystem::temp_directory_path() / ("one-record-" + std::to_string(::getpid()) + ".jsonl")) {
    std::ofstream(path_) << "\n"
                         << R"({"id": "one", "source": ")" << source << R"(", "plan": {"parallel": {"zero_stage": )" << zero
                         << R"(}}, "measured": {"peak_memory_bytes": 1000)" << more << "}}\n";
  }
  ~OneRecord() { std::filesystem::remove(path_); }

  Measurement read() const { return read_measurements(path_.string()).front(); }
  Measurement taken(bool as_named) const {
    MeasurementFilter filter;
    filter.as_named = as_named;
    return read_measurements({path_.string()}, filter).front();
  }
  Problem problem() const {
    try {
      read();
    } catch (const ConfigError& e) {
      REQUIRE(e.problems().size() == 1);
      return e.problems().front();
    }
    FAIL("the record is taken");
    return {};
  }
  std::string line() const { return path_.string() + ":2"; }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("a peak of no kind is of what is allocated, on the heaviest rank") {
  const std::string more = GENERATE("", R"(, "peak_memory_kind": null, "peak_memory_rank": null)");
  const Measurement m = OneRecord(more).read();
  CHECK(m.memory_kind == "allocated");
  CHECK(m.memory_rank == "heaviest");
}

TEST_CASE("a peak is of the kind and the rank that its record says") {
  for (const std::string kind : {"allocated", "reserved", "device"})
    CHECK(OneRecord(R"(, "peak_memory_kind": ")" + kind + "\"").read().memory_kind == kind);
  for (const std::string rank : {"heaviest", "last_stage"})
    CHECK(OneRecord(R"(, "peak_memory_rank": ")" + rank + "\"").read().memory_rank == rank);
}

TEST_CASE("a kind or a rank of peaks that nobody knows is refused with its line, value and the words there are") {
  const auto [field, value] = GENERATE(table<std::string, std::string>(
      {{"peak_memory_kind", "\"resident\""}, {"peak_memory_kind", "\"Reserved\""}, {"peak_memory_kind", "\"\""},
       {"peak_memory_kind", "3"}, {"peak_memory_rank", "\"first_stage\""}}));
  const OneRecord record(", \"" + field + "\": " + value);
  const Problem p = record.problem();
  CHECK(p.file == record.line());
  CHECK(p.field == "measured." + field);
  CHECK(p.value == value);
  for (const char* word : {"allocated", "reserved", "device"})
    CHECK((p.remedy.find(word) != std::string::npos) == (field == "peak_memory_kind"));
}

TEST_CASE("a run that had another value than its record says is judged with it, unless as named") {
  const std::string of = "GitHub bigscience-workshop/bigscience:experiments/tr3m-1B3.md";
  const Measurement m = OneRecord("", of).taken(false);
  CHECK(m.changed == "parallel.zero_stage 1");
  CHECK(m.plan_json.find(R"("zero_stage":1)") != std::string::npos);
  CHECK(m.named_plan_json.find(R"("zero_stage":0)") != std::string::npos);
  CHECK(OneRecord("", of).taken(true).changed.empty());
  CHECK(OneRecord("", of, 2).taken(false).changed.empty());
  CHECK(OneRecord("", "somewhere").taken(false).changed.empty());
}
