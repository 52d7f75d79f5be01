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

constexpr const char* kApart = "megatron-2022";              // norms are modules of their own
constexpr const char* kFused = "transformer-engine-2024";    // LayerNormLinear

TaskGraph lowered(const json& model, const char* fusion, const Modules& modules, const json& parallel = json::object(),
                  std::int64_t stages = 1) {
  MemoryCase c;
  c.pipeline = stages;
  c.model = model;
  c.parallel = parallel;
  c.training = {{"fusion", fusion}};
  if (!modules.empty()) c.training.update({{"recompute", "selective"}, {"recompute_modules", modules}});
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
Norms norms(const json& model, const char* fusion, const Modules& modules) { return norms_in(lowered(model, fusion, modules), "block_backward"); }

/// Bytes that a layer keeps for its backward pass.
std::int64_t kept(const TaskGraph& graph) {
  for (const Template& t : graph.templates)
    for (const Slot& s : t.slots)
      if (t.name == "block_forward" && s.name == "saved") return s.bytes.count();
  FAIL("a layer keeps nothing");
  return 0;
}
/// Those that it keeps less if `modules` are recomputed.
std::int64_t dropped(const json& model, const char* fusion, const Modules& modules) {
  return kept(lowered(model, fusion, {})) - kept(lowered(model, fusion, modules));
}

}  // namespace

TEST_CASE("Norms of their own are recomputed as norms, and with no other module") {
  CHECK(norms(kDense, kApart, {"norm"}) == Norms{"ln1", "ln2"});
  CHECK(norms(kDense, kApart, {"mlp"}).empty());
  CHECK(norms(kLatent, kApart, {"norm"}) == Norms{"ln1", "ln2", "q_latent_norm", "kv_latent_norm"});
  CHECK(norms(kLatent, kApart, {"mla_up_proj"}).empty());
}

TEST_CASE("A norm that is one module with a product is recomputed with that product's module alone") {
  CHECK(norms(kDense, kFused, {"norm"}).empty());
  CHECK(norms(kDense, kFused, {"mlp"}) == Norms{"ln2"});
  CHECK(norms(kDense, kFused, {"operations"}) == Norms{"ln1", "ln2"});
  CHECK(norms(kExperts, kFused, {"norm"}) == Norms{"ln2"});
  for (const char* module : {"mlp", "moe", "shared_experts", "moe_activation"}) CHECK(norms(kExperts, kFused, {module}).empty());
  CHECK(norms(kLatent, kFused, {"norm"}) == Norms{"ln1"});
  CHECK(norms(kLatent, kFused, {"mlp"}) == Norms{"ln2"});
  CHECK(norms(kLatent, kFused, {"mla_up_proj"}) == Norms{"q_latent_norm", "kv_latent_norm"});
}

TEST_CASE("A recomputed MLP keeps its input, or the residual if its norm is recomputed with it") {
  const MemoryCase c;
  const std::int64_t tokens = c.batch * c.seq, inside = 2 * tokens * 2 * c.ffn, state = 2 * tokens * c.hidden;
  CHECK(dropped(kDense, kApart, {"mlp"}) == inside);
  CHECK(dropped(kDense, kFused, {"mlp"}) == inside + state);
  CHECK(dropped(kDense, kApart, {"norm"}) == 2 * state);
  CHECK(dropped(kDense, kFused, {"norm"}) == 0);
}

TEST_CASE("The second half of a split backward pass keeps vectors of the norms that it runs again, and no others") {
  const auto again = [](const char* fusion, const Modules& modules) {
    return norms_in(lowered(kDense, fusion, modules, {{"schedule", "zb-h1"}}, 2), "block_weights");
  };
  CHECK(again(kFused, {"mlp"}) == Norms{"ln2"});
  CHECK(again(kApart, {"norm"}) == Norms{"ln1", "ln2"});
  CHECK(again(kApart, {"mlp"}).empty());
}

TEST_CASE("Recomputed experts keep their input, routed and shared ones") {
  const MemoryCase c;
  const std::int64_t tokens = c.batch * c.seq;
  CHECK(dropped(kExperts, kFused, {"shared_experts"}) == 2 * tokens * 2 * c.ffn);
  CHECK(dropped(kExperts, kFused, {"moe"}) > dropped(kExperts, kFused, {"shared_experts"}));
  CHECK(dropped(kExperts, kFused, {"moe", "shared_experts"}) == dropped(kExperts, kFused, {"moe"}));
  CHECK(dropped(kExperts, kFused, {"mlp"}) == 0);
}
