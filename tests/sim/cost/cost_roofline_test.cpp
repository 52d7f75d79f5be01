#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "reports/prediction/op_fields.hpp"
#include "sim/cost/calibration.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/cost/matmul_time.hpp"
#include "sim/cost/roofline.hpp"
#include "tests/catch.hpp"
#include "topology/topology.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

/// 100 GFLOP/s in products, 10 in vectors, 1 GB/s.
Device round_numbers() {
  Device d;
  d.name = "round numbers";
  d.peak[DType::fp32] = FlopRate::flops_per_second(100e9);
  d.peak[DType::bf16] = FlopRate::flops_per_second(400e9);
  d.vector_rate = FlopRate::flops_per_second(10e9);
  d.memory_bandwidth = Bandwidth::bytes_per_second(1e9);
  d.host_launch = Duration::nanoseconds(5000);
  return d;
}

double cost(const Op& op, DType t, const Calibration& c = {}) { return roofline_seconds(op, t, round_numbers(), c); }

Device device_of(const std::string& preset) {
  ClusterSpec spec;
  spec.preset = preset;
  spec.devices = 1;
  return make_topology(spec)->device();
}

MatMul product(std::int64_t m, std::int64_t n, std::int64_t k) { return {m, n, k, false, false, false}; }

Calibration tiled(double softening, double fill) {
  Calibration c;
  c.matmul.model = MatMulFit::Model::tiles;
  c.matmul.ceiling = 0.5;
  c.matmul.wave_softening = softening;
  c.matmul.fill_k = fill;
  c.matmul.tiles = {{128, 128, 1.0}};
  c.matmul.split_k = {1};
  c.matmul.alignment_bytes = 16;
  return c;
}

}  // namespace

TEST_CASE("a large product is bound by arithmetic, a thin one by memory") {
  CHECK(cost(product(1000, 1000, 1000), DType::fp32) == Approx(2e9 / 100e9).epsilon(1e-12));
  // 1 x 1000 times 1000 x 1000: 2 MFLOP, but a million weights of 4 bytes
  CHECK(cost(product(1, 1000, 1000), DType::fp32) == Approx(4 * 1002000 / 1e9).epsilon(1e-12));
}

TEST_CASE("a streaming operation moves its traffic at the reached bandwidth and pays for its kernel") {
  Calibration c;
  c.memory_share = 0.5;
  c.kernel = Duration::nanoseconds(2000);
  // dy, x in, dx out: 3 x 1e6 elements of 4 bytes at 0.5 GB/s; 3e6 FLOP are faster
  CHECK(cost(PointwiseBackward{1000000, PointwiseKind::relu}, DType::fp32, c) == Approx(12e6 / 0.5e9 + 2e-6).epsilon(1e-12));
  CHECK(cost(Accumulate{1000, DType::bf16, DType::fp32}, DType::bf16, c) == Approx(10e3 / 0.5e9 + 2e-6).epsilon(1e-12));
}

TEST_CASE("rows of experts are cast in two orders that no norm before them has written") {
  Device d = round_numbers();
  d.peak[DType::fp8] = FlopRate::flops_per_second(800e9);
  Calibration with, without;
  with.cast_bytes = 3;
  const auto casts = [&](const Op& op, DType t) { return roofline_seconds(op, t, d, with) - roofline_seconds(op, t, d, without); };
  // 8,000 rows of 500: read in 2 bytes, written twice in 1
  CHECK(casts(GroupedMatMul{2, 4, 4000, 300, 500}, DType::fp8) == Approx(8000 * 500 * 4 / 1e9).epsilon(1e-9));
  CHECK(casts(GroupedMatMul{2, 4, 8000, 300, 500, false, true}, DType::fp8) == Approx(8000 * 500 * 4 / 1e9).epsilon(1e-9));
  CHECK(casts(product(8000, 300, 500), DType::fp8) == Approx(8000 * 500 * 3 / 1e9).epsilon(1e-9));
  CHECK(casts(GroupedMatMul{2, 4, 4000, 300, 500}, DType::bf16) == 0);
}

