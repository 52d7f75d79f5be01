// The slowest of devices that work in step, against drawn ones; what it does to predictions.
#include <algorithm>
#include <cmath>
#include <random>

#include "sim/cost/calibration.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/cost/slowest.hpp"
#include "tests/catch.hpp"
#include "topology/topology.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

/// Mean over many draws of the largest of `n` standard normal deviates.
double drawn_largest(int n) {
  std::mt19937_64 source(7);
  std::normal_distribution<double> deviate;
  constexpr int kDraws = 4000;
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    double most = deviate(source);
    for (int k = 1; k < n; ++k) most = std::max(most, deviate(source));
    sum += most;
  }
  return sum / kDraws;
}

Duration product_on(std::int64_t devices, const char* preset) {
  ClusterSpec spec;
  spec.preset = preset;
  spec.devices = devices;
  return make_cost_model(*make_topology(spec))->duration(MatMul{6000, 6000, 6000, false, true}, DType::bf16);
}

}  // namespace

TEST_CASE("the slowest of devices is as far from the mean as the largest of drawn deviates") {
  CHECK(slowest_of(1, 0.05) == 1);
  CHECK(slowest_of(1000, 0) == 1);
  CHECK((slowest_of(2, 0.01) - 1) / 0.01 == Approx(1 / std::sqrt(std::acos(-1.0))).epsilon(0.05));  // exact for two
  for (int n : {8, 64, 512}) CHECK((slowest_of(n, 0.01) - 1) / 0.01 == Approx(drawn_largest(n)).epsilon(0.02));
}

TEST_CASE("products take as much longer on many devices as the slowest of them is slower") {
  const double one = product_on(1, "dgx-a100-80gb").seconds();
  const Calibration fit = load_calibration("a100");
  const double kernel = fit.kernel.seconds(), eight = slowest_of(8, fit.spread);
  CHECK(eight > 1.01);
  CHECK(product_on(8, "dgx-a100-80gb").seconds() - kernel == Approx((one - kernel) * eight).epsilon(1e-9));
  CHECK(product_on(1024, "dgx-a100-80gb").seconds() > product_on(8, "dgx-a100-80gb").seconds());
  CHECK(product_on(64, "hls-gaudi2").seconds() == product_on(8, "hls-gaudi2").seconds());  // no spread is known of it
}

TEST_CASE("measured products take as much longer, too, where their arithmetic bounds them") {
  ClusterSpec spec;
  spec.preset = "dgx-h100";
  const auto seconds = [&](std::int64_t devices, const Op& op) {
    spec.devices = devices;
    const auto costs = make_cost_model(*make_topology(spec));
    REQUIRE(costs->covered(op, DType::bf16));
    return costs->duration(op, DType::bf16).seconds();
  };
  const double slowest = slowest_of(64, load_calibration("h100").spread);
  CHECK(slowest > 1.03);
  const Op large = MatMul{8192, 8192, 8192, false, true}, thin = MatMul{4096, 4096, 16, false, true};
  CHECK(seconds(64, large) == Approx(slowest * seconds(1, large)).epsilon(1e-9));
  CHECK(seconds(64, thin) / seconds(1, thin) - 1 < 0.7 * (slowest - 1));  // its traffic does, in part
}
