#include "sim/cost/product_table.hpp"

#include <unistd.h>

#include <filesystem>

#include "models/base/error.hpp"
#include "models/base/left_out.hpp"
#include "models/base/presets.hpp"
#include "sim/cost/calibration.hpp"
#include "sim/cost/roofline.hpp"
#include "sim/result/product_coverage.hpp"
#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"

using namespace tandem;
using namespace tandem::sim;
using tandem::tests::SmallPlan;

namespace {

Device a100() {
  ClusterSpec spec;
  spec.preset = "dgx-a100-80gb";
  spec.devices = 1;
  return make_topology(spec)->device();
}

MatMul weight_gradient(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {m, n, k, true, false, false, true, DType::fp32};
}

CostTable table_of(std::vector<CostSample> samples) {
  CostTable t;
  t.device = "a100-sxm4-80gb";
  t.date = "2026-01-02";
  t.facts = {{"card", "a card"}, {"source", "a source"}};
  t.samples = std::move(samples);
  return t;
}

/// The product, and what differs from it in one thing each.
std::vector<Op> neighbours() {
  const MatMul p = weight_gradient(4096, 1024, 2048);
  std::vector<Op> out;
  for (const auto field : {&MatMul::m, &MatMul::n, &MatMul::k})
    for (const std::int64_t more : {-8, 8}) {
      MatMul other = p;
      other.*field += more;
      out.emplace_back(other);
    }
  MatMul plain = p, narrow = p, turned = p;
  plain.accumulate = false;
  narrow.total = DType::bf16;
  turned.trans_a = false;
  for (const Op& op :
       {Op(plain), Op(narrow), Op(turned), Op(MatMul{1024, 4096, 2048, true, false, false, true, DType::fp32}),
        Op(GroupedWeightGrad{1, 1, 2048, 4096, 1024, false, true, DType::fp32}), Op(LayerNorm{4096, 1024, 1e-5}),
        Op(AttentionScores{{1, 1, 4096, 2048, 0, 1024}}), Op(BiasGrad{4096, 1024}),
        Op(FlashAttention{{1, 1, 4096, 64}, 0, false})})
    out.push_back(op);
  return out;
}

struct TemporaryTable {
  explicit TemporaryTable(const CostTable& t) { save_cost_table(t, path); }
  ~TemporaryTable() { std::filesystem::remove(path); }
  std::string path =
      (std::filesystem::temp_directory_path() / ("tandem_products_" + std::to_string(::getpid()) + ".json")).string();
};

Problem problem_of(const Device& device) {
  try {
    make_cost_model(device);
  } catch (const ConfigError& e) {
    REQUIRE(e.problems().size() == 1);
    return e.problems().front();
  }
  return {};
}

}  // namespace

TEST_CASE("a measured product changes the time of exactly that product") {
  const auto law = make_cost_model(a100());
  const auto with = make_cost_model(a100(), table_of({{weight_gradient(4096, 1024, 2048), DType::bf16, 0.125}}));
  const Op measured = weight_gradient(4096, 1024, 2048);
  CHECK(with->duration(measured, DType::bf16) == Duration::seconds(0.125));
  CHECK((with->covered(measured, DType::bf16) && !law->covered(measured, DType::bf16)));
  CHECK(law->duration(measured, DType::bf16) < Duration::seconds(0.01));
  CHECK(with->duration(measured, DType::fp16) == law->duration(measured, DType::fp16));
  for (const Op& op : neighbours()) {
    INFO(kind_name(op));
    CHECK(with->duration(op, DType::bf16) == law->duration(op, DType::bf16));
    CHECK(!with->covered(op, DType::bf16));
  }
  CHECK(with->launch() == law->launch());
}

TEST_CASE("with another memory a measured product bound by arithmetic stays, and one bound by memory changes with it") {
  const MatMul square{8192, 8192, 8192, false, true}, thin{8192, 8192, 16, false, true};
  const CostTable table = table_of({{square, DType::bf16, 4e-3}, {thin, DType::bf16, 1e-4}});
  const auto seconds = [&](const Op& op, double times) {
    Device device = a100();
    device.memory_bandwidth = device.memory_bandwidth * times;
    return make_cost_model(device, table)->duration(op, DType::bf16).seconds();
  };
  for (const double times : {0.5, 1.001, 2.0, 100.0}) CHECK(seconds(square, times) == 4e-3);
  CHECK(seconds(thin, 1) == Approx(1e-4));
  CHECK(seconds(thin, 1.001) == Approx(1e-4).epsilon(1e-3));
  // 135 MB at 51 GB/s take longer than its arithmetic and than a kernel takes to begin: 2.6 ms to some microseconds.
  CHECK(seconds(thin, 0.0125) == Approx(2 * seconds(thin, 0.025)).epsilon(0.01));
  double before = 1;
  for (double times = 0.25; times < 64; times *= 1.1) {
    const double now = seconds(thin, times);
    CHECK(now <= before);
    before = now;
  }
}

