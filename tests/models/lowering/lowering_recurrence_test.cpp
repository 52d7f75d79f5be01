// Layers with a recurrence, of one sublayer, and with a gate of attention's output: their tasks, parameters, FLOPs and what they keep.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/graph/model_flops.hpp"
#include "tests/catch.hpp"
#include "tests/models/lowering/lowered.hpp"

using namespace tandem;
using nlohmann::json;
using tests::graph_of;
using tests::has;
using tests::parameters;
using tests::parsed;
using tests::refusal;

namespace {

constexpr std::int64_t kSeq = 256, kHidden = 32, kFfn = 96, kHeads = 4, kKeyHeads = 2, kKey = 8, kValue = 16;
constexpr std::int64_t kValues = kHeads * kValue, kMixed = 2 * kKeyHeads * kKey + kValues;

json plan_of(const json& model = json::object(), const json& parallel = json::object(), const json& training = json::object()) {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", 4}, {"hidden_size", kHidden}, {"num_attention_heads", 4}, {"num_kv_heads", 2},
                          {"ffn_hidden_size", kFfn}, {"vocab_size", 64}, {"pad_vocab_to", 64}}},
               {"training", {{"seq_length", kSeq}, {"micro_batch_size", 1}, {"global_batch_size", 8}, {"flash_attention", true}}},
               {"parallel", parallel},
               {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
  plan["model"].merge_patch(model);
  plan["training"].merge_patch(training);
  return tests::with_devices(plan);
}

json recurrence(const char* rule, const char* layers = "rrra") {
  return {{"recurrence", {{"rule", rule}, {"heads", kHeads}, {"key_heads", kKeyHeads}, {"key_dim", kKey}, {"value_dim", kValue},
                          {"layers", layers}}}};
}

/// One sublayer a layer: recurrence, MLP, attention, MLP.
json single() {
  json model = recurrence("mamba2", "raaa");
  model["sublayers"] = "mfmf";
  return model;
}

std::int64_t stored(const TaskGraph& graph) {
  std::int64_t n = 0;
  for (const Program& p : graph.programs)
    for (const Param& q : p.params) n += q.elements();
  return n;
}

/// FLOPs of a step, as reports count them.
std::int64_t flops(const TaskGraph& graph) {
  const ExpertRows rows = expert_rows(graph);
  std::int64_t sum = 0;
  for (const Program& p : graph.programs)
    for (const Instance& i : p.instances)
      for (const Task& t : graph.of(i).tasks) sum += model_flops(t, i.phase, rows).count();
  return sum;
}

template <class T>
std::int64_t count(const TaskGraph& graph) {
  std::int64_t n = 0;
  for (const Program& p : graph.programs)
    for (const Instance& i : p.instances)
      for (const Task& t : graph.of(i).tasks) n += std::holds_alternative<T>(t.op) ? 1 : 0;
  return n;
}

constexpr std::int64_t kNorm = kHidden, kAttention = 2 * kHidden * kHidden + 2 * (kHidden / 2) * kHidden, kMlp = 3 * kHidden * kFfn;

}  // namespace

TEST_CASE("a recurrence has two matrices, a convolution, numbers of its heads and a norm") {
  // Delta rule: how much a head forgets and learns; one norm for all heads. Mamba 2: a number more of each head, a norm of all columns.
  const std::int64_t delta = kHidden * (kMixed + kValues + 2 * kHeads) + kMixed * 4 + 2 * kHeads + kValue + kValues * kHidden;
  const std::int64_t mamba = kHidden * (kMixed + kValues + kHeads) + kMixed * 5 + 3 * kHeads + kValues + kValues * kHidden;
  json biased = recurrence("mamba2");
  biased["recurrence"]["conv_bias"] = true;
  const std::int64_t attention = parameters(plan_of());
  CHECK(parameters(plan_of(recurrence("gated_delta"))) - attention == 3 * (delta - kAttention));
  CHECK(parameters(plan_of(biased)) - attention == 3 * (mamba - kAttention));
  for (const json& model : {recurrence("gated_delta"), biased, single()}) CHECK(stored(graph_of(plan_of(model))) == parameters(plan_of(model)));
}

TEST_CASE("layers of one sublayer have one norm, and the sublayer") {
  const std::int64_t mamba = kHidden * (kMixed + kValues + kHeads) + kMixed * 4 + 3 * kHeads + kValues + kValues * kHidden;
  const std::int64_t rest = parameters(plan_of()) - 4 * (kAttention + kMlp + 2 * kNorm);
  CHECK(parameters(plan_of(single())) == rest + mamba + kAttention + 2 * kMlp + 4 * kNorm);
  const TaskGraph graph = graph_of(plan_of(single()));
  CHECK(count<Recurrence>(graph) == 8);      // of eight micro-batches, in one layer
  CHECK(count<FlashAttention>(graph) == 8);
  CHECK(count<GatedPointwise>(graph) == 16);
}

