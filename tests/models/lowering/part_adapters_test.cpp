// Adapters of queries, keys, values, gate and up alone, against sums written here.

#include <algorithm>
#include <map>
#include <set>

#include "models/graph/stage_flops.hpp"
#include "models/ops/dropout_site.hpp"
#include "tests/catch.hpp"
#include "tests/patched_plan.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using tests::patched_plan;
using tests::SmallPlan;

namespace {

constexpr std::int64_t kRank = 3, kTokens = 12;

SmallPlan llama() {
  SmallPlan s;
  s.llama = true;
  s.tied = false;
  s.dropout = 0;
  return s;
}

/// A layer has 4 query heads and 2 key heads of width 6, a hidden size of 24, and a gated MLP of 40 units.
Plan adapted(const std::string& targets, const std::string& more = "", const SmallPlan& s = llama()) {
  return patched_plan(s, R"({"training": {"flash_attention": true, "lora": {"rank": 3, "alpha": 6, "targets": )" + targets + more + "}}}");
}

const char* const kEach = R"(["q", "k", "v", "proj", "gate", "up", "fc2"])";

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

const Template& forward(const TaskGraph& graph) {
  return *std::find_if(graph.templates.begin(), graph.templates.end(), [](const Template& t) { return t.name == "block_forward"; });
}

std::int64_t saved(const Plan& plan) {
  const TaskGraph graph = lower(plan);
  for (const Slot& slot : forward(graph).slots)
    if (slot.name == "saved") return aligned(slot.bytes.count());
  return 0;
}

}  // namespace

TEST_CASE("parameters of adapters of parts are rank times hidden size and the part's own rows") {
  // LLaMA-2 70B: 80 layers of width 8192, 64 query heads and 8 key heads of width 128, 28672 units.
  const ModelSpec m = load_model("llama2-70b");
  CHECK(adapter_parameters(m, {.rank = 16, .targets = {"q", "v"}}) == 80 * 16 * ((8192 + 8192) + (8192 + 1024)));
  CHECK(adapter_parameters(m, {.rank = 16, .targets = {"q", "k", "v", "proj", "gate", "up", "fc2"}}) ==
        80 * 16 * (2 * (8192 + 8192) + 2 * (8192 + 1024) + 3 * (8192 + 28672)));
  // 48 layers of 128 experts, 768 units each.
  const ModelSpec qwen = load_model("qwen3-30b-a3b");
  CHECK(adapter_parameters(qwen, {.rank = 8, .targets = {"experts.up"}}) == 48 * 128 * 8 * (2048 + 768));
  CHECK(adapter_parameters(qwen, {.rank = 8, .targets = {"gate"}}) == 0);
}

TEST_CASE("tensor ranks have A whole and the rows of B of their own heads, and copies of keys that they share") {
  SmallPlan s = llama();
  s.tensor = GENERATE(1, 2, 4);
  const Plan plan = adapted(kEach, "", s);
  const TaskGraph graph = lower(plan);
  graph.check();
  std::map<std::string, std::int64_t> elements;  // on a rank
  for (const Param& p : graph.programs[0].params)
    if (!p.frozen && p.name.starts_with("layer0.")) elements[p.name.substr(7)] += p.elements();
  const std::int64_t t = s.tensor, keys = 12 / std::min<std::int64_t>(t, 2);
  for (const char* a : {"qkv.q", "qkv.k", "qkv.v", "fc1.gate", "fc1.up"}) CHECK(elements[std::string(a) + ".lora_a"] == kRank * 24);
  CHECK(elements["qkv.q.lora_b"] == kRank * 24 / t);
  CHECK(elements["qkv.k.lora_b"] == kRank * keys);
  CHECK(elements["qkv.v.lora_b"] == kRank * keys);
  CHECK(elements["fc1.gate.lora_b"] == kRank * 40 / t);
  CHECK(elements["fc1.up.lora_b"] == kRank * 40 / t);
}

