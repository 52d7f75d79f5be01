#include "topology/power_limit.hpp"

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/topology/clusters.hpp"
#include "topology/budget_facts.hpp"
#include "topology/fact_list.hpp"

using namespace tandem;

namespace {

Device limited(const std::string& preset, std::optional<double> watts) {
  ClusterSpec spec = cluster(preset, 8);
  spec.override.power_limit_watts = watts;
  return make_topology(spec)->device();
}

Problem problem_of(const std::string& preset, double watts) {
  try {
    limited(preset, watts);
  } catch (const InfeasibleError& e) {
    REQUIRE(e.problems().size() == 1);
    return e.problems().front();
  }
  return {};
}

}  // namespace

TEST_CASE("the clock under a power limit is the root of the watts above idle, and in proportion to them below the floor") {
  const PowerCurve square{700, 100, 200, 2, 0.8};
  CHECK(square.clock(700) == 1);
  CHECK(square.clock(900) == 1);
  CHECK(square.clock(586) == Approx(0.9).epsilon(1e-12));   // 486 of 600 W are 0.81
  CHECK(square.clock(484) == Approx(0.8).epsilon(1e-12));   // 384 of 600 W are 0.64: the floor from both sides
  CHECK(square.clock(483.9999) == Approx(0.8).epsilon(1e-6));
  CHECK(square.clock(292) == Approx(0.4).epsilon(1e-12));   // half of the watts above idle, half of the clock
  const PowerCurve proportional{700, 100, 200, 1, 0};
  CHECK(proportional.clock(250) == Approx(0.25).epsilon(1e-12));
}

TEST_CASE("the shipped law has the published clocks and rates of one silicon at two limits") {
  // AMD, Max-Achievable FLOPs, part 2: MHz at 750 and at 1,000 W in fp16, bf16 and fp8.
  const double clock = power_curve("mi325x")->clock(750);
  for (const double published : {1115.0 / 1354, 1207.0 / 1447, 1230.0 / 1464}) CHECK(clock == Approx(published).epsilon(0.015));
  // facebookexperimental/triton pull request 2023: TFLOP/s of products on a GB300 at 500 and at 1,400 W.
  const double gb300 = power_curve("gb300")->clock(500);
  CHECK((gb300 > 617.0 / 2174 && gb300 < 617.0 / 1600));
}

TEST_CASE("of no device does a lower limit leave a higher clock, and none has one down to idle power") {
  for (const auto& [name, power] : load_power_facts().devices) {
    INFO(name);
    const PowerCurve curve = *power_curve(name);
    CHECK(curve.lowest_w > curve.idle_w);
    CHECK(curve.clock(curve.rated_w) == 1);
    double before = 0;
    for (double watts = curve.lowest_w; watts <= curve.rated_w; watts += 1) {
      CHECK(curve.clock(watts) > before);
      before = curve.clock(watts);
    }
  }
}

TEST_CASE("a power limit changes the device's clock and no published rate, and says so") {
  const Device own = limited("dgx-h100", std::nullopt), at500 = limited("dgx-h100", 500);
  CHECK((own.clock == 1 && !own.power_limit));
  // (500 - 75) / (700 - 75) = 0.68 is below 0.83^1.9 = 0.70186: 0.68 x 0.83 / 0.70186.
  CHECK(at500.clock == Approx(0.80415).epsilon(1e-4));
  CHECK((at500.peak == own.peak && at500.memory_bandwidth == own.memory_bandwidth && at500.measured == own.measured));
  CHECK(limited("dgx-h100", 700).clock == 1);  // its rated power
  for (const Device& device : {own, limited("dgx-h100", 700)}) CHECK(power_note(device).empty());
  CHECK(power_note(at500).starts_with("cluster.override.power_limit_watts: 500 W of 700 W: arithmetic runs at 0.804 of its clock"));
}

TEST_CASE("a power limit that a device cannot have is refused by value, reason and remedy") {
  CHECK(problem_of("dgx-h100", 701).reason == "H100 SXM5 80 GB is rated at 700 W");
  CHECK(problem_of("dgx-h100", 199.5).reason == "the lowest limit of H100 SXM5 80 GB is 200 W");
  CHECK(problem_of("dgx-h100", 199.5).value == "199.5 W");
  CHECK(problem_of("dgx-h100", 200).reason.empty());
  CHECK(problem_of("mi300x-8x400g", 187).remedy == "use at least that");  // a quarter of 750 W
  for (const char* preset : {"cpu-host", "dgx-1v"}) {
    const Problem p = problem_of(preset, 100);
    CHECK(p.field == "cluster.override.power_limit_watts");
    CHECK(p.reason.starts_with("no rated power of "));
  }
}

TEST_CASE("the numbers behind a power limit are listed with their sources") {
  const auto facts = power_facts_of("h100-sxm5-80gb");
  const auto has = [&](const std::string& field) {
    return std::ranges::any_of(facts, [&](const FactOrigin& f) { return f.field == field && f.part == "power" && !f.sources.empty(); });
  };
  for (const char* field : {"devices.h100-sxm5-80gb.busy_w", "devices.h100-sxm5-80gb.idle_w", "limit.clock_exponent", "limit.floor_clock"})
    CHECK(has(field));
  CHECK(facts.size() == 6);  // and the lowest limits; nothing of the host
  CHECK(power_facts_of("cpu-core").empty());
}
