// Low-rank adapters beside frozen weights, against sums written here.

#include <algorithm>
#include <set>

#include "models/graph/stage_flops.hpp"
#include "models/lowering/shapes/stage_units.hpp"
#include "models/lowering/stage/short_plan.hpp"
#include "models/lowering/stage/stage_chunks.hpp"
#include "tests/catch.hpp"
#include "tests/patched_plan.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using tests::SmallPlan;
using tests::patched_plan;

namespace {

constexpr std::int64_t kRank = 3;

Plan adapted(const SmallPlan& s, const std::string& more = "{}") {
  nlohmann::json patch = nlohmann::json::parse(R"({"training": {"lora": {"rank": 3, "alpha": 6}}})");
  patch.merge_patch(nlohmann::json::parse(more));
  return patched_plan(s, patch.dump());
}

SmallPlan llama() {
  SmallPlan s;
  s.llama = true;
  s.tied = false;
  s.dropout = 0;
  return s;
}

/// Rows and columns of a layer's matrices: 4 query heads and 2 key heads of width 6, a gated MLP.
struct Sizes {
  std::int64_t hidden = 24, qkv = 48, attention = 24, fc1 = 80, ffn = 40;
  std::int64_t matrices() const { return qkv * hidden + hidden * attention + fc1 * hidden + hidden * ffn; }
  std::int64_t adapters() const { return kRank * (hidden + qkv + attention + hidden + hidden + fc1 + ffn + hidden); }
};

std::int64_t of_kind(const Program& p, MemoryKind kind, const std::string& name = "") {
  std::int64_t sum = 0;
  for (const Allocation& a : p.memory.allocations)
    if (a.kind == kind && a.first == 0 && a.last + 1 == p.instances.size() && (name.empty() || a.name == name))
      sum += a.bytes.count();
  return sum;
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
std::int64_t padded(std::int64_t elements) { return (elements + 63) / 64 * 64; }

std::set<std::string> tasks_of(const TaskGraph& graph, const std::string& name) {
  std::set<std::string> tasks;
  for (const Template& t : graph.templates)
    if (t.name == name)
      for (const Task& task : t.tasks) tasks.insert(task.name);
  return tasks;
}

std::vector<Problem> gaps(const Plan& plan) {
  try {
    require_lowerable(plan);
  } catch (const InfeasibleError& e) {
    return e.problems();
  }
  return {};
}

}  // namespace

TEST_CASE("parameters of adapters are rank times rows and columns of every matrix that has one") {
  // LLaMA-2 70B: 80 layers of width 8192 with 64 query heads and 8 key heads of width 128. 16 (8192 + 10240 + 8192 + 8192) a layer.
  const ModelSpec m = load_model("llama2-70b");
  CHECK(adapter_parameters(m, {.rank = 16, .targets = {"qkv", "proj"}}) == 44'564'480);
  // With 2 x 28672 rows of gate and up: 16 (8192 + 57344 + 28672 + 8192) more.
  CHECK(adapter_parameters(m, {.rank = 16, .targets = {"qkv", "proj", "fc1", "fc2"}}) == 44'564'480 + 80 * 16 * (8192 + 57344 + 28672 + 8192));
  CHECK(adapter_parameters(m, {}) == 0);
}

TEST_CASE("every routed expert has an adapter of its own, a shared expert has an MLP's") {
  // 48 layers of 128 experts, width 2048, experts 768 wide, no other MLP.
  const ModelSpec qwen = load_model("qwen3-30b-a3b");
  CHECK(adapter_parameters(qwen, {.rank = 8, .targets = {"experts.fc1"}}) == 48 * 128 * 8 * (2048 + 2 * 768));
  CHECK(adapter_parameters(qwen, {.rank = 8, .targets = {"experts.fc2"}}) == 48 * 128 * 8 * (768 + 2048));
  CHECK(adapter_parameters(qwen, {.rank = 8, .targets = {"fc1", "fc2"}}) == 0);
  // 3 dense layers 18432 wide, then 58 with one shared expert 2048 wide (arXiv 2412.19437, section 4.2).
  const ModelSpec deepseek = load_model("deepseek-v3");
  CHECK(adapter_parameters(deepseek, {.rank = 2, .targets = {"fc2"}}) == 2 * (3 * (18432 + 7168) + 58 * (2048 + 7168)));
}

TEST_CASE("a lowered plan has the model's own parameters frozen and those of adapters besides, with the same numbers in the list") {
  SmallPlan s = llama();
  s.pipeline = GENERATE(1, 2);
  const Plan plan = adapted(s);
  std::map<std::string, std::int32_t> own;
  for (const Program& p : lower(s.plan()).programs)
    for (const Param& q : p.params) own[q.name] = q.global_index;
  std::int64_t trained = 0, frozen = 0;
  std::set<std::int32_t> numbers;
  for (const Program& p : lower(plan).programs)
    for (const Param& q : p.params) {
      INFO(q.name);
      (q.frozen ? frozen : trained) += q.elements();
      CHECK(q.frozen == own.contains(q.name));
      if (q.frozen) CHECK(q.global_index == own.at(q.name));
      else CHECK(q.global_index >= static_cast<std::int32_t>(own.size()));
      CHECK(numbers.insert(q.global_index).second);
    }
  CHECK(trained == adapter_parameters(plan.model, plan.training.lora));
  CHECK(trained == 4 * Sizes().adapters());
  CHECK(frozen == count_parameters(plan.model, plan.padded_vocab_size()).total_padded);
}

TEST_CASE("frozen weights are held once, and only adapters have gradients and states") {
  SmallPlan s = llama();
  s.precision = "bf16";
  const TaskGraph graph = lower(adapted(s));
  const Program& p = graph.programs[0];
  const std::int64_t trained = 4 * padded(Sizes().adapters()), base = lower(s.plan()).programs[0].flat_elements;
  CHECK(p.flat_elements == base + trained);
  CHECK(of_kind(p, MemoryKind::weights) == aligned(2 * trained) + aligned(2 * base));
  CHECK(of_kind(p, MemoryKind::gradients) == aligned(4 * trained));
  CHECK(of_kind(p, MemoryKind::optimizer) == 3 * aligned(4 * trained));
}

TEST_CASE("ZeRO shards the states of adapters, and weights of all from stage 3 on") {
  SmallPlan s = llama();
  s.data = 4;
  const int zero = GENERATE(0, 1, 2, 3);
  const Plan plan = adapted(s, R"({"parallel": {"zero_stage": )" + std::to_string(zero) + "}}");
  const TaskGraph graph = lower(plan);
  graph.check();
  const Program& p = graph.programs[0];
  std::int64_t trained = 0, frozen = 0;
  for (const ShardUnit& u : p.units) {
    (u.frozen ? frozen : trained) += u.elements;
    CHECK(u.shards == (zero == 3 || (zero > 0 && !u.frozen) ? 4 : 1));
  }
  const auto before = [](const ShardUnit& a, const ShardUnit& b) { return !a.frozen && b.frozen; };
  CHECK(std::is_sorted(p.units.begin(), p.units.end(), before));
  const std::int64_t share = zero == 0 ? trained : trained / 4;
  CHECK(of_kind(p, MemoryKind::optimizer, "exp_avg") == aligned(8 * share));
  CHECK(of_kind(p, MemoryKind::gradients) == aligned(8 * (zero > 1 ? share : trained)));
  const lowering::StageUnits sized = lowering::stage_units(lowering::model_regions(lowering::make_shapes(plan)),
                                                           lowering::stage_chunks(plan)[0], lowering::sharding_of(plan));
  CHECK(sized.trained_elements == trained);
  CHECK(sized.flat_elements == trained + frozen);
}

TEST_CASE("a step does 4 model FLOPs for each frozen weight and token, 6 for each of an adapter") {
  SmallPlan s = llama();
  const Plan plan = adapted(s, R"({"training": {"recompute": "full"}})");
  const Sizes z;
  const std::int64_t tokens = plan.global_batch_tokens(), pairs = 4 * 6 * tokens * 6;  // heads, head width, keys of a token
  const std::int64_t head = z.hidden * plan.padded_vocab_size(), unread = z.qkv * z.hidden + kRank * z.hidden;
  const std::int64_t products = 4 * tokens * (4 * z.matrices() + head) + 6 * tokens * 4 * z.adapters();
  // Scores and context are two products forward and four backward. Below layer 0 nothing reads the input's gradient.
  const std::int64_t all = products + 4 * (2 + 4) * 2 * pairs - 2 * tokens * unread;
  CHECK(model_flops_of_step(lower(plan), 1) == static_cast<double>(all));
}

TEST_CASE("no task computes a gradient of a frozen parameter, and none goes below the first adapter") {
  const SmallPlan s = llama();
  const TaskGraph all = lower(adapted(s));
  for (const Template& t : all.templates)
    for (const Task& task : t.tasks) {
      INFO(t.name << " " << task.name);
      const bool frozen_weights = task.name.ends_with("_wgrad") && task.name.find("lora") == std::string::npos;
      CHECK(!frozen_weights);
      CHECK(!std::holds_alternative<EmbeddingBackward>(task.op));
      const auto* norm = std::get_if<LayerNormBackward>(&task.op);
      if (norm != nullptr) CHECK(norm->part == NormPart::input);
    }
  CHECK(tasks_of(all, "embed_backward").empty());
  const auto first = [](const TaskGraph& g) -> const Template& {
    const auto& instances = g.programs[0].instances;
    const auto back = [](const Instance& i) { return i.layer == 0 && i.phase == Phase::backward; };
    return g.of(*std::find_if(instances.begin(), instances.end(), back));
  };
  const auto has = [](const Template& t, const std::string& name) {
    return std::any_of(t.tasks.begin(), t.tasks.end(), [&](const Task& task) { return task.name == name; });
  };
  CHECK(has(first(all), "qkv_lora_a_wgrad"));
  CHECK(has(first(all), "attention_backward") != has(first(all), "scores_backward"));
  for (const char* gone : {"qkv_dgrad", "qkv_lora_a_dgrad", "ln1_backward"}) CHECK(!has(first(all), gone));
  const TaskGraph last = lower(adapted(s, R"({"training": {"lora": {"targets": ["fc2"]}}})"));
  CHECK(first(last).tasks.size() < 10);
  for (const char* gone : {"fc2_dgrad", "fc1_dgrad", "proj_dgrad", "scores_backward"}) CHECK(!has(first(last), gone));
}

TEST_CASE("a frozen matrix without an adapter keeps no input for the backward pass") {
  const SmallPlan s = llama();
  const auto saved = [&](const std::string& targets) {
    const TaskGraph graph = lower(adapted(s, R"({"training": {"flash_attention": true, "lora": {"targets": )" + targets + "}}}"));
    for (const Template& t : graph.templates)
      if (t.name == "block_forward")
        for (const Slot& slot : t.slots)
          if (slot.name == "saved") return slot.bytes.count();
    return std::int64_t{0};
  };
  const std::int64_t tokens = 12, inner = aligned(8 * tokens * kRank), all = saved(R"(["qkv", "proj", "fc1", "fc2"])");
  CHECK(all - saved(R"(["qkv", "proj", "fc1"])") == inner + aligned(8 * tokens * 40));
  CHECK(all - saved(R"(["qkv", "proj", "fc2"])") == inner + aligned(8 * tokens * 24));
  CHECK(all - saved(R"(["proj", "fc1", "fc2"])") == inner + aligned(8 * tokens * 24));
  CHECK(all - saved(R"(["qkv", "fc1", "fc2"])") == inner);  // flash attention's gradient reads its output
}

TEST_CASE("dropout drops the input of A, whose gradient reads what is left, and the input's gradient goes through it") {
  const SmallPlan s = llama();
  const TaskGraph graph = lower(adapted(s, R"({"training": {"lora": {"dropout": 0.25}}})"));
  const auto forward = tasks_of(graph, "block_forward"), backward = tasks_of(graph, "block_backward");
  for (const std::string name : {"qkv", "proj", "fc1", "fc2"}) {
    INFO(name);
    CHECK(forward.contains(name + "_lora_dropout"));
    CHECK(backward.contains(name + "_lora_dropout_backward"));
    CHECK(!backward.contains(name + "_lora_dropout"));  // its output is stored
  }
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks) {
      if (!task.name.ends_with("_lora_dropout")) continue;
      const auto& op = std::get<BiasDropoutAdd>(task.op);
      CHECK(op.dropout == 0.25);
      CHECK(!op.bias);
      CHECK(!op.residual);
      CHECK(op.rows == 12);
      CHECK(op.cols == (task.name.starts_with("fc2") ? 40 : 24));
    }
}

