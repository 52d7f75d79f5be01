#include "sim/budget/energy.hpp"

#include "tests/catch.hpp"

using namespace tandem::sim;

TEST_CASE("400 W and a PUE of 1 are exactly 0.4 kWh an hour of a device") {
  CHECK(energy_kwh({400, 0, 0, 0}, {1, 0}, 1) == 0.4);
  // BLOOM-176B (arXiv 2211.02001, table 3): 1,082,990 hours of A100, 433,196 kWh.
  CHECK(energy_kwh({400, 0, 0, 0}, {1'082'990, 0}, 1) == Approx(433'196).epsilon(1e-12));
}

TEST_CASE("LLaMA-65B's published energy follows from its hours, 400 W and a PUE of 1.1") {
  // arXiv 2302.13971, table 15: 1,022,362 hours of A100, 449 MWh.
  CHECK(energy_kwh({400, 0, 0, 0}, {1'022'362, 0}, 1.1) == Approx(449'000).epsilon(0.002));
}

TEST_CASE("idle devices and hosts take their own watts") {
  const PowerDraw draw{700, 100, 350, 150};
  CHECK(energy_kwh(draw, {10, 2}, 1.5) == Approx((10 * 1.05 + 2 * 0.25) * 1.5));
  CHECK(peak_kw(draw, 8, 1.25) == Approx(10.5));
}