TEST_CASE("a step with adapters of parts does 6 model FLOPs for each of their parameters and tokens") {
  const Plan plan = adapted(kEach);
  const std::int64_t tokens = plan.global_batch_tokens(), pairs = 4 * 6 * tokens * 6;  // heads, head width, keys of a token
  const std::int64_t matrices = 48 * 24 + 24 * 24 + 80 * 24 + 24 * 40, head = 24 * plan.padded_vocab_size();
  const std::int64_t adapters = kRank * (2 * (24 + 24) + 2 * (24 + 12) + 3 * (24 + 40));
  CHECK(4 * adapters == adapter_parameters(plan.model, plan.training.lora));
  // Flash attention has two products forward and four backward that count. Below layer 0 nothing reads the input's gradient.
  const std::int64_t unread = 48 * 24 + 3 * kRank * 24;
  const std::int64_t products = 4 * tokens * (4 * matrices + head) + 6 * tokens * 4 * adapters;
  const std::int64_t all = products + 4 * (2 + 4) * 2 * pairs - 2 * tokens * unread;
  const Plan score = patched_plan(llama(), R"({"training": {"lora": {"rank": 3, "targets": ["q", "k", "v", "proj", "gate", "up", "fc2"]}}})");
  CHECK(model_flops_of_step(lower(score), 1) == static_cast<double>(all));
}

TEST_CASE("a part keeps what its A gives, and with dropout an input of its own") {
  const std::int64_t inner = aligned(8 * kTokens * kRank), input = aligned(8 * kTokens * 24);
  const std::int64_t none = saved(adapted(R"(["proj", "fc2"])"));
  CHECK(saved(adapted(R"(["q", "proj", "fc2"])")) == none + inner + input);
  CHECK(saved(adapted(R"(["q", "v", "proj", "fc2"])")) == none + 2 * inner + input);
  CHECK(saved(adapted(R"(["q", "k", "v", "gate", "up", "proj", "fc2"])")) == none + 5 * inner + 2 * input);
  const std::string drop = R"(, "dropout": 0.1)";
  const std::int64_t dropping = saved(adapted(R"(["proj", "fc2"])", drop));
  CHECK(saved(adapted(R"(["q", "v", "proj", "fc2"])", drop)) == dropping + 2 * (inner + input));
}

TEST_CASE("parts add to their own columns, and draw masks at sites of their own") {
  const TaskGraph graph = lower(adapted(kEach, R"(, "dropout": 0.1)"));
  std::map<std::string, AddColumns> added;
  std::set<DropoutSite> sites;
  for (const Task& task : forward(graph).tasks) {
    if (const auto* op = std::get_if<AddColumns>(&task.op)) added.emplace(task.name, *op);
    if (const auto* op = std::get_if<BiasDropoutAdd>(&task.op); op != nullptr && task.name.ends_with("_lora_dropout")) sites.insert(op->site);
  }
  CHECK(sites.size() == 7);
  REQUIRE(added.size() == 5);
  const auto is = [&](const std::string& name, ColumnSlice s) {
    const AddColumns& op = added.at(name + "_lora_add");
    return op.rows == s.rows && op.cols == s.cols && op.first == s.first && op.width == s.width;
  };
  CHECK(is("qkv.q", {kTokens * 2, 24, 0, 12}));  // two queries, a key and a value of width 6 in each group
  CHECK(is("qkv.k", {kTokens * 2, 24, 12, 6}));
  CHECK(is("qkv.v", {kTokens * 2, 24, 18, 6}));
  CHECK(is("fc1.gate", {kTokens * 40, 2, 0, 1}));
  CHECK(is("fc1.up", {kTokens * 40, 2, 1, 1}));
}

TEST_CASE("a layer whose values are its keys has no adapter of values") {
  const auto trained = [](const std::string& targets) {
    const Plan plan = patched_plan(llama(), R"({"model": {"tie_kv": true, "value_norm": true, "qk_norm": "head"}, "training": {"lora": {"rank": 3, "targets": )" + targets + "}}}");
    std::int64_t elements = 0;
    for (const Param& p : lower(plan).programs[0].params) elements += p.frozen ? 0 : p.elements();
    CHECK(elements == adapter_parameters(plan.model, plan.training.lora));
    return elements;
  };
  CHECK(trained(R"(["q", "k", "v"])") == 4 * kRank * ((24 + 24) + (24 + 12)));
}

TEST_CASE("targets that say a matrix twice, or a part that it has not, are refused") {
  const auto refused = [](const SmallPlan& s, const std::string& targets) {
    try {
      adapted(targets, "", s);
    } catch (const ConfigError& e) {
      return e.problems().front().field == "training.lora.targets";
    }
    return false;
  };
  CHECK(refused(llama(), R"(["qkv", "q"])"));
  CHECK(refused(llama(), R"(["up", "fc1"])"));
  CHECK(refused(llama(), R"(["experts.gate"])"));
  CHECK(refused(SmallPlan{}, R"(["gate"])"));
  CHECK(!refused(SmallPlan{}, R"(["q", "fc1"])"));
}
