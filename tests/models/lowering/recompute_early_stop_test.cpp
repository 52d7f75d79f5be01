// What of a layer runs again where its recomputation stops early, against products counted by hand and what was measured.

#include "models/graph/model_flops.hpp"
#include "models/ops/op.hpp"
#include "tests/models/lowering/memory_case.hpp"

using namespace tandem;
using namespace tandem::tests;
using nlohmann::json;

namespace {

/// The instance that runs layer 1 again.
struct Again {
  explicit Again(const MemoryCase& c) : graph(lower(c.plan())) {
    graph.check();
    const StageOf stage(graph, 0);
    const auto& all = stage.program().instances;
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      if (all[i].layer != 1 || all[i].micro_batch != 0) continue;
      for (const Task& t : graph.of(all[i]).tasks) products += std::holds_alternative<MatMul>(t.op);
      if (all[i].phase != Phase::recompute) continue;
      for (const Task& t : graph.of(all[i]).tasks) names.push_back(t.name), flops += matrix_flops(t.op).count();
      outputs = stage.alive(i, [](const Allocation& a) { return a.name == "recomputed_hidden"; });
    }
  }
  bool has(const std::string& name) const { return std::find(names.begin(), names.end(), name) != names.end(); }

  TaskGraph graph;
  std::vector<std::string> names;
  std::int64_t flops = 0, products = 0, outputs = 0;  ///< products: of all of layer 1
};

MemoryCase full(bool early_stop, json training = json::object()) {
  MemoryCase c;
  c.training = {{"recompute", "full"}, {"recompute_early_stop", early_stop}, {"flash_attention", true}};
  c.training.update(training);
  return c;
}

}  // namespace

TEST_CASE("a recomputation that stops early leaves out the layer's last product, what follows it and its output") {
  const MemoryCase c = full(true);
  const Again whole(full(false)), stopped(c);
  const std::int64_t tokens = c.seq * c.batch;
  CHECK(whole.flops - stopped.flops == 2 * tokens * c.hidden * c.ffn);
  CHECK((whole.has("fc2") && whole.has("mlp_add")));
  CHECK_FALSE((stopped.has("fc2") || stopped.has("mlp_add")));
  CHECK(stopped.names.back() == "activation");
  CHECK(whole.outputs == 2 * tokens * c.hidden);
  CHECK(stopped.outputs == 0);
}

TEST_CASE("PyTorch calls 15 products for a layer of GPT that is recomputed, as measured on an H100") {
  // experiments/corpus/measured/h100/README.md: its checkpoint stops when it has what the backward pass reads.
  CHECK(Again(full(true)).products == 15);
  CHECK(Again(full(false)).products == 16);
}

TEST_CASE("tensor ranks do not sum again what nobody reads") {
  MemoryCase c = full(true);
  c.tensor = 2;
  c.parallel["sequence_parallel"] = GENERATE(false, true);
  const Again stopped(c);
  const std::string sum = c.parallel["sequence_parallel"] ? "_reduce_scatter" : "_all_reduce";
  CHECK(stopped.has("proj" + sum));
  CHECK_FALSE(stopped.has("fc2" + sum));
}

TEST_CASE("a dropout behind the last product that keeps a mask, or a norm that keeps what it reads, has the layer run whole") {
  const json drops = {{"dropout", {{"hidden", 0.1}}}}, masked = {{"dropout", {{"hidden", 0.1}}}, {"fusion", "megatron"}};
  CHECK(Again(full(true, masked)).names == Again(full(false, masked)).names);
  // Where it is a function of its place nothing is kept of it.
  CHECK(Again(full(true, drops)).names == Again(full(true)).names);
  MemoryCase post = full(true), whole = full(false);
  post.model = whole.model = {{"norm_placement", "post"}};
  CHECK(Again(post).names == Again(whole).names);
}

TEST_CASE("experts' rows come back before they are weighed: that is kept, their sum is not") {
  MemoryCase c = full(true), all = full(false);
  c.model = all.model = {{"family", "llama"}, {"moe", {{"num_experts", 4}, {"experts_per_token", 2}}}};
  const Again stopped(c), whole(all);
  CHECK((whole.has("combine") && whole.has("mlp_add")));
  CHECK_FALSE((stopped.has("combine") || stopped.has("mlp_add")));
  CHECK(whole.flops == stopped.flops);
}

TEST_CASE("the hardware's FLOPs are fewer by the last product of every recomputed layer, the model's are the same") {
  const MemoryCase c = full(true);
  const auto flops = [](const MemoryCase& of, bool hardware) {
    const TaskGraph graph = lower(of.plan());
    std::int64_t sum = 0;
    for (const Instance& i : graph.programs[0].instances)
      for (const Task& t : graph.of(i).tasks)
        sum += (hardware ? matrix_flops(t.op) : model_flops(t, i.phase, expert_rows(graph))).count();
    return sum;
  };
  CHECK(flops(c, false) == flops(full(false), false));
  CHECK(flops(full(false), true) - flops(c, true) == c.layers * 2 * c.seq * c.batch * c.hidden * c.ffn);
}

