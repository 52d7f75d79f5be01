// Memory for parts of other ranks that communicators over a library allocate before the first step.
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "exec/run/lines.hpp"
#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::exec::test {
namespace {

/// Data that nobody reads.
class NoTokens final : public TokenSource {
 public:
  std::int64_t vocab_size() const override { return 32; }
  void sequence(std::int64_t, std::span<std::int32_t>) const override {}
};

/// The room of each group and stream.
std::map<std::pair<Group, int>, std::int64_t> rooms(const std::string& training, const std::string& parallel) {
  const Plan plan = parse_plan(R"({"model": {"family": "gpt", "num_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "vocab_size": 32},
                                   "training": {"seq_length": 8, "micro_batch_size": 1, "global_batch_size": 4, "precision": "fp32", )" +
                                   training + R"(}, "parallel": {)" + parallel +
                                   R"(}, "cluster": {"preset": "cpu-host", "devices": 2}, "stack": "tandem"})",
                               "lines.json");
  const TaskGraph graph = lower(plan);
  const NoTokens tokens;
  const RunContext run{plan, graph, tokens, make_mesh(plan), {}, {}};
  return lines_of({&run}).groups;
}

bool any(const std::map<std::pair<Group, int>, std::int64_t>& rooms) {
  return std::any_of(rooms.begin(), rooms.end(), [](const auto& r) { return r.second > 0; });
}

}  // namespace

TEST_CASE("a library that reduces by itself gets no memory for parts of other ranks") {
  for (const char* parallel : {R"("data": 2)", R"("data": 2, "zero_stage": 1)", R"("data": 2, "zero_stage": 3)", R"("tensor": 2)"}) {
    CAPTURE(parallel);
    const auto folded = rooms(R"("deterministic": true)", parallel), added = rooms(R"("deterministic": false)", parallel);
    REQUIRE(folded.size() == added.size());
    CHECK(any(folded));
    CHECK(!any(added));
  }
}

TEST_CASE("ranges that ranks own are gathered through memory, whoever reduces") {
  for (const char* deterministic : {R"("deterministic": true)", R"("deterministic": false)"})
    CHECK(any(rooms(std::string(R"("optimizer": "muon", )") + deterministic, R"("data": 2, "zero_stage": 1)")));
}

}  // namespace tandem::exec::test
