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
  explicit OneRecord(const std::string& more, const std::string& plan = "{}", const std::string& keys = "")
      : path_(std::filesystem::temp_directory_path() / ("one-record-" + std::to_string(::getpid()) + ".jsonl")) {
    std::ofstream(path_) << "\n"
                         << R"({"id": "one", "plan": )" << plan << keys << R"(, "measured": {"peak_memory_bytes": 1000000)" << more << "}}\n";
  }
  ~OneRecord() { std::filesystem::remove(path_); }

  Measurement read() const { return read_measurements(path_.string()).front(); }
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

TEST_CASE("a record's framework is its plan's stack where there is such a stack") {
  const std::string plan = R"({"stack":"megatron-core"})", whole = R"({"stack":{"name":"megatron-core"}})";
  const auto taken = [](const std::string& of, const std::string& keys) { return OneRecord("", of, keys).read(); };
  CHECK(taken(plan, R"(, "framework": "pytorch-fsdp")").plan_json == R"({"stack":{"name":"pytorch-fsdp"}})");
  CHECK(taken("{}", R"(, "framework": "pytorch-fsdp")").plan_json == R"({"stack":{"name":"pytorch-fsdp"}})");
  for (const std::string none : {"", R"(, "framework": null)"}) {
    CHECK(taken(plan, none).plan_json == whole);
    CHECK(taken("{}", none).plan_json == "{}");
    CHECK(taken(plan, none).unread.empty());
  }
  const Measurement other = taken(plan, R"(, "framework": "nobody's")");
  CHECK(other.plan_json == whole);
  CHECK(unread_text({other}).find("framework \"nobody's\"") != std::string::npos);
  for (const std::string odd : {"3", "[1]", R"({"stack":3})"})  // for the plan's own check to refuse
    CHECK(taken(odd, R"(, "framework": "pytorch-fsdp", "as_of": "2024-07")").plan_json == odd);
}

TEST_CASE("a record's framework and month go before those of its plan's stack") {
  const std::string plan = R"({"stack": {"name": "jax", "as_of": "2023-01"}})";
  const auto taken = [&](const std::string& keys) { return OneRecord("", plan, keys).read().plan_json; };
  CHECK(taken(R"(, "as_of": "2024-07")") == R"({"stack":{"as_of":"2024-07","name":"jax"}})");
  CHECK(taken(R"(, "framework": "pytorch-fsdp")") == R"({"stack":{"as_of":"2023-01","name":"pytorch-fsdp"}})");
  CHECK(taken("") == R"({"stack":{"as_of":"2023-01","name":"jax"}})");
}

TEST_CASE("a framework that is no text and a month that is none are refused with line, key and value") {
  const auto [key, value] = GENERATE(table<std::string, std::string>(
      {{"as_of", "\"2024-13\""}, {"as_of", "\"2024-00\""}, {"as_of", "\"2024-7\""}, {"as_of", "\"24-07\""}, {"as_of", "\"2024/07\""},
       {"as_of", "\"2024-07-01\""}, {"as_of", "\"July 24\""}, {"as_of", "\"\""}, {"as_of", "202407"}, {"framework", "7"}, {"framework", "\"\""}}));
  const OneRecord record("", R"({"stack": "jax"})", ", \"" + key + "\": " + value);
  const Problem p = record.problem();
  CHECK(p.file == record.line());
  CHECK(p.field == key);
  CHECK(p.value == value);
  CHECK((p.remedy.find("YYYY-MM") != std::string::npos) == (key == "as_of"));
}

TEST_CASE("a month of a record is taken") {
  for (const std::string month : {"\"2021-01\"", "\"2024-12\""})
    CHECK(OneRecord("", R"({"stack":"jax"})", ", \"as_of\": " + month).read().plan_json == R"({"stack":{"as_of":)" + month + R"(,"name":"jax"}})");
  CHECK(OneRecord("", R"({"stack":"jax"})", ", \"as_of\": null").read().plan_json == R"({"stack":{"name":"jax"}})");
}