TEST_CASE("a table of products is none where its source is left out") {
  ClusterSpec spec;
  spec.preset = "dgx-b200";
  spec.devices = 1;
  const Device b200 = make_topology(spec)->device();
  REQUIRE(b200.measured == "b200-sxm-180gb-simumax");
  const auto covers = [&] {
    const auto costs = make_cost_model(b200);
    const CostTable table = load_cost_table(find_preset("topology/measured", b200.measured));
    return costs->covered(table.samples.front().op, table.samples.front().dtype);
  };
  CHECK(covers());
  const Sources source{{"simumax-b200"}, {"MooreThreads/SimuMax"}};
  const LeftOut without(source);
  CHECK_FALSE(covers());
}

TEST_CASE("a bias or its gradient in the product's own kernel does not make it another product") {
  const auto with = make_cost_model(a100(), table_of({{MatMul{512, 256, 128, false, true}, DType::bf16, 0.5}}));
  CHECK(with->duration(MatMul{512, 256, 128, false, true, true}, DType::bf16) == Duration::seconds(0.5));
  MatMul sums{512, 256, 128, false, true};
  sums.sums = true;
  CHECK(with->duration(sums, DType::bf16) == Duration::seconds(0.5));
}

TEST_CASE("a product with its activation takes the product and the bytes beside it, or what was measured of both") {
  const Device device = a100();
  const Calibration calibration = load_calibration(device.calibration);
  const double beside = 2.0 * 8192 * 8192 / (device.memory_bandwidth.bytes_per_second() * calibration.memory_share);
  const MatMul plain{8192, 8192, 8192, false, true};
  for (const auto activation : {ProductActivation::gelu, ProductActivation::gelu_gradient}) {
    MatMul fused = plain;
    fused.activation = activation;
    const auto seconds = [&](const Op& op, const ProductTable* table) {
      return roofline_seconds(op, DType::bf16, device, calibration, table);
    };
    CHECK(seconds(fused, nullptr) - seconds(plain, nullptr) == Approx(beside));
    const ProductTable alone(table_of({{plain, DType::bf16, 4e-3}}), "alone");
    CHECK(seconds(fused, &alone) == Approx(4e-3 + beside));
    const ProductTable both(table_of({{plain, DType::bf16, 4e-3}, {fused, DType::bf16, 4.1e-3}}), "both");
    CHECK(seconds(fused, &both) == Approx(4.1e-3));
    CHECK(seconds(plain, &both) == Approx(4e-3));
  }
}

TEST_CASE("time in steady load counts where it was measured, and of repeated products the least") {
  const Op op = MatMul{64, 64, 64, false, true};
  CostSample first{op, DType::bf16, 1.0}, second{op, DType::bf16, 2.0};
  first.sustained_s = 4.0;
  second.sustained_s = 3.0;
  const ProductTable t(table_of({first, second}), "t");
  CHECK(t.seconds(op, DType::bf16) == 3.0);
  CHECK(t.size() == 1);
}

TEST_CASE("experts with an even share of the rows are read as groups of so many") {
  const ProductTable t(table_of({{GroupedMatMul{8, 8, 128, 256, 64, true, false}, DType::bf16, 0.25}}), "t");
  CHECK(t.seconds(GroupedMatMul{1, 8, 1024, 256, 64, true, true}, DType::bf16) == 0.25);
  CHECK(t.seconds(GroupedMatMul{32, 8, 32, 256, 64, true, false}, DType::bf16) == 0.25);  // from four ranks
  CHECK(!t.seconds(GroupedMatMul{1, 8, 1032, 256, 64, true, true}, DType::bf16));
}

TEST_CASE("a measured product of a narrow type has its casts beside it") {
  ClusterSpec spec;
  spec.preset = "dgx-h100";
  spec.devices = 1;
  const Device device = make_topology(spec)->device();
  const Calibration c = load_calibration(device.calibration);
  CostTable t = table_of(
      {{MatMul{1000, 2000, 3000, false, true}, DType::fp8, 0.5}, {MatMul{1000, 2000, 3000, true}, DType::fp8, 0.5}});
  const auto with = make_cost_model(device, t);
  const double cast = 1000.0 * 3000.0 * c.cast_bytes / (device.memory_bandwidth.bytes_per_second() * c.memory_share);
  CHECK(with->duration(MatMul{1000, 2000, 3000, false, true}, DType::fp8).seconds() ==
        Approx(0.5 + cast).epsilon(1e-12));
  CHECK(with->duration(MatMul{1000, 2000, 3000, true}, DType::fp8) == Duration::seconds(0.5));
}

