// No schedule hangs: every shape up to eight stages and eight micro-batches, lowered and played by the graph's own check with
// independent streams and with a host that computes.

#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "tests/schedule_list.hpp"
#include "tests/schedule_plans.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::tests;

TEST_CASE("no schedule deadlocks with up to eight stages, eight micro-batches and four chunks a stage") {
  int lowered = 0;
  for_every_shape([&](ScheduleKind kind, const ScheduleShape& s) {
    // Plans with a single stage have no chunks, and with fewer micro-batches than stages or one chunk a stage are no interleaved ones.
    if (has_chunks(kind) && s.stages == 1) return;
    if (kind == ScheduleKind::interleaved && (s.micro_batches < s.stages || s.chunks == 1)) return;
    INFO(name(kind) << " p " << s.stages << " m " << s.micro_batches << " v " << s.chunks);
    const PipelinePlan small{kind, s.stages, s.micro_batches, s.chunks, {}};
    CHECK_NOTHROW(lower(small.plan()).check());
    Plan waiting = small.plan();  // each stage's computation waits for its sends
    waiting.parallel.overlap_p2p = false;
    CHECK_NOTHROW(lower(waiting).check());
    ++lowered;
  });
  // interleaved: 7 + 6 + .. + 1 pairs of m >= p >= 2; breadth-first: 7 x 8 pairs of p >= 2 and m; dualpipe-v: 5 + 3 + 1 of m >= 2p >= 4;
  // zb-v, v-half, v-min: 7 x 8 pairs of p >= 2 and m
  CHECK(lowered == 4 * 64 + 3 * 28 + 4 * 56 + 9 + 3 * 56);
}

namespace {

/// Experts on two ranks a stage, whose exchange is hidden.
Plan paired(std::int64_t stages, std::int64_t micro_batches, std::int64_t chunks, bool overlap_p2p, std::string_view schedule) {
  const auto n = [](std::int64_t v) { return std::to_string(v); };
  return parse_plan(R"({"model": {"num_layers": )" + n(stages * chunks) + R"(, "hidden_size": 4, "num_attention_heads": 2, "vocab_size": 7,
                       "moe": {"num_experts": 2, "ffn_hidden_size": 4}},
                       "parallel": {"pipeline": )" + n(stages) + R"(, "virtual_pipeline": )" + n(chunks) + R"(, "schedule": ")" +
                        std::string(schedule) + R"(", "data": 2, "expert": 2, "overlap_experts": true, "overlap_p2p": )" +
                        (overlap_p2p ? "true" : "false") + R"(},
                       "training": {"seq_length": 2, "micro_batch_size": 1, "global_batch_size": )" + n(2 * micro_batches) +
                        R"(, "precision": "fp32"}, "cluster": {"preset": "cpu-host", "devices": )" + n(2 * stages) + "}}",
                    "paired.json");
}

}  // namespace

TEST_CASE("passes that run at once beside the exchange of experts deadlock nowhere") {
  for (std::int64_t p = 1; p <= 6; ++p)
    for (std::int64_t m = 1; m <= 7; ++m)
      for (std::int64_t v = 1; v <= (p > 1 && m >= p ? 3 : 1); ++v)
        for (const bool overlap_p2p : {true, false}) {
          CAPTURE(p, m, v, overlap_p2p);
          CHECK_NOTHROW(lower(paired(p, m, v, overlap_p2p, v > 1 ? "interleaved" : "1f1b")).check());
          if (p > 1 && v == 2 && m >= 2 * p) CHECK_NOTHROW(lower(paired(p, m, v, overlap_p2p, "dualpipe-v")).check());
        }
}
