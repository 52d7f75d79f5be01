// No schedule hangs: every shape up to eight stages and eight micro-batches, lowered and played by the graph's own check with
// independent streams and with a host that computes.

#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "tests/schedule_list.hpp"
#include "tests/schedule_plans.hpp"

using namespace tandem;
using namespace tandem::tests;

TEST_CASE("no schedule deadlocks with up to eight stages, eight micro-batches and four chunks a stage") {
  int lowered = 0;
  for_every_shape([&](ScheduleKind kind, const ScheduleShape& s) {
    // Plans with a single stage have no chunks, and with fewer micro-batches than stages are no interleaved ones.
    if (has_chunks(kind) && s.stages == 1) return;
    if (kind == ScheduleKind::interleaved && s.micro_batches < s.stages) return;
    INFO(name(kind) << " p " << s.stages << " m " << s.micro_batches << " v " << s.chunks);
    const PipelinePlan small{kind, s.stages, s.micro_batches, s.chunks, {}};
    CHECK_NOTHROW(lower(small.plan()).check());
    Plan waiting = small.plan();  // each stage's computation waits for its sends
    waiting.parallel.overlap_p2p = false;
    CHECK_NOTHROW(lower(waiting).check());
    ++lowered;
  });
  // interleaved: 7 + 6 + .. + 1 pairs of m >= p >= 2; breadth-first: 7 x 8 pairs of p >= 2 and m
  CHECK(lowered == 4 * 64 + 4 * 28 + 4 * 56);
}