TEST_CASE("products with scales by blocks have their operands cast by kernels of their own, scales and all") {
  Device d = round_numbers();
  d.peak[DType::fp8_block] = FlopRate::flops_per_second(800e9);
  Calibration with, without;
  with.cast_bytes = 3;
  const auto casts = [&](const Op& op) {
    return roofline_seconds(op, DType::fp8_block, d, with) - roofline_seconds(op, DType::fp8_block, d, without);
  };
  // Read in 2 bytes; by rows and by columns 1 byte, and 4 for 128 elements: 4.0625 an element.
  CHECK(casts(product(8000, 300, 512)) == Approx(8000 * 512 * 4.0625 / 1e9).epsilon(1e-9));
  CHECK(casts(GroupedMatMul{2, 4, 4000, 300, 512}) == Approx(8000 * 512 * 4.0625 / 1e9).epsilon(1e-9));
  CHECK(casts(MatMul{512, 300, 8000, true}) == 0);  // a weight gradient reads what these have written
}

TEST_CASE("a backward of attention is two products and two kernels") {
  Calibration c;
  c.kernel = Duration::nanoseconds(1000);
  const AttentionDims d{2, 3, 512, 1024};  // heads so wide that arithmetic bounds the products
  const double forward = cost(AttentionContext{d}, DType::fp32, c), backward = cost(AttentionContextBackward{d}, DType::fp32, c);
  CHECK(forward == Approx(2.0 * 2 * 3 * 512 * 512 * 1024 / 100e9 + 1e-6).epsilon(1e-12));
  CHECK(backward == Approx(2 * forward).epsilon(1e-12));
  CHECK(cost(AttentionScoresBackward{d}, DType::fp32, c) == Approx(2 * cost(AttentionScores{d}, DType::fp32, c)).epsilon(1e-12));
}

TEST_CASE("attention with dropout takes as much longer as was measured") {
  struct Published { const char* preset; AttentionKernel kernel; double plain_ms, dropped_ms; };
  // NVIDIA/TransformerEngine issue 3312, pull request 3313; forward and backward: cuDNN on H200 and B300, FlashAttention 2 on GB200
  const auto [preset, kernel, plain_ms, dropped_ms] =
      GENERATE(Published{"dgx-h200", AttentionKernel::tuned, 0.594, 0.614}, Published{"dgx-b300", AttentionKernel::tuned, 0.480, 0.525},
               Published{"dgx-a100-80gb", AttentionKernel::flash2, 0.695, 0.728});
  CAPTURE(preset);
  const Device device = device_of(preset);
  Calibration c = load_calibration(device.calibration);
  c.kernel = Duration::nanoseconds(0);
  const auto both = [&, kernel = kernel](double dropout) {
    const AttentionDims d{1, 16, 4096, 128};
    return roofline_seconds(FlashAttention{d, dropout, false, -1, DropoutSite::attention, kernel}, DType::bf16, device, c) +
           roofline_seconds(FlashAttentionBackward{d, dropout, false, -1, DropoutSite::attention, kernel}, DType::bf16, device, c);
  };
  CHECK(both(0.1) / both(0) == Approx(dropped_ms / plain_ms).epsilon(0.005));
  CHECK(both(0.5) == both(0.1));
}

TEST_CASE("dropout makes the arithmetic of attention longer and not its bytes") {
  Calibration c;
  FlashFit law;
  law.dropout_factor = 2;
  c.flash.fill(law);
  const auto time = [&](std::int64_t keys, double dropout) {
    return cost(FlashAttention{{1, 1, keys, 8}, dropout, false}, DType::bf16, c);
  };
  CHECK(time(4096, 0.1) == Approx(2 * time(4096, 0)).epsilon(1e-12));  // 0.27 GFLOP at 400 GFLOP/s, 0.26 MB at 1 GB/s
  CHECK(time(8, 0.1) == time(8, 0));
}

