// Products with scales by blocks on Hopper, and casts of their operands, against published times.

#include <nlohmann/json.hpp>
#include <vector>

#include "models/base/json.hpp"
#include "sim/cost/calibration.hpp"
#include "sim/cost/roofline.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "topology/topology.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

Device h100() {
  ClusterSpec spec;
  spec.preset = "dgx-h100";
  spec.devices = 1;
  return make_topology(spec)->device();
}

MatMul dense(const nlohmann::json& row) {
  MatMul o{row["m"], row["n"], row["k"], row["trans_a"], row["trans_b"]};
  o.accumulate = row["accumulate"];
  return o;
}

/// By kind of row of DeepGEMM's table, (law - published) / published of the kernels alone; products of fewer than 1,024 rows, which
/// memory bounds, are left out.
std::vector<double> errors(const char* kind, bool gradient) {
  const Device device = h100();
  Calibration laws = load_calibration(device.calibration);
  laws.kernel = Duration::nanoseconds(0);
  laws.cast_bytes = 0;
  const auto table = read_json(tests::source_dir() + "/topology/measured/h800-sxm5-deepgemm.json")["entries"]["fp8_block"];
  std::vector<double> out;
  for (const auto& row : table[kind]) {
    const std::int64_t rows = row["m"];
    if (!gradient && rows < 1024) continue;
    if (row.contains("trans_a") && row["trans_a"] != gradient) continue;
    const Op op = row.contains("trans_a") ? Op(dense(row))
                  : gradient ? Op(GroupedWeightGrad{row["groups"], row["experts"], rows, row["n"], row["k"], false, true})
                             : Op(GroupedMatMul{row["groups"], row["experts"], rows, row["n"], row["k"], true});
    out.push_back(roofline_seconds(op, DType::fp8_block, device, laws) / row["seconds"].get<double>() - 1);
  }
  return out;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("products of blocks take 13 % longer in steady load than DeepGEMM's were measured to take in short runs, within a few percent") {
  struct Row { const char* kind; bool gradient; std::size_t rows; };
  for (const Row& r : {Row{"matmul", false, 6}, Row{"grouped_matmul", false, 6}, Row{"matmul", true, 9}, Row{"grouped_weight_grad", true, 5}}) {
    CAPTURE(r.kind, r.gradient);
    const std::vector<double> all = errors(r.kind, r.gradient);
    REQUIRE(all.size() == r.rows);
    CHECK(mean(all) == Approx(0.13).margin(0.08));
    for (const double e : all) CHECK((e > -0.1 && e < 0.35));
  }
}

TEST_CASE("casts into blocks move their bytes at the rate that such kernels were measured to have on an H100") {
  // pytorch/ao 36027d82d: benchmarks/prototype/blockwise_fp8_training/README.md, act_quant_lhs and wgrad_quant_rhs of 32,768 x 7,168
  // numbers: two kernels, which both read 16 bits. The law's one kernel reads them once.
  const double both = 253.5e-6 + 275.3e-6, read = 2, order = 1 + 4.0 / 128;
  const Device device = h100();
  const Calibration with = load_calibration(device.calibration);
  Calibration without = with;
  without.cast_bytes = 0;
  const MatMul o{32768, 2048, 7168, false, true};
  const double cast = roofline_seconds(o, DType::fp8_block, device, with) - roofline_seconds(o, DType::fp8_block, device, without);
  CHECK(cast * 2 * (read + order) / (read + 2 * order) == Approx(both).epsilon(0.1));
}
