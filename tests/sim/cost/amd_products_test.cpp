// Products of hipBLASLt on AMD's devices against published rates.

#include "sim/cost/calibration.hpp"
#include "sim/cost/roofline.hpp"
#include "tests/catch.hpp"
#include "topology/topology.hpp"

using namespace tandem;
using namespace tandem::sim;

TEST_CASE("products of MI300X, MI325X and MI355X reach what is published of them") {
  struct Published {
    const char* preset;
    std::int64_t m, n, k;
    DType type;
    double tflops, within = 0.1;
  };
  using enum DType;
  // hipBLASLt's kernel for 4,096 cubed in 16 bits is slow on MI355X: the law has 23 % more.
  // stas00/ml-engineering (mamf-finder); ROCm blog on achievable FLOPs, part 2; HazyResearch/HipKittens f09e9685
  const auto p = GENERATE(values<Published>({{"mi300x-8x400g", 10240, 15360, 8192, bf16, 668.4},
                                             {"mi300x-8x400g", 4096, 4864, 32896, bf16, 708},
                                             {"mi325x-8x400g", 13312, 10240, 8192, bf16, 784.9},
                                             {"mi325x-8x400g", 4096, 4096, 4096, bf16, 752.5},
                                             {"mi325x-8x400g", 8192, 8192, 8192, bf16, 785.3},
                                             {"mi325x-8x400g", 16384, 16384, 16384, bf16, 749.8},
                                             {"mi355x-8x400g", 12288, 8192, 8192, bf16, 1565},
                                             {"mi355x-8x400g", 4096, 4096, 4096, bf16, 1138.5, 0.25},
                                             {"mi355x-8x400g", 16384, 16384, 16384, bf16, 1562},
                                             {"mi355x-8x400g", 4096, 4096, 4096, fp8, 2749},
                                             {"mi355x-8x400g", 8192, 8192, 8192, fp8, 3233},
                                             {"mi355x-8x400g", 16384, 16384, 16384, fp8, 3293}}));
  ClusterSpec spec;
  spec.preset = p.preset;
  spec.devices = 1;
  const Device device = make_topology(spec)->device();
  Calibration c = load_calibration(device.calibration);
  c.cast_bytes = 0;  // operands already in 8 bits
  const MatMul product{p.m, p.n, p.k, false, true, false};
  const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  CAPTURE(p.preset, p.m, p.n, p.k);
  CHECK(flops / roofline_seconds(product, p.type, device, c) == Approx(p.tflops * 1e12).epsilon(p.within));
}
