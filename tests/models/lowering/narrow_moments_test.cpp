// Moments of 8-bit AdamW, against sums written here.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "models/base/dtype.hpp"
#include "models/graph/task_graph.hpp"
#include "models/ops/op.hpp"
#include "models/planfile/plan_trained.hpp"
#include "tests/catch.hpp"
#include "tests/models/lowering/lowered.hpp"
#include "tests/patched_plan.hpp"

using namespace tandem;
using tests::bytes_named;

namespace {

Plan with_moments(const std::string& type) {
  tests::SmallPlan s;
  s.precision = "bf16";
  return tests::patched_plan(s, R"({"training": {"dtypes": {"optimizer_state": ")" + type + R"("}}})");
}

AdamW update_in(const TaskGraph& graph) {
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks)
      if (const AdamW* op = std::get_if<AdamW>(&task.op)) return *op;
  throw std::out_of_range("no AdamW");
}

}  // namespace

TEST_CASE("a moment of 8-bit AdamW is a code of one byte, and 256 of them share an fp32 scale") {
  CHECK(bytes_of(DType::dynamic8, 256) == Bytes(260));
  CHECK(bytes_of(DType::dynamic8, 4096 * 4096) == Bytes(4096 * 4096 + 4 * (4096 * 4096 / 256)));
  const TaskGraph wide = lower(with_moments("fp32")), narrow = lower(with_moments("dynamic8"));
  const std::int64_t n = update_in(wide).elements, held = (n * 260 + 255) / 256;
  for (const char* moment : {"exp_avg", "exp_avg_sq"}) {
    CHECK(bytes_named(wide.programs[0], moment) >= 4 * n);
    CHECK(bytes_named(narrow.programs[0], moment) == (held + 255) / 256 * 256);
  }
  // Both moments are read and written.
  const Bytes saved = traffic(update_in(wide), DType::bf16) - traffic(update_in(narrow), DType::bf16);
  CHECK(saved == Bytes(4 * (4 * n - held)));
}

TEST_CASE("an update with moments of 16 bits reads and writes its master weights in their own type") {
  const AdamW op = update_in(lower(with_moments("bf16")));
  REQUIRE(op.master);
  CHECK(op.masters == DType::fp32);
  // The gradient once; both moments of 2 bytes and the master of 4 read and written; the bf16 weight written.
  const std::int64_t gradient = bytes_of(op.gradients, 1).count();
  CHECK(traffic(op, DType::bf16) == Bytes(op.elements * (gradient + 2 * 2 * 2 + 2 * 4 + 2)));
}

TEST_CASE("the runtime refuses moments of 8 bits by their field, and says which type it has") {
  try {
    require_trainable(with_moments("dynamic8"));
    FAIL("was not refused");
  } catch (const InfeasibleError& e) {
    CHECK(e.problems().front().field == "training.dtypes.optimizer_state");
    CHECK(e.problems().front().message().find("set it to bf16 or fp32") != std::string::npos);
  }
}
