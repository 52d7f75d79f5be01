// Tensors that are filled before they are written (training.fill_uninitialized_memory): which, how many bytes, and that no
// more is alive.

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "models/graph/task_graph.hpp"
#include "tests/patched_plan.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

constexpr const char* kFilled = R"({"training": {"deterministic": true, "fill_uninitialized_memory": true}})";

Plan plan_of(const std::string& patch, bool filled) {
  const Plan plain = patched_plan({}, patch);
  if (!filled) return plain;
  SmallPlan p;
  auto text = nlohmann::json::parse(p.json());
  text.merge_patch(nlohmann::json::parse(patch));
  text.merge_patch(nlohmann::json::parse(kFilled));
  return parse_plan(text.dump(), "filled.json");
}

bool is_fill(const Task& t) {
  const auto* fill = std::get_if<Fill>(&t.op);
  return fill != nullptr && fill->nan;
}

const Template& template_of(const TaskGraph& graph, const std::string& name) {
  const auto at = std::find_if(graph.templates.begin(), graph.templates.end(), [&](const Template& t) { return t.name == name; });
  REQUIRE(at != graph.templates.end());
  return *at;
}

bool overlap(const Operand& a, const Operand& b) {
  return a.slot == b.slot && a.offset < b.offset + b.span() && b.offset < a.offset + a.span();
}

}  // namespace

TEST_CASE("what a GPT's layer allocates is filled: sizes counted by hand") {
  // One rank, 2 sequences of 6 tokens, hidden 24, 4 heads, 40 in the MLP, fp64, without dropout: outputs and statistics of norms,
  // products, scores and probabilities, activation; sums behind sublayers are PyTorch's own element-wise kernels only when apart.
  const TaskGraph graph = lower(plan_of(R"({"training": {"precision": "fp64", "dropout": {"hidden": 0, "attention": 0}}})", true));
  std::map<std::string, std::int64_t> elements;
  for (const Task& t : template_of(graph, "block_forward").tasks)
    if (is_fill(t)) elements[t.name] += std::get<Fill>(t.op).elements;
  const std::int64_t tokens = 2 * 6, hidden = tokens * 24, scores = 2 * 4 * 6 * 6;
  std::int64_t all = 0;
  for (const auto& [name, n] : elements) all += n;
  // two norms with statistics, qkv, scores, probabilities, context, projection, sum, fc1, activation, fc2, sum
  CHECK(all == 2 * (hidden + 2 * tokens) + 3 * hidden + 2 * scores + hidden + hidden + hidden + 2 * tokens * 40 + hidden + hidden);
}

TEST_CASE("a fill is of a tensor that the next task writes and nobody has read, and no more is alive") {
  const auto patch = GENERATE(as<std::string>(), "{}", R"({"training": {"fusion": "transformer-engine", "flash_attention": true}})",
                              R"({"training": {"fusion": "eager", "recompute": "full"}})",
                              R"({"parallel": {"tensor": 2, "sequence_parallel": true}, "cluster": {"devices": 2}})");
  CAPTURE(patch);
  const TaskGraph plain = lower(plan_of(patch, false)), filled = lower(plan_of(patch, true));
  filled.check();
  REQUIRE(plain.programs.size() == filled.programs.size());
  for (std::size_t s = 0; s < plain.programs.size(); ++s)
    CHECK(plain.programs[s].memory.live_peak_bytes == filled.programs[s].memory.live_peak_bytes);
  int fills = 0;
  for (const Template& t : filled.templates)
    for (std::size_t i = 0; i < t.tasks.size(); ++i) {
      if (!is_fill(t.tasks[i])) continue;
      ++fills;
      INFO(t.name << ": " << t.tasks[i].name);
      const Operand& place = t.tasks[i].outputs.front();
      std::size_t next = i + 1;
      while (next < t.tasks.size() && is_fill(t.tasks[next])) ++next;
      REQUIRE(next < t.tasks.size());
      const Task& writer = t.tasks[next];
      CHECK(t.tasks[i].stream == Stream::compute);
      CHECK(std::any_of(writer.outputs.begin(), writer.outputs.end(), [&](const Operand& o) {
        return o.slot == place.slot && o.offset == place.offset && o.elements == place.elements && o.dtype == place.dtype;
      }));
      CHECK(std::none_of(writer.inputs.begin(), writer.inputs.end(), [&](const Operand& o) { return overlap(o, place); }));
      CHECK(t.slots[place.slot].kind != MemoryKind::weights);
      CHECK(t.slots[place.slot].kind != MemoryKind::gradients);
    }
  CHECK(fills > 0);
}

TEST_CASE("without fills, and in code that allocates past PyTorch's calls, a graph has none") {
  const auto patch = GENERATE(as<std::string>(), "{}", R"({"training": {"deterministic": true}})",
                              R"({"training": {"fill_uninitialized_memory": true}})",
                              R"({"training": {"deterministic": true, "fill_uninitialized_memory": true, "fusion": "compiled"}})");
  CAPTURE(patch);
  for (const Template& t : lower(plan_of(patch, false)).templates) CHECK(std::none_of(t.tasks.begin(), t.tasks.end(), is_fill));
}

TEST_CASE("a fill is one operation of a stack's host, whatever its other tasks are") {
  const std::string stack = R"({"stack": "megatron-core", "cluster": {"preset": "dgx-a100-80gb"}, "training": {"precision": "bf16"}})";
  int fills = 0;
  for (const Template& t : lower(plan_of(stack, true)).templates)
    for (const Task& task : t.tasks) {
      fills += is_fill(task);
      if (is_fill(task)) CHECK(task.host_operations == 1);
    }
  CHECK(fills > 0);
}