TEST_CASE("a deterministic backward pass of attention takes as much longer as was measured, and the forward pass no longer") {
  struct Published { const char* preset; double any_ms, ordered_ms; };
  // Dao-AILab/flash-attention pull requests 1893 (H100) and 2280 (B200, one CTA), causal
  const auto [preset, any_ms, ordered_ms] = GENERATE(Published{"dgx-h100", 2.391, 2.900}, Published{"dgx-b200", 2.459, 2.945});
  CAPTURE(preset);
  const Device device = device_of(preset);
  Calibration c = load_calibration(device.calibration);
  c.kernel = Duration::nanoseconds(0);
  const AttentionDims d{1, 16, 8192, 128};
  const auto back = [&, p = device](bool deterministic) {
    return roofline_seconds(FlashAttentionBackward{d, 0, false, -1, DropoutSite::attention, AttentionKernel::tuned, deterministic},
                            DType::bf16, p, c);
  };
  const auto forth = [&, p = device](bool deterministic) {
    return roofline_seconds(FlashAttention{d, 0, false, -1, DropoutSite::attention, AttentionKernel::tuned, deterministic},
                            DType::bf16, p, c);
  };
  CHECK(back(true) / back(false) == Approx(ordered_ms / any_ms).epsilon(0.001));
  CHECK(forth(true) == forth(false));
}

TEST_CASE("on Blackwell deterministic attention with dropout is FlashAttention 2, at its published rates") {
  struct Published { std::int64_t keys; double forward_tflops, backward_tflops; };
  // meta-pytorch/tritonbench pull request 171 (8 x 16 heads of 128), Dao-AILab/flash-attention issue 1589 (heads of 64, 16,384 tokens)
  const auto [keys, forward, backward] =
      GENERATE(Published{512, 245.259, 243.05}, Published{1024, 315.111, 280.64}, Published{2048, 352.104, 301.61},
               Published{4096, 353.912, 314.71}, Published{8192, 361.591, 329.09}, Published{16384, 330.587, 333.95});
  const auto preset = GENERATE(as<std::string>(), "dgx-b200", "gb200-nvl72");
  CAPTURE(keys, preset);
  const Device device = device_of(preset.c_str());
  Calibration c = load_calibration(device.calibration);
  c.kernel = Duration::nanoseconds(0);
  c.deterministic_dropout_flash->dropout_factor = 1;  // published without dropout
  const auto tflops = [&](const Op& op) {
    return static_cast<double>(matrix_flops(op).count()) / roofline_seconds(op, DType::bf16, device, c) / 1e12;
  };
  const AttentionDims wide{8, 16, keys, 128, 0, 0, false}, narrow{16384 / keys, 32, keys, 64, 0, 0, false};
  const auto site = DropoutSite::attention;
  const auto kernel = AttentionKernel::tuned;
  CHECK(tflops(FlashAttention{wide, 0.1, false, -1, site, kernel, true}) == Approx(forward).epsilon(0.11));
  CHECK(tflops(FlashAttentionBackward{narrow, 0.1, false, -1, site, kernel, true}) == Approx(backward).epsilon(0.03));
  const double faster = keys < 2048 ? 1 : 1.5;
  CHECK(tflops(FlashAttention{wide, 0, false, -1, site, kernel, true}) > faster * forward);  // cuDNN's, which is deterministic without
  CHECK(tflops(FlashAttention{wide, 0.1, false, -1, site, kernel, false}) > faster * forward);
}

