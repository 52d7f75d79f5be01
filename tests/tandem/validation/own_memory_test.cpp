// Predicted memory against what PyTorch's allocator counted on one H200 (experiments/corpus/measured/h200).
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "experiments/tandem/validation/judged_record.hpp"
#include "experiments/tandem/validation/measurement.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"

using namespace tandem::program;

namespace {

const std::string kFile = tandem::tests::source_dir() + "/experiments/corpus/measured/h200/train.jsonl";

bool compiled(const JudgedRecord& r) { return r.measured.id.ends_with("-compiled"); }

std::vector<JudgedRecord> judged(const std::string& file) {
  return judge(read_measurements({file}, {}), tandem::Jobs{2}, [](std::int64_t) {});
}

/// The same records with what the allocator had reserved for what was allocated.
std::vector<JudgedRecord> reserved() {
  const auto path = std::filesystem::temp_directory_path() / ("tandem-reserved-" + std::to_string(::getpid()) + ".jsonl");
  std::ifstream lines(kFile);
  std::ofstream out(path);
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json record = nlohmann::json::parse(line);
    record["measured"]["peak_memory_bytes"] = record["details"]["reserved_bytes"];
    record["measured"]["peak_memory_kind"] = "reserved";
    out << record.dump() << "\n";
  }
  out.close();
  auto records = judged(path.string());
  std::filesystem::remove(path);
  return records;
}

}  // namespace

TEST_CASE("eager training on one GPU takes the memory that was predicted, to 4 percent") {
  const std::vector<JudgedRecord> records = judged(kFile);
  REQUIRE(records.size() == 36);
  double sum = 0;
  int eager = 0;
  for (const JudgedRecord& r : records) {
    INFO(r.measured.id);
    REQUIRE(r.weighed());
    if (compiled(r)) continue;
    CHECK(std::abs(r.memory_error()) < 0.04);
    // LLaMAs keep what they are said to keep of a fused RMSNorm.
    if (r.measured.id.find("llama") != std::string::npos) CHECK(std::abs(r.memory_error()) < 0.001);
    sum += std::abs(r.memory_error());
    ++eager;
  }
  CHECK(eager == 31);
  CHECK(sum / eager < 0.015);
}

TEST_CASE("PyTorch's allocator reserves on one GPU what was predicted, to 10 percent and in the mean to 2") {
  const std::vector<JudgedRecord> records = reserved();
  REQUIRE(records.size() == 36);
  double sum = 0, again = 0;
  int recomputing = 0;
  for (const JudgedRecord& r : records) {
    INFO(r.measured.id);
    REQUIRE(r.weighed());
    CHECK(std::abs(r.memory_error()) < 0.1);
    sum += std::abs(r.memory_error());
    if (!r.measured.id.ends_with("-recompute")) continue;
    again += std::abs(r.memory_error());
    ++recomputing;
  }
  CHECK(sum / static_cast<double>(records.size()) < 0.02);
  // One of these is 9 percent too high: in the run, gradients of the loss found places between recomputed tensors.
  CHECK(recomputing == 4);
  CHECK(again / recomputing < 0.035);
}
