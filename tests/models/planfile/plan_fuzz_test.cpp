// Damaged plans: whatever bytes arrive, the answer is a plan or a ConfigError.

#include <cstdint>
#include <string>

#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

/// True when it parsed, false when it was refused; anything else escapes and fails the test.
bool accepted(const std::string& text) {
  try {
    parse_plan(text, "fuzz.json");
    return true;
  } catch (const ConfigError& e) {
    REQUIRE(!e.problems().empty());
    for (const Problem& p : e.problems()) REQUIRE(!p.reason.empty());
    return false;
  }
}

/// SplitMix64 (Steele et al. 2014): the same damage on every run.
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
};

}  // namespace

TEST_CASE("a plan cut off at any byte is refused") {
  REQUIRE(accepted(kGoodPlan));
  for (std::size_t n = 0; n < kGoodPlan.size(); ++n) {
    INFO(n);
    CHECK(!accepted(kGoodPlan.substr(0, n)));
  }
}

TEST_CASE("a plan with any one bit flipped parses or is refused") {
  int refused = 0;
  for (std::size_t i = 0; i < kGoodPlan.size() * 8; ++i) {
    std::string text = kGoodPlan;
    text[i / 8] = static_cast<char>(static_cast<unsigned char>(text[i / 8]) ^ (1u << (i % 8)));
    refused += accepted(text) ? 0 : 1;
  }
  CHECK(refused > 0);
}

TEST_CASE("a completed plan with numbers replaced at random parses or is refused") {
  const std::string full = to_json(parse_plan(kGoodPlan, "good.json"));
  const std::string values[] = {
      "0",  "-1",   "1e308",  "9223372036854775807", "18446744073709551615", "0.5", "true", "\"x\"", "[]",
      "{}", "null", "1048576"};
  Random random{1};
  for (int round = 0; round < 2000; ++round) {
    std::string text = full;
    for (int hits = 0; hits < 2; ++hits) {
      const std::size_t colon = text.find(": ", random.next() % text.size());
      if (colon == std::string::npos) continue;
      const std::size_t end = text.find_first_of(",\n", colon);
      text.replace(colon + 2, end - colon - 2, values[random.next() % std::size(values)]);
    }
    accepted(text);
  }
}