TEST_CASE("FLOPs of layers with a recurrence are those of products and of states, three times a forward pass") {
  const std::int64_t tokens = 8 * kSeq, head = 2 * kHidden * 64;
  const std::int64_t attention = 2 * kAttention, pairs = 4 * kHidden * (kSeq + 1) / 2, mlp = 2 * kMlp;
  const auto mixer = [](std::int64_t scalars, std::int64_t each) {
    return 2 * kHidden * (kMixed + kValues + scalars + kValues) + each * kValues * kKey;
  };
  CHECK(flops(graph_of(plan_of(recurrence("gated_delta")))) ==
        3 * tokens * (3 * mixer(2 * kHeads, 6) + attention + pairs + 4 * mlp + head));
  CHECK(flops(graph_of(plan_of(recurrence("mamba2")))) == 3 * tokens * (3 * mixer(kHeads, 4) + attention + pairs + 4 * mlp + head));
  CHECK(flops(graph_of(plan_of(single()))) == 3 * tokens * (mixer(kHeads, 4) + attention + pairs + 2 * mlp + head));
  CHECK(flops(graph_of(plan_of({{"attention_gate", true}}))) ==
        3 * tokens * (4 * (attention + 2 * kHidden * kHidden + pairs + mlp) + head));
}

TEST_CASE("tensor ranks share a recurrence's heads, and pipelines and data ranks have all that one rank has") {
  const std::int64_t one = flops(graph_of(plan_of(recurrence("gated_delta"))));
  for (const json& parallel : {json{{"tensor", 2}}, json{{"tensor", 2}, {"sequence_parallel", true}}, json{{"pipeline", 2}}}) {
    const TaskGraph graph = graph_of(plan_of(recurrence("gated_delta"), parallel));
    const std::int64_t ranks = parallel.contains("tensor") ? 2 : 1;  // each has a program of its stage
    CHECK(ranks * flops(graph) == one);
  }
}

TEST_CASE("tensor ranks cut each matrix of a layer's first product by itself") {
  using Rows = std::vector<std::vector<std::int64_t>>;  // of each block: start of both ranks' shares, rows, whether it continues
  const auto rows = [](const json& model, const std::string& name, std::int64_t full) {
    Rows found;
    const TaskGraph graph = graph_of(plan_of(model, {{"tensor", 2}}));
    for (const Param& p : graph.programs[0].params)
      if (p.name == name) {
        CHECK(p.full_rows == full);
        found.push_back({p.share(0), p.share(1), p.rows, p.continues});
      }
    return found;
  };
  const std::int64_t scalars = kMixed + kValues;
  CHECK(rows(recurrence("gated_delta"), "layer0.recurrence_in.weight", scalars + 2 * kHeads) ==
        Rows{{0, kMixed / 2, kMixed / 2, 0},
             {kMixed, kMixed + kValues / 2, kValues / 2, 1},
             {scalars, scalars + kHeads, kHeads, 1}});
  // One head of keys and values for both ranks, behind the queries of its group.
  CHECK(rows({{"attention_gate", true}, {"num_kv_heads", 1}}, "layer0.qkv.weight", 2 * kHidden + 16) ==
        Rows{{0, kHidden / 2, kHidden / 2, 0}, {kHidden, 3 * kHidden / 2, kHidden / 2, 1}, {2 * kHidden, 2 * kHidden, 16, 1}});
}

TEST_CASE("recurrences, single sublayers and gates are lowered in every schedule, with sharding and recomputation") {
  int lowered = 0;
  const json models[] = {recurrence("gated_delta"), recurrence("mamba2"), single(), {{"attention_gate", true}}};
  for (const json& model : models)
    for (const char* schedule : {"1f1b", "interleaved", "zb-h1"})
      for (const int zero : {0, 1, 2, 3})
        for (const char* recompute : {"none", "full", "selective"}) {
          json parallel = {{"pipeline", 2}, {"data", 2}, {"schedule", schedule}, {"zero_stage", zero}};
          if (std::string(schedule) == "interleaved") parallel["virtual_pipeline"] = 2;
          const json training = {{"recompute", recompute}};
          INFO(model.dump() << schedule << zero << recompute);
          const std::string plain = refusal(plan_of(json::object(), parallel, training));
          if (!plain.empty()) continue;  // refused whatever the layers are
          CHECK_NOTHROW(graph_of(plan_of(model, parallel, training)));
          ++lowered;
        }
  CHECK(lowered >= 96);  // all of 1F1B and of interleaving
}

TEST_CASE("what a recurrence keeps does not grow with the sequence faster than its tokens") {
  const auto kept = [](std::int64_t seq) {
    for (const Template& t : graph_of(plan_of(recurrence("gated_delta"), json::object(), {{"seq_length", seq}})).templates)
      if (t.name == "block_forward" && std::any_of(t.tasks.begin(), t.tasks.end(), [](const Task& task) { return task.name == "recurrence"; }))
        for (const Slot& s : t.slots)
          if (s.name == "saved") return s.bytes.count();
    return std::int64_t{0};
  };
  REQUIRE(kept(256) > 0);
  CHECK(kept(1024) < 4.1 * kept(256));
  CHECK(kept(1024) > 3.9 * kept(256));
}

TEST_CASE("what these layers do not stand beside is refused by its field") {
  CHECK(has(refusal(plan_of({{"sublayers", "mf"}, {"norm_placement", "sandwich"}})), "model.sublayers"));
  for (const json& model : {recurrence("mamba2"), recurrence("gated_delta"), single(), json{{"attention_gate", true}}})
    CHECK(refusal(plan_of(model)).empty());
  CHECK_THROWS_AS(parsed(plan_of(recurrence("mamba2"), {{"tensor", 4}})), InfeasibleError);  // two heads of keys
}
