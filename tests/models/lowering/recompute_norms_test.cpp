// Which norms selective recomputation repeats, and what a layer then keeps.

#include <set>
#include <string>
#include <vector>

#include "tests/models/lowering/memory_case.hpp"

using namespace tandem;
using namespace tandem::tests;
using nlohmann::json;

namespace {

using Modules = std::vector<std::string>;
using Norms = std::set<std::string>;

const json kDense = json::object();
const json kExperts = {{"moe", {{"num_experts", 4}, {"experts_per_token", 2}, {"num_shared_experts", 1}}}};
const json kLatent = {{"family", "llama"}, {"head_dim", 12},
                      {"latent", {{"kv_rank", 16}, {"query_rank", 16}, {"rotary_dim", 4}}}};

TaskGraph lowered(const json& model, const Modules& modules, const json& parallel = json::object(), std::int64_t stages = 1) {
  MemoryCase c;
  c.pipeline = stages;
  c.model = model;
  c.parallel = parallel;
  if (!modules.empty()) c.training = {{"recompute", "selective"}, {"recompute_modules", modules}};
  TaskGraph graph = lower(c.plan());
  CHECK_NOTHROW(graph.check());
  return graph;
}

/// Norms that the backward pass of a layer runs again.
Norms norms_in(const TaskGraph& graph, const char* part) {
  Norms out;
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks)
      if (t.name == part && (std::holds_alternative<LayerNorm>(task.op) || std::holds_alternative<LatentNorm>(task.op)))
        out.insert(task.name);
  return out;
}
Norms norms(const json& model, const Modules& modules) { return norms_in(lowered(model, modules), "block_backward"); }

/// Bytes that a layer keeps for its backward pass.
std::int64_t kept(const TaskGraph& graph) {
  for (const Template& t : graph.templates)
    for (const Slot& s : t.slots)
      if (t.name == "block_forward" && s.name == "saved") return s.bytes.count();
  FAIL("a layer keeps nothing");
  return 0;
}
/// Those that it keeps less if `modules` are recomputed.
std::int64_t dropped(const json& model, const Modules& modules) { return kept(lowered(model, {})) - kept(lowered(model, modules)); }

}  // namespace

TEST_CASE("A recomputed MLP runs the norm before it again, and the norm before attention stays") {
  CHECK(norms(kDense, {"mlp"}) == Norms{"ln2"});
  CHECK(norms(kDense, {"norm"}) == Norms{"ln1", "ln2"});
  CHECK(norms(kDense, {"norm", "mlp"}) == Norms{"ln1", "ln2"});
  const MemoryCase c;
  const std::int64_t tokens = c.batch * c.seq, inside = 2 * tokens * 2 * c.ffn, state = 2 * tokens * c.hidden;
  CHECK(dropped(kDense, {"mlp"}) == inside + state);
  CHECK(dropped(kDense, {"norm"}) == 2 * state);
  CHECK(dropped(kDense, {"norm", "mlp"}) == inside + 2 * state);
}

TEST_CASE("The second half of a split backward pass keeps vectors of the norms that it runs again, and no others") {
  const auto again = [](const Modules& modules) {
    const TaskGraph graph = lowered(kDense, modules, {{"schedule", "zb-h1"}}, 2);
    return norms_in(graph, "block_weights");
  };
  CHECK(again({"mlp"}) == Norms{"ln2"});
  CHECK(again({"norm"}) == Norms{"ln1", "ln2"});
  CHECK(again({}).empty());
}

TEST_CASE("Recomputed experts keep their input, routed and shared ones") {
  for (const char* module : {"moe", "shared_experts", "moe_activation"}) CHECK(norms(kExperts, {module}).empty());
  const MemoryCase c;
  const std::int64_t tokens = c.batch * c.seq;
  CHECK(dropped(kExperts, {"shared_experts"}) == 2 * tokens * 2 * c.ffn);
  CHECK(dropped(kExperts, {"moe"}) > dropped(kExperts, {"shared_experts"}));
  CHECK(dropped(kExperts, {"moe", "shared_experts"}) == dropped(kExperts, {"moe"}));
  CHECK(dropped(kExperts, {"mlp"}) == 0);
}

TEST_CASE("Recomputed up-projections run the norms of their compressed inputs again, and no other norm") {
  CHECK(norms(kLatent, {"mla_up_proj"}) == Norms{"q_latent_norm", "kv_latent_norm"});
  CHECK(norms(kLatent, {"norm"}) == Norms{"ln1", "ln2", "q_latent_norm", "kv_latent_norm"});
  CHECK(norms(kLatent, {"mlp"}) == Norms{"ln2"});
}
