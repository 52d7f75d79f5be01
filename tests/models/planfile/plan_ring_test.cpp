// Attention of context ranks in a ring: its steps merge results that have no score matrix.

#include "models/planfile/plan_draft.hpp"
#include "tests/catch.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;

namespace {

/// Two context ranks in fp32, for which Tandem's own stack keeps the score matrix.
Plan ring(const std::string& mode, const std::string& training = "") {
  const std::string text = with("training", "\"precision\": \"fp32\"" + training);
  return parse_plan(bent("\"data\": 2", "\"data\": 1, \"context\": 2, \"context_mode\": \"" + mode + "\"", text), "ring.json");
}

}  // namespace

TEST_CASE("attention in a ring keeps no score matrix, although the stack's other attention does") {
  CHECK(ring("ring").training.flash_attention);
  CHECK_FALSE(ring("all_gather").training.flash_attention);
  CHECK_FALSE(ring("ulysses").training.flash_attention);
  CHECK(lowering_gaps(ring("ring")).empty());
}

TEST_CASE("a ring that shall keep a score matrix is refused by its field, with what would work") {
  const std::string without = ", \"flash_attention\": false";
  const Problems problems = lowering_gaps(ring("ring", without));
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().field == "training.flash_attention");
  for (const char* remedy : {"true", "all_gather", "ulysses"}) CHECK(problems.front().message().find(remedy) != std::string::npos);
  CHECK(lowering_gaps(ring("ring", ", \"flash_attention\": true")).empty());
  for (const char* mode : {"all_gather", "ulysses"}) CHECK(lowering_gaps(ring(mode, without)).empty());
}

TEST_CASE("a ring of one group is none, and groups that exchange heads may gather keys with a score matrix") {
  const auto levels = [](const std::string& more) {
    const std::string text = with("training", "\"precision\": \"fp32\", \"flash_attention\": false");
    return parse_plan(bent("\"pipeline\": 2, \"data\": 2", "\"context\": 4, " + more, text), "levels.json");
  };
  CHECK(lowering_gaps(levels(R"("ulysses": 2)")).size() == 1);
  CHECK(lowering_gaps(levels(R"("ulysses": 4)")).empty());
  CHECK(lowering_gaps(levels(R"("ulysses": 2, "context_mode": "all_gather")")).empty());
  const std::vector<std::string> whole = levels(R"("ulysses": 4, "context_mode": "all_gather")").ineffective;
  REQUIRE(whole.size() == 1);
  CHECK(whole.front().find("parallel.context_mode") != std::string::npos);
  const std::vector<std::string> both = levels(R"("ulysses": 2, "context_mode": "ulysses")").ineffective;
  REQUIRE(both.size() == 1);
  CHECK(both.front().find("parallel.ulysses") != std::string::npos);
  CHECK(levels(R"("ulysses": 2, "context_mode": "all_gather")").ineffective.empty());
}