TEST_CASE("tiles are dealt in waves") {
  const Gemm full{1, 1280, 128, 1000};  // ten tiles
  const MatMulEngine ten{100e9, 10e9, 1e9, 10, 16, true};
  const double wave = 2.0 * 128 * 128 * 1000 / (100e9 / 10 * 0.5);
  CHECK(matmul_seconds(full, tiled(1, 0).matmul, ten) == Approx(wave).epsilon(1e-12));
  const Gemm one_more{1, 1281, 128, 1000};  // eleven tiles: a second wave, or a tenth of one
  CHECK(matmul_seconds(one_more, tiled(1, 0).matmul, ten) == Approx(2 * wave).epsilon(1e-12));
  CHECK(matmul_seconds(one_more, tiled(0, 0).matmul, ten) == Approx(1.1 * wave).epsilon(1e-12));
  CHECK(matmul_seconds(one_more, tiled(0.5, 0).matmul, ten) == Approx(1.55 * wave).epsilon(1e-12));
  CHECK(matmul_seconds(full, tiled(1, 500).matmul, ten) == Approx(1.5 * wave).epsilon(1e-12));
  CHECK(matmul_seconds({10, 128, 128, 1000}, tiled(1, 0).matmul, ten) == Approx(wave).epsilon(1e-12));
  CHECK(matmul_seconds({1, 1, 8, 1000}, tiled(1, 0).matmul, ten) == Approx(wave).epsilon(1e-12));  // at least one wave
}

TEST_CASE("k is cut while compute units stand idle and never for nothing") {
  MatMulFit fit = tiled(1, 0).matmul;
  const MatMulEngine ten{100e9, 10e9, 1e12, 10, 16, true};
  const Gemm lonely{1, 128, 128, 8000};
  const double alone = matmul_seconds(lonely, fit, ten);
  fit.split_k = {1, 2, 4, 8};
  const double sums = 4.0 * 128 * 128 * 9 / 1e12;  // eight fp32 parts written, then read and added
  CHECK(matmul_seconds(lonely, fit, ten) == Approx(alone / 8 + sums).epsilon(1e-12));
  const Gemm full{1, 1280, 1280, 8000};
  CHECK(matmul_seconds(full, fit, ten) == Approx(10 * alone).epsilon(1e-12));
}

TEST_CASE("unaligned rows slow a product down, and batches of them lose the tensor cores") {
  const MatMulEngine bf16{100e9, 10e9, 1e9, 10, 16, true}, fp32{100e9, 10e9, 1e9, 10, 32, false};
  MatMulFit fit = tiled(0, 0).matmul;
  fit.unaligned_share = 0.25;
  // Half of the rate is the ceiling here: first operand's rows of 150, or the result's of 1276, are no multiples of 16 bytes.
  CHECK(matmul_seconds({1, 1280, 1280, 150}, fit, bf16) == Approx(4 * 2.0 * 1280 * 1280 * 150 / 100e9 / 0.5).epsilon(1e-12));
  CHECK(matmul_seconds({1, 1280, 1276, 152}, fit, bf16) == Approx(4 * 2.0 * 1280 * 1280 * 152 / 100e9 / 0.5).epsilon(1e-12));
  CHECK(matmul_seconds({1, 1276, 1280, 152}, fit, bf16) == Approx(2.0 * 1280 * 1280 * 152 / 100e9 / 0.5).epsilon(1e-12));
  CHECK(matmul_seconds({1, 1280, 1280, 150}, fit, fp32) == Approx(2.0 * 1280 * 1280 * 150 / 100e9 / 0.5).epsilon(1e-12));
  // A batch: the same tiles at the vector units' rate; 193 columns fill two of them.
  CHECK(matmul_seconds({10, 1280, 193, 150}, fit, bf16) == Approx(10 * 2.0 * 1280 * 256 * 150 / 10e9 / 0.5).epsilon(1e-12));
  fit.fill_k = 100;  // a tenth of the rate: filling costs a tenth of the k
  CHECK(matmul_seconds({2, 1280, 1280, 150}, fit, bf16) == Approx(2 * 2.0 * 1280 * 1280 * 160 / 10e9 / 0.5).epsilon(1e-12));
}