TEST_CASE("with dropout an adapter's dropped input is kept, in place of the layer's") {
  const SmallPlan s = llama();
  const auto saved = [&](const std::string& lora, const std::string& more = "") {
    const Plan plan = adapted(s, R"({"training": {"flash_attention": true)" + more + R"(, "lora": )" + lora + "}}");
    for (const Template& t : lower(plan).templates)
      if (t.name == "block_forward")
        for (const Slot& slot : t.slots)
          if (slot.name == "saved") return aligned(slot.bytes.count());
    return std::int64_t{0};
  };
  const std::int64_t tokens = 12, context = aligned(8 * tokens * 24);
  CHECK(saved(R"({"targets": ["qkv", "fc1", "fc2"], "dropout": 0.1})") == saved(R"({"targets": ["qkv", "fc1", "fc2"]})"));
  CHECK(saved(R"({"targets": ["proj"], "dropout": 0.1})") == saved(R"({"targets": ["proj"]})") + context);  // flash attention keeps its own
  // A framework keeps a byte for each element besides.
  const std::string eager = R"(, "fusion": "eager", "dropout": {"hidden": 0, "attention": 0})";
  const std::int64_t masks = 3 * aligned(tokens * 24) + aligned(tokens * 40);
  CHECK(saved(R"({"dropout": 0.1})", eager) == saved("{}", eager) + context + masks);
}

