// Times of operations under a power limit.

#include "models/base/error.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/cost/product_table.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

const MatMul kSquare{8192, 8192, 8192, false, true}, kThin{8192, 8192, 16, false, true};

Device h100(std::optional<double> watts) {
  ClusterSpec spec;
  spec.preset = "dgx-h100";
  spec.devices = 1;
  spec.override.power_limit_watts = watts;
  return make_topology(spec)->device();
}

/// The same device with a tenth of its memory's rate, so that a thin product is bound by traffic.
Device with_slow_memory(Device device) {
  device.memory_bandwidth = device.memory_bandwidth * 0.1;
  return device;
}

/// 0.68 of the watts above idle, below 0.83^1.9.
constexpr double kClock = 0.80415;

CostTable table_of(std::vector<CostSample> samples) {
  CostTable t;
  t.device = "h100-sxm5-80gb";
  t.facts = {{"card", "a card"}, {"source", "a source"}};
  t.samples = std::move(samples);
  return t;
}

double seconds(const CostModel& costs, const Op& op, DType type = DType::bf16) { return costs.duration(op, type).seconds(); }

}  // namespace

TEST_CASE("under a power limit arithmetic follows the clock, and traffic and launches do not") {
  Device full = h100(std::nullopt), capped = h100(500);
  full.measured.clear(), capped.measured.clear();
  const auto before = make_cost_model(full), after = make_cost_model(capped);
  const double fixed = seconds(*before, TakeFirst{});
  CHECK(fixed > 0);
  for (const DType type : {DType::bf16, DType::fp8, DType::fp8_block}) {
    const Op gradient = MatMul{8192, 8192, 8192, true};  // no casts of its own
    CHECK(seconds(*after, gradient, type) - fixed == Approx((seconds(*before, gradient, type) - fixed) / kClock).epsilon(1e-3));
  }
  const FlashAttention attention{{1, 32, 8192, 128}, 0, false};
  CHECK(seconds(*after, attention) - fixed == Approx((seconds(*before, attention) - fixed) / kClock).epsilon(1e-3));
  for (const Op& op : {Op(LayerNorm{8192, 8192, 1e-5}), Op(BiasGrad{8192, 8192})})
    CHECK(seconds(*after, op) == seconds(*before, op));
  const Device slow = with_slow_memory(full), slow_capped = with_slow_memory(capped);
  CHECK(seconds(*make_cost_model(slow_capped), kThin) == seconds(*make_cost_model(slow), kThin));
  CHECK(after->launch() == before->launch());
}

TEST_CASE("a measured product follows the clock where arithmetic is its bound") {
  const CostTable table = table_of({{kSquare, DType::bf16, 2e-3}, {kThin, DType::bf16, 1e-4}});
  CHECK(seconds(*make_cost_model(h100(std::nullopt), table), kSquare) == 2e-3);
  CHECK(seconds(*make_cost_model(h100(700), table), kSquare) == 2e-3);
  const auto capped = make_cost_model(h100(500), table);
  CHECK(capped->covered(kSquare, DType::bf16));
  CHECK(seconds(*capped, kSquare) == Approx(2e-3 / kClock).epsilon(2e-3));  // but for a kernel's fixed time
  const auto thin = [&](std::optional<double> watts) {
    return seconds(*make_cost_model(with_slow_memory(h100(watts)), table), kThin);
  };
  CHECK(thin(500) == Approx(thin(std::nullopt)).epsilon(1e-12));
}

TEST_CASE("a card that was measured under the limit is not slowed down once more, nor made faster by a higher one") {
  CostTable table = table_of({{kSquare, DType::bf16, 2e-3}});
  table.figures = {{"power_limit", 500, "W", "enforced"}};
  for (const double watts : {500.0, 600.0})
    CHECK(seconds(*make_cost_model(h100(watts), table), kSquare) == Approx(2e-3).epsilon(1e-12));
  // Clocks of 300 and 500 W are both below the floor, so they are as the watts above idle: 225 to 425.
  CHECK(seconds(*make_cost_model(h100(300), table), kSquare) == Approx(2e-3 * 425 / 225).epsilon(2e-3));
}

TEST_CASE("a lower power limit makes no operation faster") {
  for (const Op& op : {Op(kSquare), Op(kThin), Op(MatMul{4096, 4096, 512, false, true}), Op(MatMul{300, 500, 700, true}),
                       Op(FlashAttention{{1, 8, 512, 64}, 0, false}), Op(AttentionScores{{1, 8, 512, 128, 0, 512}})}) {
    INFO(kind_name(op));
    double before = 0;
    for (double watts = 700; watts >= 200; watts -= 20) {
      const double now = seconds(*make_cost_model(h100(watts)), op);
      CHECK(now >= before * (1 - 1e-12));
      before = now;
    }
  }
}
