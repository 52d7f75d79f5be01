// Initial values and gathered tensors over hand-made layouts, apart from any training.
#include <cmath>
#include <map>
#include <numeric>

#include "exec/gather.hpp"
#include "exec/initialise.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

// One stage of four parameters: a matrix cut by rows, one by columns, a vector cut in pieces, a whole one. 6 x 4 at most.
Program stage_program(std::int64_t tensor) {
  Program p;
  p.stage = StageId(0);
  const auto add = [&](const char* name, std::int64_t rows, std::int64_t cols, int shard, Param::Init init) {
    const auto local_rows = shard == 0 ? rows / tensor : rows, local_cols = shard == 1 ? cols / tensor : cols;
    const auto index = static_cast<std::int32_t>(p.params.size());
    p.params.push_back({name, 3 - index, p.flat_elements, local_rows, local_cols, rows, cols, shard, false, true, init, 10 + index});
    p.flat_elements += local_rows * local_cols;
  };
  add("by_rows", 6, 4, 0, Param::Init::normal);
  add("by_columns", 2, 6, 1, Param::Init::normal_scaled);
  add("vector", 6, 1, 0, Param::Init::zeros);
  add("whole", 5, 1, -1, Param::Init::ones);
  const auto bytes = Bytes(p.flat_elements * 8);
  p.memory.allocations = {{"weights", MemoryKind::weights, 256, bytes, 0, 0},
                          {"exp_avg", MemoryKind::optimizer, 256 + bytes.count(), bytes, 0, 0}};
  p.memory.arena_bytes = Bytes(256 + 2 * bytes.count());
  return p;
}

struct Arenas {
  Program program;
  std::vector<std::vector<std::byte>> memory;  ///< [tensor * data ranks + data]
  StageReplicas replicas;
  StageArenas first_replica;

  Arenas(std::int64_t tensor, std::int64_t data) : program(stage_program(tensor)) {
    for (std::int64_t i = 0; i < tensor * data; ++i)
      memory.emplace_back(static_cast<std::size_t>(program.memory.arena_bytes.count()), std::byte{0xFF});
    replicas.program = first_replica.program = &program;
    for (std::int64_t t = 0; t < tensor; ++t) {
      auto& row = replicas.by_tensor_rank.emplace_back();
      for (std::int64_t d = 0; d < data; ++d) row.push_back(memory[static_cast<std::size_t>(t * data + d)].data());
      first_replica.by_tensor_rank.push_back(row[0]);
    }
  }
};

Plan plan() {
  Plan p;
  p.model.num_layers = 8;
  p.model.init_std = 0.5;
  p.training.seed = 99;
  p.training.dtypes = {DType::fp64, DType::fp64, DType::fp64, DType::fp64, DType::fp64, DType::fp64};
  return p;
}

std::vector<GatheredTensor> initialised(std::int64_t tensor, std::int64_t data,
                                        const std::function<void(const std::string&, std::vector<double>&)>& replace = {}) {
  Arenas a(tensor, data);
  initialise(std::span(&a.replicas, 1), plan(), replace);
  return gather(std::span(&a.first_replica, 1), "weights", DType::fp64);
}

}  // namespace

TEST_CASE("Initial values do not depend on the tensor degree") {
  const auto whole = initialised(1, 1);
  const std::int64_t tensor = GENERATE(2, 3, 6);
  const auto cut = initialised(tensor, 1);
  REQUIRE(cut.size() == whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(cut[i].values == whole[i].values);
}

TEST_CASE("Gathered tensors come in ascending global index with their whole shape") {
  const auto tensors = initialised(2, 1);
  REQUIRE(tensors.size() == 4);
  CHECK(tensors[0].name == "whole");
  CHECK(tensors[3].name == "by_rows");
  CHECK(tensors[3].rows == 6);
  CHECK(tensors[3].cols == 4);
  CHECK(tensors[0].values == std::vector<double>(5, 1.0));
  CHECK(tensors[1].values == std::vector<double>(6, 0.0));
}

TEST_CASE("Values given instead are cut row by row or column by column and gathered as they were") {
  const auto ramp = [](const std::string&, std::vector<double>& v) { std::iota(v.begin(), v.end(), 1.0); };
  Arenas a(2, 1);
  initialise(std::span(&a.replicas, 1), plan(), ramp);
  const auto* second = reinterpret_cast<const double*>(a.memory[1].data() + 256);
  CHECK(second[0] == 13);             // by_rows: rows 3..5 of 6 x 4
  CHECK(second[12] == 4);             // by_columns: columns 3..5 of 2 x 6
  CHECK(second[12 + 3] == 10);
  for (const auto& t : gather(std::span(&a.first_replica, 1), "weights", DType::fp64))
    for (std::size_t i = 0; i < t.values.size(); ++i) REQUIRE(t.values[i] == static_cast<double>(i + 1));
}

TEST_CASE("Every data replica starts equal and optimizer state starts at zero") {
  Arenas a(2, 3);
  initialise(std::span(&a.replicas, 1), plan(), {});
  for (std::size_t t = 0; t < 2; ++t)
    for (std::size_t d = 1; d < 3; ++d) CHECK(std::equal(a.memory[3 * t].begin() + 256, a.memory[3 * t].end(), a.memory[3 * t + d].begin() + 256));
  const auto state = gather(std::span(&a.first_replica, 1), "exp_avg", DType::fp64);
  for (const auto& t : state)
    for (const auto v : t.values) REQUIRE(v == 0);
}

TEST_CASE("Initial deviations are the model's, and smaller for residual projections by the root of twice the layers") {
  Param p{"big", 0, 0, 200, 100, 200, 100, -1, true, true, Param::Init::normal, 1};
  const auto deviation = [&] {
    double sum = 0, squares = 0;
    const auto values = initial_values(p, plan());
    for (const auto v : values) sum += v, squares += v * v;
    const auto n = static_cast<double>(values.size());
    CHECK(std::abs(sum / n) < 0.02);  // five standard errors of the mean at deviation 0.5
    return std::sqrt(squares / n);
  };
  // Five standard errors of a deviation from 20,000 values: 5 / sqrt(2 * 20000) = 2.5 %.
  CHECK(deviation() == Approx(0.5).epsilon(0.025));
  p.init = Param::Init::normal_scaled;
  CHECK(deviation() == Approx(0.5 / 4).epsilon(0.025));  // sqrt(2 * 8 layers) = 4
}

TEST_CASE("Tied copies share their initial values, other parameters and seeds do not") {
  Param p{"a", 0, 0, 4, 4, 4, 4, -1, true, true, Param::Init::normal, 1}, copy = p, other = p;
  copy.name = "b", copy.global_index = 7, copy.in_norm = false;
  other.init_id = 2;
  auto seeded = plan();
  CHECK(initial_values(p, seeded) == initial_values(copy, seeded));
  CHECK(initial_values(p, seeded) != initial_values(other, seeded));
  seeded.training.seed = 100;
  CHECK(initial_values(p, plan()) != initial_values(p, seeded));
}

TEST_CASE("Tied copies are left out of what is gathered") {
  Arenas a(1, 1);
  a.program.params[0].in_norm = false;
  initialise(std::span(&a.replicas, 1), plan(), {});
  const auto tensors = gather(std::span(&a.first_replica, 1), "weights", DType::fp64);
  CHECK(tensors.size() == 3);
  for (const auto& t : tensors) CHECK(t.name != "by_rows");
}
