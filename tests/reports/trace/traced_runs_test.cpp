// Traces of a run beside traces of an earlier run, without a plan.

#include <nlohmann/json.hpp>

#include "reports/trace/trace_comparison.hpp"
#include "tests/catch.hpp"
#include "tests/reports/trace/trace_files.hpp"

using namespace tandem;
using Catch::Matchers::Contains;

namespace {

std::string head(int rank, int world = 8) {
  return R"({"distributedInfo":{"rank":)" + std::to_string(rank) + R"(,"world_size":)" + std::to_string(world) + "},\"traceEvents\":[";
}

std::string group(const std::string& description, const std::string& ranks) {
  return R"("Collective name":"allreduce","dtype":"Float","In msg nelems":7,"Group size":2,"Process Group Description":")" + description +
         R"(","Process Group Ranks":")" + ranks + "\"";
}

/// Three steps of 100 us. In each a product of the forward pass, one of the backward pass that `backward` says, and a collective of
/// 20 us, of which 10 are hidden.
std::string text(int rank, double backward, const std::string& collective) {
  std::string events;
  for (int s = 0; s < 3; ++s) {
    const double at = 100 * s;
    const int c = 10 * s;
    events += traces::event("user_annotation", "ProfilerStep#" + std::to_string(s), at, 100) + "," + traces::event("cpu_op", "aten::mm", at + 1, 2) + "," +
              traces::kernel("ampere_sgemm_64x64_tn", at + 2, at + 5, 20, c + 1) + "," +
              traces::event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", at + 10, 5) + "," +
              traces::kernel("ampere_sgemm_64x64_nt", at + 12, at + 30, backward, c + 2) + "," +
              traces::event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", at + 20 + backward, 20, collective) + (s < 2 ? "," : "");
  }
  return head(rank) + events + "]}";
}

std::vector<TracedRank> alone(const std::vector<std::string>& texts) {
  std::vector<TracedRank> out;
  for (const std::string& t : texts) out.push_back(traced_alone(traces::of_text(t), {}));
  return out;
}

TraceComparison compared(const std::string& newer, const std::string& baseline) {
  return compare_runs(alone({newer}), alone({baseline}));
}

const ClassLine& line(const std::vector<ClassLine>& lines, const std::string& name) {
  for (const ClassLine& l : lines)
    if (l.cls == name) return l;
  FAIL("no line " << name);
  return lines.front();
}

const std::string kTensor = group("TENSOR_MODEL_PARALLEL_GROUP", "[0, 1]");

}  // namespace

TEST_CASE("two traces of one run differ in nothing") {
  const TraceComparison c = compared(text(0, 30, kTensor), text(0, 30, kTensor));
  CHECK(c.error == 0);
  for (const ClassLine& l : c.classes) CHECK(l.difference_s() == 0);
  for (const KernelLine& l : c.kernels) CHECK(l.difference_s() == 0);
  CHECK(c.notes.empty());
  CHECK(judge_step(c, 0.01) == Verdict::within);
}

TEST_CASE("what became slower in a later trace stands first, by class, phase and kernel") {
  // The backward product takes 50 us and not 30. Steps stay 100 us, so idle time pays for it.
  const TraceComparison c = compared(text(0, 50, kTensor), text(0, 30, kTensor));
  CHECK(c.error == 0);
  REQUIRE(c.classes.front().cls == "products");
  CHECK(c.classes.front().difference_s() == Approx(20e-6));
  CHECK(c.classes.front().share == Approx(0.2));
  CHECK(line(c.phases, "forward").difference_s() == Approx(0).margin(1e-12));
  CHECK(line(c.phases, "backward").difference_s() == Approx(20e-6));
  CHECK(c.kernels.front().key == KernelKey{"products", "backward", "ampere_sgemm_64x64_nt"});
  CHECK(c.simulated.computing_s == Approx(70e-6));
  CHECK(c.measured.computing_s == Approx(50e-6));
  CHECK(c.simulated.exposed_s == Approx(10e-6));
  CHECK(c.measured.exposed_s == Approx(10e-6));
  CHECK(c.simulated.idle_s == Approx(20e-6));
  CHECK(c.measured.idle_s == Approx(40e-6));
}

TEST_CASE("without a plan a process group is known by its description, else by the distance of its ranks") {
  const auto class_of = [](const std::string& facts) {
    for (const ClassLine& l : compared(text(0, 30, facts), text(0, 30, facts)).classes)
      if (l.cls != "products") return l.cls;
    return std::string();
  };
  CHECK(class_of(kTensor) == "tensor communication");
  CHECK(class_of(group("default_pg", "[0, 1]")) == "world communication");
  CHECK(class_of(group("pipeline of my own", "[0, 1]")) == "pipeline of my own communication");
  CHECK(class_of(group("undefined", "[0, 4, 8, 12]")) == "communication of ranks 4 apart");
  CHECK(class_of(group("undefined", "[0, 1, 8, 9]")) == "communication of 4 ranks");
  CHECK(class_of(group("undefined", "")) == "communication of an unknown group");
}