TEST_CASE("what padding gains is near what was measured") {
  const auto times = [](const std::string& preset, const MatMul& a, const MatMul& b) {
    const auto model = make_cost_model(device_of(preset));
    return model->duration(a, DType::bf16).seconds() / model->duration(b, DType::bf16).seconds();
  };
  // m87-labs/kestrel pull request 143, Hopper at 1,200 MHz: 588 columns, padded to 592, from 130.6 to 37.0 us. The padded one took
  // another generation's kernel there, and what a kernel takes at least is more of it here at full clock: within a quarter.
  CHECK(times("dgx-h100", product(9477, 1152, 588), product(9477, 1152, 592)) == Approx(130.6 / 37.0).epsilon(0.25));
}

TEST_CASE("a systolic array works on whole tiles") {
  MatMulFit fit;
  fit.model = MatMulFit::Model::rounded;
  fit.ceiling = 0.8;
  fit.round_m = fit.round_n = fit.round_k = 128;
  const MatMulEngine e{100e9, 10e9, 1e9, 1, 16, true};
  CHECK(matmul_seconds({1, 128, 256, 384}, fit, e) == Approx(2.0 * 128 * 256 * 384 / 80e9).epsilon(1e-12));
  CHECK(matmul_seconds({3, 1, 129, 80}, fit, e) == Approx(3 * 2.0 * 128 * 256 * 128 / 80e9).epsilon(1e-12));
}

TEST_CASE("every operation has a cost on every device, and none but communication is refused") {
  const char* preset = GENERATE("dgx-a100-80gb", "hls-gaudi2", "trn1.32xlarge");
  const auto model = make_cost_model(device_of(preset));
  for (std::size_t k = 0; k < kOpKinds; ++k) {
    Op op = empty_op(k);
    visit_fields(op, [](const char*, auto& v) {
      if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::int64_t>) v = 256;
      if constexpr (std::is_same_v<std::decay_t<decltype(v)>, DType>) v = DType::bf16;  // the one type that all of them multiply
    });
    INFO(preset << " " << kind_name(op));
    // A device without a published link to its host cannot say how long a copy takes.
    const bool unknown = std::holds_alternative<HostCopy>(op) && device_of(preset).host_link.bytes_per_second() == 0;
    if (is_communication(op))
      CHECK_THROWS_AS(model->duration(op, DType::bf16), ContractError);
    else if (unknown)
      CHECK_THROWS_AS(model->duration(op, DType::bf16), InfeasibleError);
    else
      CHECK(model->duration(op, DType::bf16) > Duration{});
  }
}

TEST_CASE("what a processor offloads stays in its memory, which a copy reads and writes") {
  HostCopy copy;
  copy.dtype = DType::fp32;
  copy.elements = 1 << 24;
  const Device cpu = device_of("cpu-host");
  const double seconds = make_cost_model(cpu)->duration(Op(copy), DType::fp32).seconds();
  CHECK(seconds >= 2 * 4.0 * (1 << 24) / cpu.memory_bandwidth.bytes_per_second());
}

TEST_CASE("what Gaudi has in its host's memory comes over sixteen lanes of PCIe") {
  struct Lanes { const char* preset; double transfers; };
  for (const Lanes& of : {Lanes{"hls-gaudi1", 16e9}, Lanes{"hls-gaudi2", 16e9}, Lanes{"hls-gaudi3", 32e9}}) {
    INFO(of.preset);
    HostCopy copy;
    copy.dtype = DType::fp32;
    copy.elements = 1 << 28;
    const double bytes_a_second = 16 * of.transfers * 128 / 130 / 8;  // 128 of 130 bits are data
    const double seconds = make_cost_model(device_of(of.preset))->duration(Op(copy), DType::bf16).seconds();
    CHECK(seconds == Approx(4.0 * (1 << 28) / bytes_a_second).epsilon(0.02));  // presets have whole gigabytes
  }
}