TEST_CASE("what runs again without its output leaves no hole that others want: the arena is no larger") {
  MemoryCase c = full(true, {{"precision", "bf16"}});
  c.hidden = 64;
  c.ffn = 256;
  c.vocab = GENERATE(96, 3072);
  c.pipeline = GENERATE(1, 2, 4);
  c.tensor = GENERATE(1, 2);
  c.micro_batches = 8;
  c.parallel["schedule"] = c.pipeline == 1 ? "1f1b" : GENERATE("1f1b", "gpipe", "zb-h1");
  MemoryCase whole = c;
  whole.training["recompute_early_stop"] = false;
  const TaskGraph stopped = lower(c.plan()), all = lower(whole.plan());
  for (std::size_t s = 0; s < all.programs.size(); ++s) {
    CHECK(stopped.programs[s].memory.arena_bytes <= all.programs[s].memory.arena_bytes);
    CHECK(stopped.programs[s].memory.live_peak_bytes <= all.programs[s].memory.live_peak_bytes);
  }
}

namespace {

/// Products and kept bytes of layer 1 under selective recomputation of `module`.
struct Selective {
  Selective(const json& model, const char* module, bool early_stop, json parallel = json::object()) {
    MemoryCase c;
    c.model = model;
    c.tensor = parallel.value("tensor", 1);
    c.parallel = std::move(parallel);
    c.training = {{"recompute", "selective"}, {"recompute_modules", {module}}, {"recompute_early_stop", early_stop},
                  {"fusion", "transformer-engine"}};
    graph = lower(c.plan());
    graph.check();
    const StageOf stage(graph, 0);
    const std::uint32_t backward = stage.find("block_backward", 1, 0, Phase::backward);
    for (const Task& task : graph.of(stage.program().instances[backward]).tasks)
      names.push_back(task.name), flops += matrix_flops(task.op).count();
    kept = stage.behind(backward, "saved").bytes.count();
  }
  std::int64_t count(const std::string& name) const { return std::count(names.begin(), names.end(), name); }

  TaskGraph graph;
  std::vector<std::string> names;
  std::int64_t flops = 0, kept = 0;
};

const json kExperts = {{"moe", {{"num_experts", 4}, {"experts_per_token", 2}, {"num_shared_experts", 1}}}};

}  // namespace

TEST_CASE("a checkpoint around an MLP that does not stop early runs its last product and its sum over tensor ranks again") {
  const MemoryCase c;
  const std::int64_t tokens = c.seq * c.batch;
  const json plain = json::object(), two = {{"tensor", 2}, {"sequence_parallel", true}};
  const Selective stopped(plain, "mlp", true), whole(plain, "mlp", false), cut(plain, "mlp", false, two);
  CHECK(whole.flops - stopped.flops == 2 * tokens * c.hidden * c.ffn);
  CHECK((stopped.count("fc2") == 0 && whole.count("fc2") == 1));
  CHECK(cut.count("fc2_reduce_scatter") == 1);
  CHECK(whole.kept == stopped.kept);
  CHECK(Selective(plain, "core_attention", false).count("fc2") == 0);
}

TEST_CASE("a checkpoint around a mixture of experts runs all of it again, from the router to the combination") {
  const MemoryCase c;
  const std::int64_t tokens = c.seq * c.batch, experts = 4, chosen = 2;
  const Selective stopped(kExperts, "moe", true), whole(kExperts, "moe", false);
  // Router; a chosen token's rows and the shared expert's through the second product.
  const std::int64_t rows = chosen * tokens + tokens;
  CHECK(whole.flops - stopped.flops == 2 * tokens * c.hidden * experts + 2 * rows * c.hidden * c.ffn);
  for (const char* name : {"router", "top_k", "experts.fc2", "combine", "shared.fc2"})
    CHECK((stopped.count(name) == 0 && whole.count(name) == 1));
  // Logits and probabilities of all experts, weights of the chosen ones and the rows that come back from these, in bf16.
  CHECK(stopped.kept - whole.kept == 2 * tokens * (2 * experts + chosen + chosen * c.hidden));
}

TEST_CASE("a checkpoint around shared experts runs their last product again, and no router") {
  const MemoryCase c;
  const Selective stopped(kExperts, "shared_experts", true), whole(kExperts, "shared_experts", false);
  CHECK(whole.flops - stopped.flops == 2 * c.seq * c.batch * c.hidden * c.ffn);
  CHECK((whole.count("shared.fc2") == 1 && whole.count("router") == 0 && whole.count("experts.fc2") == 0));
}

TEST_CASE("recomputed activations of experts run no product again") {
  const Selective stopped(kExperts, "moe_activation", true), whole(kExperts, "moe_activation", false);
  CHECK(whole.names == stopped.names);
}
