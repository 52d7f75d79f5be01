#include <algorithm>
#include <cmath>
#include <random>

#include "reports/prediction/op_fields.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/cost/cost_table.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using tandem::sim::MeasuredCosts;

namespace {

/// A plausible machine: a call costs 0.4 us, products run at a rate that rises smoothly with each dimension.
double law(const MatMul& o) {
  const auto fill = [](std::int64_t d, double half) { return static_cast<double>(d) / (static_cast<double>(d) + half); };
  const double rate = 60e9 * fill(o.m, 12) * fill(o.n, 20) * fill(o.k, 30) * (o.trans_a ? 0.8 : 1.0);
  return 0.4e-6 + static_cast<double>(matrix_flops(o).count()) / rate;
}

/// A streaming machine: 0.3 us a call, 8 GB/s, rows cost 5 ns each.
double law(const LayerNorm& o) {
  return 0.3e-6 + static_cast<double>(o.rows) * 5e-9 + static_cast<double>(traffic(o, DType::fp32).count()) / 8e9;
}

MatMul product(std::int64_t m, std::int64_t n, std::int64_t k, bool trans_a = false) {
  return {m, n, k, trans_a, false, false};
}

CostTable measured() {
  CostTable t;
  for (std::int64_t m : {32, 128, 512, 2048})
    for (std::int64_t n : {16, 48, 144, 432, 1024})
      for (std::int64_t k : {16, 48, 144, 432, 1024})
        for (bool trans : {false, true})
          t.samples.push_back({product(m, n, k, trans), DType::fp32, law(product(m, n, k, trans))});
  for (std::int64_t rows : {16, 64, 256, 1024})
    for (std::int64_t cols : {32, 128, 512})
      t.samples.push_back({LayerNorm{rows, cols, 1e-5}, DType::fp32, law(LayerNorm{rows, cols, 1e-5})});
  return t;
}

double error(const MeasuredCosts& costs, const MatMul& o) { return *costs.seconds(o, DType::fp32) / law(o) - 1; }

}  // namespace

TEST_CASE("a measured table is exact where it was measured") {
  const CostTable table = measured();
  const MeasuredCosts costs(table);
  for (const CostSample& s : table.samples)
    REQUIRE(*costs.seconds(s.op, s.dtype) == Approx(s.seconds).epsilon(1e-12));  // through a logarithm and back
}

TEST_CASE("between samples a smooth law is met within a few percent") {
  const MeasuredCosts costs(measured());
  std::mt19937 random(7);
  const auto dim = [&](double low, double high) {
    return std::llround(std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random)));
  };
  double sum = 0, worst = 0;
  for (int i = 0; i < 300; ++i) {
    const MatMul o = product(dim(32, 2048), dim(16, 1024), dim(16, 1024), i % 2);
    sum += std::abs(error(costs, o));
    worst = std::max(worst, std::abs(error(costs, o)));
  }
  CHECK(sum / 300 < 0.02);  // samples lie a factor of three apart, the law bends by up to 30 % between them
  CHECK(worst < 0.08);
  const LayerNorm norm{100, 96, 1e-5};
  CHECK(*costs.seconds(norm, DType::fp32) == Approx(law(norm)).epsilon(0.05));
}

TEST_CASE("transposed products are another curve") {
  const MeasuredCosts costs(measured());
  const double plain = *costs.seconds(product(128, 144, 144), DType::fp32);
  CHECK(*costs.seconds(product(128, 144, 144, true), DType::fp32) > 1.15 * plain);
}

TEST_CASE("beyond the samples large operations keep their rate and small ones their fixed cost") {
  const MeasuredCosts costs(measured());
  const double border = *costs.seconds(product(2048, 1024, 1024), DType::fp32);
  CHECK(*costs.seconds(product(8192, 1024, 1024), DType::fp32) == Approx(4 * border).epsilon(0.02));
  CHECK(*costs.seconds(product(4096, 4096, 4096), DType::fp32) == Approx(32 * border).epsilon(0.1));  // the law: 7 % less
  const double smallest = *costs.seconds(product(32, 16, 16), DType::fp32);
  const double tiny = *costs.seconds(product(1, 1, 1), DType::fp32);
  CHECK(tiny < smallest);
  CHECK(tiny == Approx(law(product(1, 1, 1))).epsilon(0.1));  // mostly the fixed 0.4 us of a call
}