TEST_CASE("no product runs faster than the published peak, and large ones come near the published best") {
  struct Published { const char* preset; double peak, best; std::int64_t m, n, k; };
  // best shapes of a search on each device, TFLOP/s (stas00/ml-engineering, compute/accelerator)
  const auto p = GENERATE(values<Published>({{"dgx-a100-80gb", 312, 271.2, 1024, 10240, 5120},
                                             {"dgx-h100", 989.4, 794.5, 6144, 17920, 2816},
                                             {"hls-gaudi2", 432, 418.7, 14336, 15360, 2048}}));
  const auto model = make_cost_model(device_of(p.preset));
  const MatMul o = product(p.m, p.n, p.k);
  const double reached = static_cast<double>(matrix_flops(o).count()) / model->duration(o, DType::bf16).seconds() / 1e12;
  INFO(p.preset << ": " << reached);
  CHECK(reached < p.peak);
  CHECK(reached < p.best * 1.05);  // training clocks are below those of a search for the best
  CHECK(reached > p.best * 0.75);
}

TEST_CASE("cost grows with every dimension by whole tiles") {
  const auto model = make_cost_model(device_of("dgx-a100-80gb"));
  const auto seconds = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return model->duration(product(m, n, k), DType::bf16);
  };
  for (std::int64_t s = 512; s < 8192; s += 512) {
    CHECK(seconds(s, 2048, 2048) <= seconds(s + 512, 2048, 2048));
    CHECK(seconds(2048, s, 2048) <= seconds(2048, s + 512, 2048));
    CHECK(seconds(2048, 2048, s) < seconds(2048, 2048, s + 512));
  }
}

TEST_CASE("Blackwell scales blocks of mxfp8 at the rate of fp8, and of nvfp4 at twice that or more") {
  // Throughput of tcgen05.mma beside Hopper's fp8: f8f6f4 and mxf8f6f4 2, mxf4nvf4 4 (NVIDIA/cutlass, media/docs/cpp/blackwell_functionality.md)
  for (const char* preset : {"dgx-b200", "dgx-b300", "gb200-nvl72", "gb300-nvl72"}) {
    INFO(preset);
    const Device device = device_of(preset);
    const auto rate = [&](DType t) { return device.peak.at(t).flops_per_second(); };
    CHECK(rate(DType::mxfp8) == rate(DType::fp8));
    CHECK(rate(DType::nvfp4) >= 2 * rate(DType::fp8));
    const auto model = make_cost_model(device);
    const MatMul o = product(16384, 16384, 16384);
    const auto seconds = [&](DType t) { return model->duration(o, t).seconds(); };
    CHECK(seconds(DType::mxfp8) == seconds(DType::fp8));
    CHECK(seconds(DType::nvfp4) < seconds(DType::fp8));
    CHECK(seconds(DType::nvfp4) > seconds(DType::fp8) / 4);
    CHECK(seconds(DType::nvfp4) > static_cast<double>(matrix_flops(o).count()) / rate(DType::nvfp4));
  }
  CHECK_THROWS_AS(make_cost_model(device_of("dgx-h100"))->duration(product(64, 64, 64), DType::mxfp8), InfeasibleError);
}

TEST_CASE("Hopper multiplies what has scales by blocks at the rate of fp8, and its products reach a share of their own") {
  for (const char* preset : {"dgx-h100", "dgx-h200", "hgx-h100-96gb"}) {
    const Device device = device_of(preset);
    CHECK(device.peak.at(DType::fp8_block) == device.peak.at(DType::fp8));
  }
  Device d = round_numbers();
  d.peak[DType::fp8] = d.peak[DType::fp8_block] = FlopRate::flops_per_second(800e9);
  Calibration c;
  c.matmul.narrow_ceiling = 0.5, c.matmul.block_ceiling = 0.4;
  const auto seconds = [&](DType t) { return roofline_seconds(product(1000, 1000, 1000), t, d, c); };
  CHECK(seconds(DType::fp8) == Approx(2e9 / (0.5 * 800e9)).epsilon(1e-9));
  CHECK(seconds(DType::fp8_block) == Approx(2e9 / (0.4 * 800e9)).epsilon(1e-9));
  for (const char* preset : {"dgx-a100-80gb", "dgx-b200", "hls-gaudi2"})
    CHECK_THROWS_AS(make_cost_model(device_of(preset))->duration(product(64, 64, 64), DType::fp8_block), InfeasibleError);
}

