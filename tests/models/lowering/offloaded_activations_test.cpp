// Copies of activations to the host and back: which, when, and how many bytes.

#include <algorithm>
#include <map>

#include "models/graph/host_activations.hpp"
#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

constexpr std::int64_t kLayers = 6, kSequence = 32, kHidden = 64, kHeads = 4, kFfn = 192, kBatch = 2;

Plan plan_of(const std::string& parallel, const std::string& training = "", std::int64_t micro_batches = 2, int devices = 1) {
  const auto n = [](std::int64_t v) { return std::to_string(v); };
  return parse_plan(R"({"stack": "tandem", "model": {"family": "llama", "num_layers": )" + n(kLayers) + R"(, "hidden_size": )" + n(kHidden) +
                        R"(, "num_attention_heads": )" + n(kHeads) + R"(, "ffn_hidden_size": )" + n(kFfn) + R"(, "vocab_size": 100},
                        "parallel": )" + parallel + R"(, "training": {"seq_length": )" + n(kSequence) + R"(, "micro_batch_size": )" + n(kBatch) +
                        R"(, "global_batch_size": )" + n(kBatch * micro_batches) + R"(, "precision": "bf16", "flash_attention": true)" + training +
                        R"(}, "cluster": {"preset": "dgx-h100", "devices": )" + n(devices) + "}}",
                    "offloaded.json");
}

/// Copies in issue order, as "+3.0" (layer 3 of micro-batch 0 leaves), "-3.0" (it comes back), and passes as "F3.0", "B3.0".
std::vector<std::string> order(const TaskGraph& graph, StageId stage) {
  const std::map<std::string, std::string> marks{{"offload_kept", "+"}, {"offload_input", "+"}, {"reload_kept", "-"},
                                                 {"reload_input", "-"}, {"block_forward", "F"}, {"block_backward", "B"}};
  std::vector<std::string> all;
  for (const Instance& i : graph.program(stage).instances) {
    const auto mark = marks.find(graph.of(i).name);
    if (mark == marks.end()) continue;
    const std::string text = mark->second + std::to_string(i.layer) + "." + std::to_string(i.micro_batch);
    if (all.empty() || all.back() != text) all.push_back(text);
  }
  return all;
}

std::string joined(const std::vector<std::string>& words, std::size_t first, std::size_t count) {
  std::string text;
  for (std::size_t i = first; i < first + count && i < words.size(); ++i) text += (text.empty() ? "" : " ") + words[i];
  return text;
}

std::int64_t host_bytes(const Plan& plan, StageId stage = StageId(0)) {
  const TaskGraph graph = lower(plan);
  graph.check();
  return HostActivations(graph, graph.program(stage)).bytes().count();
}

/// Bytes of one tensor in bf16 with so many columns.
constexpr std::int64_t tensor(std::int64_t columns) { return 2 * kBatch * kSequence * columns; }

}  // namespace

TEST_CASE("a layer's tensors leave after its forward pass and come back one layer ahead, but for the last layer's") {
  const auto words = order(lower(plan_of(R"({"offload": {"activations": ["all"]}})")), StageId(0));
  CHECK(joined(words, 0, 28) == "F0.0 +0.0 F1.0 +1.0 F2.0 +2.0 F3.0 +3.0 F4.0 +4.0 F5.0 "
                                "-4.0 B5.0 -3.0 B4.0 -2.0 B3.0 -1.0 B2.0 -0.0 B1.0 B0.0 "
                                "F0.1 +0.1 F1.1 +1.1 F2.1 +2.1");
}

TEST_CASE("only the first layers of a stage offload where the plan says so") {
  const auto words = order(lower(plan_of(R"({"offload": {"activations": ["all"], "layers": 2}})", "", 1)), StageId(0));
  CHECK(joined(words, 0, 99) == "F0.0 +0.0 F1.0 +1.0 F2.0 F3.0 F4.0 F5.0 B5.0 B4.0 B3.0 -1.0 B2.0 -0.0 B1.0 B0.0");
}

TEST_CASE("in a pipeline the first layer of a backward pass comes back in the last layer of the pass before") {
  const auto words = order(lower(plan_of(R"({"pipeline": 3, "offload": {"activations": ["all"]}})", "", 4, 3)), StageId(0));
  // Micro-batch 0's last layer stays: its backward pass is the next one. Those of 1 and 2 leave, and come back in the pass before.
  CHECK(joined(words, 0, 99) == "F0.0 +0.0 F1.0 F0.1 +0.1 F1.1 +1.1 F0.2 +0.2 F1.2 +1.2 "
                                "-0.0 B1.0 -1.1 B0.0 F0.3 +0.3 F1.3 +1.3 "
                                "-0.1 B1.1 -1.2 B0.1 -0.2 B1.2 -1.3 B0.2 -0.3 B1.3 B0.3");
  const auto last = order(lower(plan_of(R"({"pipeline": 3, "offload": {"activations": ["all"]}})", "", 4, 3)), StageId(2));
  CHECK(joined(last, 0, 8) == "F4.0 +4.0 F5.0 -4.0 B5.0 B4.0 F4.1 +4.1");
}