TEST_CASE("a larger operation never costs less") {
  const MeasuredCosts costs(measured());
  const std::int64_t sizes[] = {1, 4, 16, 20, 32, 50, 100, 200, 300, 500, 1000, 2000, 5000};
  for (std::int64_t n : sizes)
    for (std::size_t i = 0; i + 1 < std::size(sizes); ++i) {
      INFO(n << " " << sizes[i]);
      CHECK(*costs.seconds(product(sizes[i], n, n), DType::fp32) <= *costs.seconds(product(sizes[i + 1], n, n), DType::fp32));
      CHECK(*costs.seconds(product(n, sizes[i], n), DType::fp32) <= *costs.seconds(product(n, sizes[i + 1], n), DType::fp32));
      CHECK(*costs.seconds(product(n, n, sizes[i]), DType::fp32) <= *costs.seconds(product(n, n, sizes[i + 1]), DType::fp32));
    }
}

TEST_CASE("a form that was not measured reads as the nearest one, a kind or type that was not measured as nothing") {
  const MeasuredCosts costs(measured());
  MatMul biased = product(128, 144, 144);
  biased.bias = true;
  CHECK(*costs.seconds(biased, DType::fp32) == *costs.seconds(product(128, 144, 144), DType::fp32));
  CHECK(!costs.seconds(product(128, 144, 144), DType::fp64));
  CHECK(!costs.seconds(BiasGrad{10, 10}, DType::fp32));
  const auto missing = costs.missing();
  CHECK(std::find(missing.begin(), missing.end(), "bias_grad") != missing.end());
  CHECK(std::find(missing.begin(), missing.end(), "matmul") == missing.end());
  CHECK(std::find(missing.begin(), missing.end(), "collective") == missing.end());
}

TEST_CASE("attention in a window is read by the pairs that it sees, and other operations as without one") {
  CostTable table;
  for (const std::int64_t seq : {32, 128, 256})
    for (const std::int64_t heads : {2, 4, 8}) {
      const AttentionDims d{1, heads, seq, 16};
      const FlashAttention all{d, 0, false};
      table.samples.push_back({all, DType::fp32, static_cast<double>(matrix_flops(all).count()) * 1e-9});
      table.samples.push_back({Rotary{d, 1e4}, DType::fp32, static_cast<double>(seq * heads) * 1e-9});
    }
  AttentionDims d{1, 4, 128, 16};
  d.window = 20;
  const FlashAttention seen{d, 0, false};
  const double flops = static_cast<double>(matrix_flops(seen).count());
  const MeasuredCosts costs(table);
  CHECK(*costs.seconds(seen, DType::fp32) == Approx(flops * 1e-9));
  CHECK(*costs.seconds(Rotary{d, 1e4}, DType::fp32) == Approx(512e-9));
  table.samples.push_back({seen, DType::fp32, flops * 3e-9});
  const MeasuredCosts with_window(table);
  CHECK(*with_window.seconds(seen, DType::fp32) == Approx(flops * 3e-9));
  FlashAttention sinks = seen;  // nearer to the same window without sinks than to sinks' absence in all keys
  sinks.sinks = true;
  CHECK(*with_window.seconds(sinks, DType::fp32) == Approx(flops * 3e-9));
}

TEST_CASE("an operation has as many dimensions whatever its numbers are") {
  for (std::size_t kind = 0; kind < kOpKinds; ++kind) {
    const std::size_t wanted = tandem::sim::dimensions(empty_op(kind)).size();
    for (const std::int64_t value : {1, 7}) {
      Op op = empty_op(kind);
      visit_fields(op, [&](const char*, auto& field) {
        using T = std::decay_t<decltype(field)>;
        if constexpr (!std::is_enum_v<T>) field = static_cast<T>(value);
      });
      INFO(kind_name(op) << " of " << value);
      CHECK(tandem::sim::dimensions(op).size() == wanted);
    }
  }
}

TEST_CASE("rows gathered for experts cost what as many choices of tokens cost") {
  // A machine that moves 8 GB/s: the time of a dispatch is its bytes.
  const auto law = [](const MoeDispatch& o) { return static_cast<double>(traffic(o, DType::fp32).count()) / 8e9; };
  CostTable t;
  for (const std::int64_t tokens : {64, 256, 1024})
    for (const std::int64_t hidden : {32, 128})
      for (const std::int64_t experts : {4, 16}) {
        const MoeDispatch o{{tokens, hidden, experts, 2, 0}};
        t.samples.push_back({o, DType::fp32, law(o)});
      }
  MoeDispatch gathered{{256, 128, 4, 2, 0}};
  gathered.dims.room = 512, gathered.dims.here = 4;  // all experts are here: every choice has its row
  const MoeDispatch plain{{256, 128, 4, 2, 0}};
  CHECK(*MeasuredCosts(t).seconds(gathered, DType::fp32) == Approx(law(plain)).epsilon(0.01));
  gathered.dims.here = 1;  // 128 rows of 128 numbers are read and written, and 256 x 2 choices read
  CHECK(*MeasuredCosts(t).seconds(gathered, DType::fp32) == Approx(law(gathered)).epsilon(0.01));
  CHECK(law(gathered) < 0.6 * law(plain));
}

