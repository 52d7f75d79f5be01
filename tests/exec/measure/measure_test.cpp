#include <map>
#include <set>

#include "exec/cpu/backend.hpp"
#include "exec/measure/measure.hpp"
#include "exec/measure/measure_comm.hpp"
#include "exec/measure/measure_grid.hpp"
#include "exec/measure/measure_host.hpp"
#include "exec/measure/op_operands.hpp"
#include "exec/measure/op_timer.hpp"
#include "models/base/error.hpp"
#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

std::set<std::string> kinds(const std::vector<Op>& ops) {
  std::set<std::string> all;
  for (const auto& op : ops) all.emplace(kind_name(op));
  return all;
}

/// Counts and elements as a list, to compare and to print.
std::vector<std::int64_t> elements(const std::vector<OperandSize>& list) {
  std::vector<std::int64_t> all;
  for (const auto& o : list) all.push_back(o.elements);
  return all;
}
std::vector<std::int64_t> elements(const std::vector<Operand>& list) {
  std::vector<std::int64_t> all;
  for (const auto& o : list) all.push_back(o.elements);
  return all;
}

}  // namespace

TEST_CASE("Every kind of computation is measured, in operations that the CPU backend can do") {
  const bool quick = GENERATE(false, true);
  const auto dtype = GENERATE(DType::fp32, DType::fp64);
  const auto ops = measured_operations(quick, dtype);
  CHECK(kinds(ops).size() == kOpKinds - 6);  // all but Collective, Send, Recv, HostCopy and what is only simulated
  const auto backend = make_cpu_backend();
  for (const auto& op : ops) REQUIRE(backend->supports(op, {dtype, {}, {}}).possible);
}

namespace {

constexpr int kMuon = 8;

/// Plans that take other operations than those of the small plan.
Plan changed(Plan p, int change) {
  p.training.flash_attention = change == 1;
  p.parallel.sequence_parallel = change == 2;
  if (change == 3) p.training.optimizer.kind = OptimizerKind::sgd, p.training.optimizer.momentum = 0.9;
  if (change == 4) p.training.optimizer.kind = OptimizerKind::lamb;
  if (change == 5) p.training.optimizer.kind = OptimizerKind::lans;
  if (change == kMuon) p.training.optimizer.kind = OptimizerKind::muon, p.training.optimizer.momentum = 0.9;
  if (change == 6) p.model.moe = {4, 2, 40, 0, 0, 1, 1.25, 0.01};
  if (change == 7) p.model.moe = {4, 1, 40, 0, 0, 1, 0, 0};
  return p;
}

}  // namespace

TEST_CASE("What a measurement hands to an operation is what a training step hands to it") {
  tests::SmallPlan small;
  small.dropout = GENERATE(0.0, 0.1);
  small.bloom = GENERATE(false, true);
  small.llama = !small.bloom && GENERATE(false, true);
  small.precision = "fp32";
  small.tensor = 2;
  small.data = 2;
  const int change = small.bloom || small.llama || small.dropout > 0 ? 0 : GENERATE(range(0, 9));
  INFO("change " << change);
  const auto graph = lower(changed(small.plan(), change));
  std::set<std::string> seen;
  for (const auto& t : graph.templates)
    for (const auto& task : t.tasks) {
      if (is_communication(task.op)) continue;
      INFO(t.name << "." << task.name);
      const auto sizes = operand_sizes(task.op, task.dtype);
      if (change == kMuon && t.name == "optimizer") continue;  // AdamW and Muon get all buffers, and each updates its own parts
      REQUIRE(elements(sizes.inputs) == elements(task.inputs));
      REQUIRE(elements(sizes.outputs) == elements(task.outputs));
      for (std::size_t i = 0; i < task.inputs.size(); ++i) CHECK(sizes.inputs[i].dtype == task.inputs[i].dtype);
      for (std::size_t i = 0; i < task.outputs.size(); ++i) CHECK(sizes.outputs[i].dtype == task.outputs[i].dtype);
      seen.emplace(kind_name(task.op));
    }
  CHECK(seen.size() >= 20);
}