TEST_CASE("shares of measured and of other products add up to all of their time") {
  SmallPlan small;
  small.pipeline = 2;
  small.precision = "bf16";
  const Plan plan = small.plan();
  const TaskGraph graph = lower(plan);
  ClusterSpec cluster = plan.cluster;
  cluster.preset = "dgx-a100-80gb";
  const auto topology = make_topology(cluster);
  const auto law = make_cost_model(topology->device());
  const auto is_forward = [](const Op& op) {
    const auto* p = std::get_if<MatMul>(&op);
    return p != nullptr && p->trans_b;
  };
  std::vector<CostSample> samples;
  double forward = 0, others = 0;  // forward products are measured to take twice as long as by the law
  for (const Program& p : graph.programs)
    for (const Instance& i : p.instances)
      for (const Task& task : graph.of(i).tasks) {
        if (matrix_flops(task.op).count() == 0) continue;  // no attention without a score matrix in this plan
        const double seconds = law->duration(task.op, task.dtype).seconds();
        (is_forward(task.op) ? forward : others) += seconds;
        if (is_forward(task.op)) samples.push_back({task.op, task.dtype, 2 * seconds});
      }
  const Mesh mesh = make_mesh(plan);
  const auto cost = make_cost_model(topology->device(), table_of(samples));
  const auto c = product_coverage({graph, mesh, *topology, *cost});
  REQUIRE(c.has_value());
  CHECK(c->share == Approx(2 * forward / (2 * forward + others)).epsilon(1e-6));
  double all = c->share;
  for (const UncoveredProduct& u : c->not_covered) {
    all += u.share;
    CHECK(u.product != "forward");
    CHECK(u.share <= c->not_covered.front().share);
  }
  CHECK(all == Approx(1).epsilon(1e-12));
  CHECK((c->date == "2026-01-02" && c->card == "a card" && c->source == "a source"));
}

TEST_CASE("a device without measured products has the law's times and no coverage") {
  const Device device = a100();
  REQUIRE(device.measured.empty());
  const auto model = make_cost_model(device);
  CHECK(model->products() == nullptr);
  SmallPlan small;
  small.precision = "bf16";
  const Plan plan = small.plan();
  ClusterSpec cluster = plan.cluster;
  cluster.preset = "dgx-a100-80gb";
  CHECK(!simulate(plan, lower(plan), *make_topology(cluster)).measured_products.has_value());
}

TEST_CASE("measured products of another device are refused by file, field, value and remedy") {
  Device device = a100();
  device.measured = "h200-sxm-141gb";
  Problem p = problem_of(device);
  CHECK(p.file.ends_with("topology/measured/h200-sxm-141gb.json"));
  CHECK(p.field == "device");
  CHECK(p.value == "h200-sxm-141gb");
  CHECK(p.reason.find(device.name) != std::string::npos);
  CHECK(p.remedy.find("a100-sxm4-80gb") != std::string::npos);
  const TemporaryTable own(table_of({{MatMul{64, 64, 64}, DType::bf16, 1.0}}));
  device.measured = own.path;
  CHECK(make_cost_model(device)->duration(MatMul{64, 64, 64}, DType::bf16) == Duration::seconds(1.0));
  device.measured = "h200-sxm-141g";
  p = problem_of(device);
  CHECK(p.field == "measured");
  CHECK(p.remedy.find("h200-sxm-141gb") != std::string::npos);
}

TEST_CASE("a product without a time in steady load takes as much longer as those of its type that have both do in the mean") {
  const MatMul a{512, 512, 512}, b{1024, 512, 512}, c{2048, 512, 512};
  CostSample one{a, DType::bf16, 1.0}, other{b, DType::bf16, 2.0};
  one.sustained_s = 1.3;
  other.sustained_s = 1.8;  // a short one's noise: no steady load is faster
  const ProductTable t(table_of({one, other, {c, DType::bf16, 4.0}, {c, DType::fp16, 4.0}}), "t");
  CHECK(t.seconds(a, DType::bf16) == 1.3);
  CHECK(t.seconds(b, DType::bf16) == 1.8);
  CHECK(*t.seconds(c, DType::bf16) == Approx(4.0 * (1.3 + 1.0) / 2));
  CHECK(t.seconds(c, DType::fp16) == 4.0);  // of that type nothing is known
}

TEST_CASE("a copy of a device preset has its measured products, one with other rates has not") {
  ClusterSpec spec;
  spec.preset = "dgx-h100";
  spec.devices = 8;
  Device copy = make_topology(spec)->device();
  REQUIRE(copy.measured == "h100-sxm5-80gb");
  copy.preset.clear();
  CHECK(make_cost_model(copy)->products() != nullptr);
  copy.name = "of another name";
  CHECK(make_cost_model(copy)->products() != nullptr);
  Device slower = copy;
  slower.peak[DType::bf16] = FlopRate::flops_per_second(1e14);
  slower.name = "h100-sxm5-80gb";  // a name makes no device
  const Problem p = problem_of(slower);
  CHECK(p.field == "device");
  CHECK(p.value == "h100-sxm5-80gb");
  CHECK(p.reason.find("other rates") != std::string::npos);
  copy.measured = "/nowhere/table.json";
  CHECK(problem_of(copy).file == "/nowhere/table.json");
}

TEST_CASE("every measured table names its card and source and holds products") {
  for (const std::string& name : preset_names("topology/measured")) {
    INFO(name);
    const CostTable table = load_cost_table(find_preset("topology/measured", name));
    CHECK(table.of_accelerator());
    for (const char* fact : {"card", "source", "times", "law"}) CHECK(table.facts.contains(fact));
    CHECK(ProductTable(table, name).size() > 0);
    CHECK(name.starts_with(table.device));
  }
}