TEST_CASE("a type without a published rate is refused by name") {
  try {
    make_cost_model(device_of("dgx-a100-80gb"))->duration(product(64, 64, 64), DType::fp8);
    FAIL("accepted");
  } catch (const InfeasibleError& e) {
    CHECK(e.problems()[0].field == "training.dtypes.compute");
    CHECK(e.problems()[0].value == "fp8");
    CHECK(e.problems()[0].remedy.find("bf16") != std::string::npos);
  }
}

TEST_CASE("the published layer of GPT-3 175B on eight A100 comes near its published rate") {
  // Narayanan et al., SC'21, Table 1: 138 TFLOP/s a GPU over the whole step, micro-batch 1, tensor 8, recomputation. A
  // layer's computation alone, without communication, bubble, embedding and head, has to be somewhat faster than that.
  const auto model = make_cost_model(device_of("dgx-a100-80gb"));
  const std::int64_t T = 2048, h = 12288, t = 8;
  const AttentionDims d{1, 96 / t, T, 128};
  const Op forward[] = {LayerNorm{T, h, 1e-5}, product(T, 3 * h / t, h), AttentionScores{d}, AttentionSoftmax{d, 0.1, false},
                        AttentionContext{d}, product(T, h, h / t), BiasDropoutAdd{T, h, 0.1, true, DropoutSite::attention_output},
                        LayerNorm{T, h, 1e-5}, product(T, 4 * h / t, h), Pointwise{T * 4 * h / t, PointwiseKind::gelu_tanh},
                        product(T, h, 4 * h / t), BiasDropoutAdd{T, h, 0.1, true, DropoutSite::mlp_output}};
  double seconds = 0, flops = 0;
  for (const Op& op : forward) {
    seconds += model->duration(op, DType::fp16).seconds();
    flops += static_cast<double>(matrix_flops(op).count());
  }
  const double rate = flops / seconds / 1e12;
  INFO(rate << " TFLOP/s, " << seconds * 1e3 << " ms");
  CHECK(rate > 150);
  CHECK(rate < 220);
}

TEST_CASE("every calibration can be read and an unknown one is refused") {
  for (const std::string& name : preset_names("topology/calibration")) CHECK_NOTHROW(load_calibration(name));
  CHECK(load_calibration("").memory_share == 1);
  CHECK_THROWS_AS(load_calibration("a101"), ConfigError);
}

TEST_CASE("a spread of devices that cannot be is refused by file, field and value") {
  nlohmann::json file = read_json(find_preset("topology/calibration", "a100"));
  file["spread"]["value"] = 0.5;
  const std::string path = (std::filesystem::temp_directory_path() / ("tandem_spread_" + std::to_string(::getpid()) + ".json")).string();
  std::ofstream(path) << file;
  try {
    load_calibration(path);
    FAIL("accepted");
  } catch (const ConfigError& e) {
    CHECK(e.problems().front().file == path);
    CHECK(e.problems().front().field == "spread");
    CHECK(e.problems().front().reason.find("at most 0.2") != std::string::npos);
  }
  std::filesystem::remove(path);
}

TEST_CASE("an unmeasured CPU says so") {
  ::setenv("TANDEM_MEASURED", "/nowhere/at/all", 1);
  const auto notes = make_cost_model(device_of("cpu-host"))->notes();
  ::unsetenv("TANDEM_MEASURED");
  REQUIRE(!notes.empty());
  CHECK(notes.front().find("no measured table") != std::string::npos);
  CHECK(notes.front().find("tandem measure") != std::string::npos);
}
