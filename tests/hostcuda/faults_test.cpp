// Injected faults: a wait for an event that is left out must be seen. So these tests can see a wait that the CUDA backend forgets.

#include <exception>

#include "tests/catch.hpp"
#include "tests/hostcuda/plans.hpp"
#include "tests/hostcuda/trained.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

/// Whether a step without one of its waits for events ends with other bits or an error. `slow`: a stream that lags much.
bool is_seen(const Plan& plan, std::int64_t wait, const exec::RunResult& right, std::int64_t slow = -1) {
  hostcuda::Settings s = hostcuda::settings();
  s.epilogues = hostcuda::Epilogues::bias;
  s.dropped_wait = wait;
  s.slow_stream = slow;
  const WithSettings settings(s);
  hostcuda::reset_counts();
  try {
    return !same(on_cuda(plan, 1), right);
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace

TEST_CASE("a wait for an event that is left out is seen where the stream that records it lags", "[hostcuda]") {
  const Plan plan = host_plan(R"({"parallel": {"offload": {"activations": ["all"]}}, "training": {"recompute": "none"}})", "fp64");
  const exec::RunResult right = on_emulated(plan, 1);
  REQUIRE_FALSE(is_seen(plan, -1, right));
  const std::int64_t waits = hostcuda::counts().waits;
  std::int64_t seen = 0, tried = 0;
  for (std::int64_t w = 0; w < waits; w += 5, ++tried) {
    const bool at_once = is_seen(plan, w, right);
    const std::int64_t recorder = hostcuda::counts().recorder;
    if (at_once || (recorder >= 0 && is_seen(plan, w, right, recorder))) ++seen;
  }
  REQUIRE(tried > 10);
  CHECK(2 * seen > tried);  // 66 of all 72; others only repeat what earlier waits order
}