TEST_CASE("Operations that share an operand's memory in training share it in the measurement") {
  const auto sizes = operand_sizes(Accumulate{5, DType::fp32, DType::fp64}, DType::fp32);
  CHECK(sizes.inputs[0].dtype == DType::fp32);
  CHECK(sizes.inputs[1].dtype == DType::fp64);
  CHECK(sizes.outputs[0].same_as_input == 1);
  CHECK_THROWS_AS(operand_sizes(Send{1, DType::fp32, 1}, DType::fp32), ContractError);
}

TEST_CASE("A product of a hundred times the work takes longer, in both types") {
  const auto dtype = GENERATE(DType::fp32, DType::fp64);
  OpTimer timer(dtype);
  const double small = timer.seconds(MatMul{64, 64, 64, false, true, true}, 0.002);
  const double large = timer.seconds(MatMul{320, 320, 320, false, true, true}, 0.02);
  CHECK(small > 0);
  CHECK(large > small);
}

TEST_CASE("Every measured operation can be timed, and takes some time") {
  OpTimer timer(DType::fp32);
  std::map<std::string, Op> smallest;
  for (const auto& op : measured_operations(true, DType::fp32)) smallest.try_emplace(std::string(kind_name(op)), op);
  for (const auto& [kind, op] : smallest) {
    INFO(kind);
    CHECK(timer.seconds(op, 1e-4) > 0);
  }
}

TEST_CASE("A table measured in a hurry has every part that the simulator reads") {
  MeasureOptions options;
  options.quick = true;
  options.computation_s = 0.01;
  std::set<std::string> told;
  options.progress = [&](const std::string& what, double done) {
    told.insert(what);
    CHECK(done >= 0);
    CHECK(done <= 1);
  };
  const auto table = measure_cpu(options);
  CHECK(table.device == "cpu-host");
  CHECK(table.date.size() == 10);
  CHECK(!table.host.empty());
  CHECK(!table.compiler.empty());
  CHECK(table.samples.size() == measured_operations(true, DType::fp32).size());
  for (const auto& s : table.samples) REQUIRE(s.seconds > 0);
  std::set<std::pair<std::string, int>> comm;
  for (const auto& s : table.comm) {
    REQUIRE(s.seconds > 0);
    comm.insert({s.kind, s.ranks});
  }
  std::set<std::pair<std::string, int>> wanted{{"send", 2}};
  for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "shift"})
    for (const int ranks : {2, 8}) wanted.insert({kind, ranks});
  wanted.insert({"all_reduce", 4});
  CHECK(comm == wanted);
  CHECK(table.launch_s > 0);
  CHECK(table.launch_s < 1e-3);
  CHECK(table.slowdown.at(0) == 1);
  for (const auto s : table.slowdown) CHECK(s >= 1);
  CHECK(table.runtime_bytes.count() > 0);
  CHECK(told.size() == 4);
}

TEST_CASE("A measurement that is stopped leaves a table only when every operation has its time") {
  MeasureOptions options;
  options.quick = true;
  options.computation_s = 3600;  // reached by no test: the first round takes a quarter
  std::string now;
  options.progress = [&](const std::string& what, double) { now = what; };
  options.stop = [&] { return now == "communication"; };
  CHECK_THROWS_AS(measure_cpu(options), MeasuringStopped);
  CHECK(now == "communication");
  options.computation_s = 2;
  std::size_t asked = 0;
  const std::size_t operations = measured_operations(true, DType::fp32).size();
  options.stop = [&] { return now == "computation" && ++asked > operations; };
  const auto table = measure_cpu(options);
  CHECK(asked == operations + 1);  // once before each, and before the second round
  CHECK(table.samples.size() == operations);
  for (const auto& s : table.samples) REQUIRE(s.seconds > 0);
}

TEST_CASE("Types that a CPU computes in are measured side by side, others are refused") {
  MeasureOptions options;
  options.quick = true;
  options.computation_s = 0.01;
  options.dtypes = {DType::fp32, DType::bf16, DType::fp16};
  const auto table = measure_cpu(options);
  std::map<DType, std::size_t> count;
  for (const auto& s : table.samples) {
    ++count[s.dtype];
    REQUIRE(s.seconds > 0);
  }
  for (const DType t : options.dtypes) CHECK(count[t] == measured_operations(true, t).size());
  options.dtypes = {DType::fp8};
  CHECK_THROWS_AS(measure_cpu(options), ContractError);
  options.dtypes.clear();
  CHECK_THROWS_AS(measure_cpu(options), ContractError);
}