TEST_CASE("experts of two ranks have adapters of half of the experts each, and only those have gradients") {
  SmallPlan s = llama();
  s.data = 2;
  const std::string moe = R"({"model": {"moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16}}, "parallel": {"expert": )";
  const Plan plan = adapted(s, moe + R"(2}, "training": {"lora": {"targets": ["experts.fc1", "experts.fc2"]}}})");
  const TaskGraph graph = lower(plan);
  graph.check();
  std::int64_t trained = 0;
  for (const Param& p : graph.programs[0].params) {
    INFO(p.name);
    CHECK(p.frozen == !is_adapter_parameter(p.name));
    if (!p.frozen) CHECK(p.replication == Replication::expert);
    if (!p.frozen) trained += p.elements();
  }
  CHECK(trained == 4 * 2 * kRank * (24 + 32 + 16 + 24));
  CHECK(2 * trained == adapter_parameters(plan.model, plan.training.lora));
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks) {
      INFO(t.name << " " << task.name);
      CHECK((!task.name.ends_with("_wgrad") || task.name.find("experts.fc") == 0));
      CHECK((!task.name.ends_with("_wgrad") || task.name.find("lora") != std::string::npos));
    }
}

TEST_CASE("what adapters do not stand beside is refused by the field's name") {
  const SmallPlan s = llama();
  const auto [patch, field] = GENERATE(table<std::string, std::string>(
      {{R"({"model": {"moe": {"num_experts": 4}}, "parallel": {"tensor": 2}, "cluster": {"devices": 2},
            "training": {"lora": {"targets": ["experts.fc1"]}}})", "parallel.expert_tensor"},
       {R"({"model": {"latent": {"kv_rank": 4, "rotary_dim": 2}, "head_dim": 6, "value_dim": 4, "num_kv_heads": 4}})", "model.latent.kv_rank"},
       {R"({"model": {"mtp": {"num_layers": 1}}})", "model.mtp.num_layers"},
       {R"({"parallel": {"schedule": "zb-h1", "pipeline": 2}, "cluster": {"devices": 2}})", "parallel.schedule"},
       {R"({"parallel": {"tensor_overlap": true}})", "parallel.tensor_overlap"},
       {R"({"parallel": {"offload": {"optimizer": true}}})", "parallel.offload.optimizer"},
       {R"({"training": {"precision": "fp8"}})", "training.dtypes.compute"}}));
  const Plan plan = adapted(s, patch);
  INFO(field);
  const std::vector<Problem> problems = gaps(plan);
  CHECK(std::any_of(problems.begin(), problems.end(), [&](const Problem& p) { return p.field == field; }));
  CHECK(gaps(adapted(s)).empty());
}