TEST_CASE("of repeated samples the least counts and one sample is enough") {
  CostTable t;
  t.samples = {{product(64, 64, 64), DType::fp32, 2e-5}, {product(64, 64, 64), DType::fp32, 3e-5}};
  const MeasuredCosts costs(t);
  CHECK(*costs.seconds(product(64, 64, 64), DType::fp32) == Approx(2e-5).epsilon(1e-12));
  const double twice = *costs.seconds(product(128, 64, 64), DType::fp32);
  CHECK((twice >= 2e-5 && twice <= 4e-5));
}

TEST_CASE("a disturbed sample is not believed over a larger operation") {
  CostTable t = measured();
  const MatMul disturbed = product(128, 144, 144);
  for (CostSample& s : t.samples)
    if (const auto* o = std::get_if<MatMul>(&s.op); o && o->m == 128 && o->n == 144 && o->k == 144) s.seconds *= 20;
  CHECK(*MeasuredCosts(t).seconds(disturbed, DType::fp32) < 3.5 * law(disturbed));  // the next larger sample: three times the work
  CHECK(*MeasuredCosts(t).seconds(product(128, 144, 432), DType::fp32) == Approx(law(product(128, 144, 432))).epsilon(1e-12));
}

TEST_CASE("measured communication is read between sizes and group sizes") {
  CostTable t;
  for (int ranks : {2, 8})
    for (std::int64_t bytes : {1024, 65536})
      t.comm.push_back({"all_reduce", ranks, Bytes(bytes), 1e-9 * static_cast<double>(bytes * ranks)});
  t.comm.push_back({"send", 2, Bytes(4096), 5e-6});
  const MeasuredCosts costs(t);
  const auto all_reduce = [&](std::int64_t bytes, std::int64_t ranks) {
    const Collective c{CollectiveKind::all_reduce, Group::data, bytes / 4, DType::fp32, Reduce::sum};
    return *costs.communication(c, ranks);
  };
  CHECK(all_reduce(1024, 2) == Approx(2.048e-6).epsilon(1e-12));
  CHECK(all_reduce(8192, 2) == Approx(16.384e-6).epsilon(1e-12));    // on the line between two samples
  CHECK(all_reduce(8192, 4) == Approx(32.768e-6).epsilon(1e-12));    // and between two group sizes
  CHECK(all_reduce(262144, 8) == Approx(4 * 524.288e-6).epsilon(1e-12));  // constant bandwidth above
  CHECK(all_reduce(4, 2) == Approx(2.048e-6).epsilon(1e-12));        // constant time below
  CHECK(all_reduce(1024, 64) == all_reduce(1024, 8));
  CHECK(*costs.communication(Recv{1024, DType::fp32, 1}, 2) == Approx(5e-6).epsilon(1e-12));
  CHECK(!costs.communication(Collective{CollectiveKind::all_gather, Group::data, 4, DType::fp32, Reduce::sum}, 2));
}

TEST_CASE("a table overrides the roofline where it has the kind, and says so") {
  CostTable table = measured();
  table.launch_s = 7e-7;
  table.slowdown = {1.0, 1.3, 1.9};
  Device device;
  device.peak[DType::fp32] = FlopRate::flops_per_second(1e9);
  device.vector_rate = FlopRate::flops_per_second(1e9);
  device.memory_bandwidth = Bandwidth::bytes_per_second(1e9);
  const auto with = tandem::sim::make_cost_model(device, table);
  const auto without = tandem::sim::make_cost_model(device);
  const Op matmul = product(128, 144, 144), bias = BiasGrad{100, 100};
  CHECK(with->duration(matmul, DType::fp32) == Duration::seconds(law(product(128, 144, 144))));
  CHECK(with->duration(bias, DType::fp32) == without->duration(bias, DType::fp32));
  CHECK((with->covered(matmul, DType::fp32) && !with->covered(bias, DType::fp32) && !without->covered(matmul, DType::fp32)));
  CHECK(with->launch() == Duration::nanoseconds(700));
  CHECK(with->slowdown(1) == 1.0);
  CHECK(with->slowdown(2) == 1.3);
  CHECK(with->slowdown(100) == 1.9);
  CHECK(without->slowdown(100) == 1.0);
  const auto lacks = with->unmeasured();
  CHECK(std::find(lacks.begin(), lacks.end(), "bias_grad") != lacks.end());
  CHECK(std::find(lacks.begin(), lacks.end(), "matmul") == lacks.end());
}
