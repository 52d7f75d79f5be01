#include <limits>

#include "models/plan/plan.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

TEST_CASE("Times are written with three digits in the largest unit that they reach") {
  CHECK(time_text(32.14) == "32.1 s");
  CHECK(time_text(0.00804) == "8.04 ms");
  CHECK(time_text(1.5e-5) == "15.0 us");
  CHECK(time_text(123.4) == "123 s");
  CHECK(time_text(0) == "0 s");
  CHECK(time_text(3e-12) == "0.00 ns");
}

TEST_CASE("Sizes are written in binary units, bytes without a fraction") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(1536) == "1.50 KiB");
  CHECK(bytes_text(std::int64_t{80} << 30) == "80.0 GiB");
}

TEST_CASE("Counts are grouped by thousands") {
  CHECK(count_text(0) == "0");
  CHECK(count_text(999) == "999");
  CHECK(count_text(1000) == "1,000");
  CHECK(count_text(174603460608) == "174,603,460,608");
  CHECK(count_text(-1234) == "-1,234");
  CHECK(count_text(-123) == "-123");
}

TEST_CASE("Percentages carry their sign and a dash where there is none") {
  CHECK(percent_text(0.031) == "+3.1 %");
  CHECK(percent_text(-0.5) == "-50.0 %");
  CHECK(percent_text(std::numeric_limits<double>::infinity()) == "-");
}

TEST_CASE("Columns are filled and never cut") {
  CHECK(padded("ab", 4) == "ab  ");
  CHECK(aligned("ab", 4) == "  ab");
  CHECK(padded("abcde", 4) == "abcde");
  CHECK(aligned("abcde", 4) == "abcde");
}

TEST_CASE("Generations are written as their makers do") {
  CHECK(devices_text("hopper") == "Hopper devices");
  CHECK(devices_text("cdna3") == "CDNA3 devices");
  CHECK(devices_text("cpu") == "CPUs");
}

TEST_CASE("Only a plan that names no stack is told that it names none") {
  const Plan silent = parse_plan(R"({"model": {"preset": "gpt2-345m"}, "parallel": {"data": 8},
      "training": {"seq_length": 512, "micro_batch_size": 1, "global_batch_size": 8},
      "cluster": {"preset": "dgx-h100", "devices": 8}})", "silent.json");
  CHECK(stack_text(silent).find("(not named by the plan: the framework most used on Hopper devices; --stack") != std::string::npos);
  Plan strange = silent;
  strange.stack.name = "tandem";
  strange.cluster.generation = "acme1";
  CHECK(stack_text(strange).find("(not named by the plan: no stack claims Acme1 devices; --stack") != std::string::npos);
  const Plan again = parse_plan(to_json(silent), "completed.json");  // names the stack, with "rules": "note"
  CHECK_FALSE(again.stack.refuses);
  CHECK(stack_text(again) == "stack megatron-core as of " + text_of(silent.stack.as_of));
}

TEST_CASE("A device of Trainium is said to be a core") {
  const Plan plan = parse_plan(R"({"model": {"preset": "gpt-6.7b"}, "parallel": {"tensor": 8, "data": 64},
      "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 1024},
      "cluster": {"preset": "trn1.32xlarge", "devices": 512}})", "trn.json");
  CHECK(device_text(plan) == " (a device is a NeuronCore, not a chip)");
}