TEST_CASE("a plan without adapters prints none, and one with them prints them whole") {
  const SmallPlan s = llama();
  CHECK(to_json(s.plan()).find("lora") == std::string::npos);
  const Plan plan = patched_plan(s, R"({"training": {"lora": {"rank": 4}}})");
  CHECK(plan.training.lora.alpha == 4);
  CHECK(plan.training.lora.targets == std::vector<std::string>{"qkv", "proj", "fc1", "fc2"});
  const Plan again = parse_plan(to_json(plan), "again");
  CHECK(to_json(again) == to_json(plan));
  CHECK_THROWS_AS(patched_plan(s, R"({"training": {"lora": {"rank": 4, "targets": []}}})"), ConfigError);
  CHECK_THROWS_AS(patched_plan(s, R"({"training": {"lora": {"rank": 4, "targets": ["q_proj"]}}})"), ConfigError);
  CHECK_THROWS_AS(patched_plan(s, R"({"training": {"lora": {"rank": 4, "targets": ["experts.fc1"]}}})"), ConfigError);
  CHECK_THROWS_AS(patched_plan(s, R"({"training": {"lora": {"rank": 4, "dropout": 1}}})"), ConfigError);
  const Plan dropping = patched_plan(s, R"({"training": {"lora": {"rank": 4, "dropout": 0.1}}})");
  CHECK(nlohmann::json::parse(to_json(dropping))["training"]["lora"]["dropout"] == 0.1);
  CHECK(!nlohmann::json::parse(to_json(plan))["training"]["lora"].contains("dropout"));
}

TEST_CASE("experts that are computed again keep their input, whatever has adapters") {
  const auto norms = [](const Plan& plan) {
    const TaskGraph graph = lower(plan);
    int count = 0;
    for (const Instance& i : graph.programs[0].instances)
      for (const Task& task : graph.of(i).tasks) count += task.name == "ln2" ? 1 : 0;
    return count;
  };
  const std::string experts = R"({"model": {"moe": {"num_experts": 4, "experts_per_token": 2}},
                                  "training": {"recompute": "selective", "recompute_modules": ["moe"])";
  const SmallPlan s = llama();
  const int without = norms(patched_plan(s, experts + "}}"));
  CHECK(without > 0);
  for (const char* targets : {R"(["qkv"])", R"(["experts.fc2"])", R"(["qkv", "experts.fc1"])"})
    CHECK(norms(adapted(s, experts + R"(, "lora": {"targets": )" + targets + "}}}")) == without);
}