TEST_CASE("ranks with groups of one distance share a line, as means over ranks") {
  const std::string zero = text(0, 30, group("undefined", "[0, 1]")), two = text(2, 40, group("undefined", "[2, 3]"));
  const TraceComparison c = compare_runs(alone({zero, two}), alone({zero, two}));
  REQUIRE(c.collectives.size() == 1);
  CHECK(c.collectives[0].key.group == "ranks 1 apart");
  CHECK(c.collectives[0].measured.count == 1);
  CHECK(c.measured.computing_s == Approx(55e-6));
  CHECK(c.traced.steps == 6);
}

TEST_CASE("an annotation around both passes does not make its kernels those of the backward pass") {
  const std::string trace = traces::file_of(traces::event("user_annotation", "forward_backward", 0, 50) + "," + traces::event("cpu_op", "aten::mm", 1, 2) + "," +
                                            traces::kernel("ampere_sgemm_64x64_tn", 2, 5, 20, 1));
  CHECK(compared(trace, trace).phases.front().cls == "forward");
}

TEST_CASE("kernels of a replayed graph have no phase unless something around it tells one") {
  const auto graph = [](const std::string& around) {
    return traces::file_of(around + traces::event("cuda_runtime", "cudaGraphLaunch", 3, 1, "\"correlation\":7") + "," +
                           traces::event("kernel", "gemm", 5, 10, "\"correlation\":7"));
  };
  const auto phase = [](const std::string& trace) { return compared(trace, trace).phases.front().cls; };
  CHECK(phase(graph(traces::event("cpu_op", "aten::mm", 1, 5) + ",")) == "unknown phase");
  CHECK(phase(graph(traces::event("cpu_op", "autograd::engine::evaluate_function: CompiledFunctionBackward", 1, 5) + ",")) == "backward");
  CHECK(phase(graph("")) == "unknown phase");
}

TEST_CASE("only a slower run is outside of the tolerance") {
  TraceComparison c;
  c.of_two_runs = true;
  c.error = -0.3, c.low = -0.32, c.high = -0.28;
  CHECK(judge_step(c, 0.05) == Verdict::within);
  c.error = 0.3, c.low = 0.28, c.high = 0.32;
  CHECK(judge_step(c, 0.05) == Verdict::outside);
  CHECK(reason_of(c, Verdict::outside, 0.05) == "change of the step time +30.0 % (+28.0 % to +32.0 % by the spread of the steps) is outside +5.0 %");
  c.of_two_runs = false;
  c.error = -0.3, c.low = -0.32, c.high = -0.28;
  CHECK(judge_step(c, 0.05) == Verdict::outside);
}

TEST_CASE("runs on other devices, numbers of ranks or traced ranks are compared with a note") {
  const TraceComparison c = compare_runs(alone({text(0, 30, kTensor)}), alone({text(1, 30, kTensor)}));
  REQUIRE(c.notes.size() == 1);
  CHECK_THAT(c.notes[0], Contains("the traced ranks differ: new 0; baseline 1"));
  auto newer = alone({text(0, 30, kTensor)}), older = newer;
  newer[0].device = "B200", older[0].device = "H100";
  older[0].world_size = 16;
  const std::vector<std::string> notes = compare_runs(newer, older).notes;
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] == "the devices differ: new B200, baseline H100");
  CHECK(notes[1] == "the numbers of ranks differ: new 8, baseline 16");
  CHECK_THROWS_WITH(compare_runs(alone({text(0, 30, kTensor), text(0, 30, kTensor)}), older), Contains("is of this rank, too"));
}

TEST_CASE("text, JSON and CSV have the same lines, under the names of the two sides") {
  const TraceComparison c = compared(text(0, 50, kTensor), text(0, 30, kTensor));
  const std::string words = to_text(c, Verdict::not_asked, std::nullopt), csv = to_csv(c);
  CHECK_THAT(words, Contains("new, rank 0: 3 steps") && Contains("baseline, rank 0: 3 steps") && Contains("computations by phase") &&
                        Contains("products, backward") && Contains("ampere_sgemm_64x64_nt"));
  const nlohmann::json json = nlohmann::json::parse(to_json(c, Verdict::not_asked, std::nullopt));
  CHECK(json["kernels"].size() == c.kernels.size());
  CHECK(json["kernels"][0]["new_s"].get<double>() == Approx(50e-6));
  CHECK(json["device"]["idle"]["baseline_s"].get<double>() == Approx(40e-6));
  CHECK_THAT(csv, Catch::Matchers::StartsWith("table,class,phase,name,group,ranks,bytes,new_calls,baseline_calls,new_s,baseline_s,difference_s,share_of_step\r\n"));
  CHECK_THAT(csv, Contains("\r\nkernels,products,backward,ampere_sgemm_64x64_nt,,,,1,1,5e-05,3e-05,2e-05,0.2\r\n"));
  CHECK_THAT(csv, Contains("\r\ndevice,,,idle,,,,,,2e-05,4e-05,-2e-05,-0.2\r\n"));
  const auto rows = static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n'));
  CHECK(rows == 1 + 1 + 4 + c.classes.size() + c.phases.size() + c.collectives.size() + c.kernels.size());
}