TEST_CASE("host memory holds what the layers of the micro-batches in flight keep") {
  // A layer keeps its input, the norms' outputs, queries, keys and values, attention's output, the middle state, both columns of
  // the gated MLP and their product; and fp32 statistics of two norms and of each head's softmax.
  constexpr std::int64_t statistics = 4 * kBatch * kSequence * (2 + 2 + kHeads);
  constexpr std::int64_t kept = tensor(kHidden + 2 * kHidden + 3 * kHidden + kHidden + kHidden + 2 * kFfn + kFfn) + statistics;
  CHECK(host_bytes(plan_of(R"({"offload": {"activations": ["all"]}})")) == (kLayers - 1) * kept);
  CHECK(host_bytes(plan_of(R"({"offload": {"activations": ["all"], "layers": 2}})")) == 2 * kept);
  // The first of three stages has three micro-batches in flight, and of the first one the last layer stays.
  CHECK(host_bytes(plan_of(R"({"pipeline": 3, "offload": {"activations": ["all"]}})", "", 6, 3)) == 5 * kept);
  CHECK(host_bytes(plan_of(R"({"pipeline": 3, "offload": {"activations": ["all"]}})", "", 6, 3), StageId(2)) == kept);
}

TEST_CASE("host memory holds the inputs of the modules that the plan lists") {
  const auto of = [](const std::string& modules, const std::string& training = "") {
    return host_bytes(plan_of(R"({"offload": {"activations": )" + modules + "}}", training)) / (kLayers - 1);
  };
  CHECK(of(R"(["attention_norm"])") == tensor(kHidden));
  CHECK(of(R"(["qkv"])") == tensor(kHidden));
  CHECK(of(R"(["core_attention"])") == tensor(3 * kHidden));
  CHECK(of(R"(["core_attention", "projection"])") == tensor(4 * kHidden));
  CHECK(of(R"(["mlp_norm"])") == tensor(kHidden));
  CHECK(of(R"(["all"])", R"(, "recompute": "full")") == tensor(kHidden));
  CHECK(of(R"(["qkv"])", R"(, "recompute": "selective", "recompute_modules": ["norm"])") == 0);
}

TEST_CASE("host memory holds experts' rows") {
  const auto of = [](const std::string& modules) {
    const std::string text = to_json(plan_of(R"({"offload": {"activations": )" + modules + "}}"));
    Plan plan = parse_plan(text, "experts.json");
    plan.model.moe.num_experts = 4;
    plan.model.moe.experts_per_token = 2;
    plan.model.moe.ffn_hidden_size = kFfn;
    return host_bytes(plan) / (kLayers - 1);
  };
  CHECK(of(R"(["moe_input"])") == tensor(2 * kHidden));
  CHECK(of(R"(["moe_activation"])") == tensor(2 * 2 * kFfn));
  CHECK(of(R"(["moe"])") == tensor(2 * (kHidden + 2 * kFfn + kFfn)));
}

TEST_CASE("what a plan of a few layers keeps on the device does not grow with its layers") {
  const auto live = [](std::int64_t layers, bool offloads) {
    Plan plan = plan_of(offloads ? R"({"offload": {"activations": ["all"]}})" : "{}");
    plan.model.num_layers = layers;
    const TaskGraph graph = lower(plan);
    std::int64_t activations = 0;
    for (const Allocation& a : graph.programs[0].memory.allocations) {
      std::int64_t now = 0;
      for (const Allocation& b : graph.programs[0].memory.allocations)
        if (b.kind == MemoryKind::activations && b.first <= a.first && a.first <= b.last) now += b.bytes.count();
      activations = std::max(activations, now);
    }
    return activations;
  };
  CHECK(live(12, true) == live(6, true));
  CHECK(live(12, false) > live(6, false) + live(6, false) / 2);
}

TEST_CASE("a plan whose activations cannot be offloaded is refused with one reason") {
  const auto problem = [](const std::string& parallel, const std::string& training = "") {
    try {
      lower(plan_of(parallel, training, 4, 2));
    } catch (const InfeasibleError& e) {
      REQUIRE(e.problems().size() == 1);
      return e.problems().front().field + ": " + e.problems().front().remedy;
    }
    return std::string("none");
  };
  CHECK(problem(R"({"pipeline": 2, "schedule": "zb-h1", "offload": {"activations": ["all"]}})").starts_with("parallel.schedule: "));
  CHECK(problem(R"({"data": 2, "offload": {"activations": ["qkv"]}})", R"(, "recompute": "full")").starts_with("parallel.offload.activations: "));
  CHECK(problem(R"({"data": 2, "offload": {"activations": ["projection"]}})").find("core_attention") != std::string::npos);
}
