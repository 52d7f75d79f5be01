// Products in types that only the vector units have, against tables of measured and published ones.

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "sim/cost/calibration.hpp"
#include "sim/cost/matmul_time.hpp"
#include "sim/cost/roofline.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "topology/topology.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

Device device_of(const std::string& preset) {
  ClusterSpec spec;
  spec.preset = preset;
  spec.devices = 1;
  return make_topology(spec)->device();
}

/// By the law alone, whatever products of the device were measured.
double law(const Op& op, const Device& device) {
  return roofline_seconds(op, DType::fp32, device, load_calibration(device.calibration));
}

double tflops(std::int64_t m, std::int64_t n, std::int64_t k, const Device& device) {
  return 2e-12 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) /
         law(MatMul{m, n, k, false, true, false}, device);
}

}  // namespace

TEST_CASE("fp32 products on Hopper take what was measured, 6 percent off in the mean") {
  const auto card = GENERATE(as<std::string>(), "h100-sxm5-80gb", "h200-sxm-141gb");
  const Device device = device_of(card == "h100-sxm5-80gb" ? "dgx-h100" : "dgx-h200");
  const auto table = read_json(tests::source_dir() + "/topology/measured/" + card + ".json");
  double off = 0;
  std::size_t n = 0;
  for (const auto& row : table["entries"]["fp32"]["matmul"]) {
    const MatMul product{row["m"], row["n"], row["k"], row["trans_a"], row["trans_b"], false, row["accumulate"], DType::fp32};
    off += std::abs(law(product, device) / row["seconds"].get<double>() - 1);
    ++n;
  }
  REQUIRE(n == 83);
  CHECK(off / static_cast<double>(n) < 0.07);
}

TEST_CASE("fp32 products on V100, A100 and another H100 reach what is published of them") {
  struct Published { const char* preset; std::int64_t m, n, k; double tflops; };
  // zzc0721/torch-performance-test-data issues 140 (V100-SXM2) and 79 (H100); Yinghan-Li/YHs_Sample issue 4 (A100, cuBLAS)
  const auto [preset, m, n, k, published] = GENERATE(
      Published{"dgx-1v", 1024, 1024, 1024, 10.56}, Published{"dgx-1v", 2048, 2048, 2048, 12.71}, Published{"dgx-1v", 4096, 4096, 4096, 13.85},
      Published{"dgx-1v", 8192, 8192, 8192, 14.38}, Published{"dgx-1v", 10240, 10240, 10240, 14.51},
      Published{"dgx-a100-80gb", 5120, 4096, 4096, 18.88}, Published{"dgx-h100", 2048, 2048, 2048, 49.58},
      Published{"dgx-h100", 4096, 4096, 4096, 51.88}, Published{"dgx-h100", 8192, 8192, 8192, 51.81});
  CAPTURE(preset, m);
  CHECK(tflops(m, n, k, device_of(preset)) == Approx(published).epsilon(0.09));
}

TEST_CASE("a Blackwell's vector units are as much faster than a Hopper's as their peaks say, whatever its tensor cores reach") {
  const Device hopper = device_of("dgx-h100"), blackwell = device_of("dgx-b200");
  const double peaks = blackwell.peak.at(DType::fp32).flops_per_second() / hopper.peak.at(DType::fp32).flops_per_second();
  CHECK(tflops(16384, 16384, 16384, blackwell) / tflops(16384, 16384, 16384, hopper) == Approx(peaks).epsilon(0.01));
}

TEST_CASE("a product outside the matrix engine has the vector units' share and fills a pipeline in the time that the matrix engine takes") {
  MatMulFit fit;
  fit.model = MatMulFit::Model::tiles;
  fit.ceiling = 0.5;
  fit.vector_ceiling = 0.8;
  fit.fill_k = 1000;
  fit.tiles = {{128, 128, 1.0}};
  fit.split_k = {1};
  // One tile on one of ten units; 16 bits ten times as fast as 32: as if k were 100 larger.
  const MatMulEngine vectors{100e9, 100e9, 1e12, 10, 32, false, 1000e9}, matrices{1000e9, 100e9, 1e12, 10, 16, true, 1000e9};
  const Gemm tile{1, 128, 128, 1024};
  CHECK(matmul_seconds(tile, fit, vectors) == Approx(2.0 * 128 * 128 * (1024 + 100) / (0.8 * 10e9)).epsilon(1e-12));
  CHECK(matmul_seconds(tile, fit, matrices) == Approx(2.0 * 128 * 128 * (1024 + 1000) / (0.5 * 100e9)).epsilon(1e-12));
  fit.vector_ceiling.reset();
  CHECK(matmul_seconds(tile, fit, vectors) == Approx(2.0 * 128 * 128 * (1024 + 1000) / (0.5 * 10e9)).epsilon(1e-12));
}
