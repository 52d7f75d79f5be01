// The indexer of blocks (MiniMax Sparse Attention, arXiv 2606.13392 section 3): its tasks, layers, parameters, gradients and what it keeps.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/models/lowering/lowered.hpp"

using namespace tandem;
using nlohmann::json;
using tests::graph_of;
using tests::has;
using tests::operations;
using tests::parameters;
using tests::parsed;
using tests::refusal;

namespace {

constexpr std::int64_t kSeq = 32, kKeyHeads = 2, kDim = 6, kTopK = 8, kBlock = 4, kHidden = 32;

json plan_of(const json& model = json::object(), const json& parallel = json::object(), const json& training = json::object()) {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", 4}, {"hidden_size", kHidden}, {"num_attention_heads", 4}, {"num_kv_heads", kKeyHeads},
                          {"vocab_size", 64}, {"qk_norm", "head"}, {"rotary_fraction", 0.5},
                          {"indexer", {{"heads", kKeyHeads}, {"head_dim", kDim}, {"topk", kTopK}, {"block_size", kBlock}, {"layers", "fi"}}}}},
               {"training", {{"seq_length", kSeq}, {"micro_batch_size", 1}, {"global_batch_size", 4}, {"flash_attention", true}}},
               {"parallel", parallel},
               {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
  plan["model"].merge_patch(model);
  plan["training"].merge_patch(training);
  return tests::with_devices(plan);
}

const json kNone = {{"indexer", {{"heads", 0}}}};

/// Tasks of an indexer in the templates of this name, one list for each that has any.
std::vector<std::vector<std::string>> tasks(const TaskGraph& graph, const std::string& name) {
  std::vector<std::vector<std::string>> out;
  for (const Template& t : graph.templates) {
    if (t.name != name) continue;
    std::vector<std::string> found;
    for (const Task& task : t.tasks)
      if (task.name.find("index_") != std::string::npos && task.name.rfind("accumulate", 0) != 0) found.push_back(task.name);
    if (!found.empty()) out.push_back(std::move(found));
  }
  return out;
}

std::int64_t stored(const TaskGraph& graph) {
  std::int64_t n = 0;
  for (const Param& p : graph.programs.front().params) n += p.elements();
  return n;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::int64_t kEach = kHidden * (kKeyHeads + 1) * kDim + 2 * kDim;

}  // namespace

TEST_CASE("an indexer of blocks chooses ahead of attention, in the layers that have it") {
  const TaskGraph graph = graph_of(plan_of());
  const std::vector<std::string> chain = {"index_q", "index_q_norm", "index_q_rotary", "index_k", "index_k_norm", "index_k_rotary", "index_blocks"};
  CHECK(tasks(graph, "block_forward") == std::vector<std::vector<std::string>>{chain});
  const auto attention = operations<FlashAttention>(graph, "block_forward");
  REQUIRE(attention.size() == 2);
  for (const FlashAttention& a : attention) {
    CHECK(a.dims.window == (a.chosen ? kTopK : 0));
    CHECK(a.dims.block == (a.chosen ? kBlock : 0));
  }
  CHECK(attention[0].chosen != attention[1].chosen);
}

TEST_CASE("an indexer of blocks learns in one kernel, and no gradient leaves it") {
  const TaskGraph graph = graph_of(plan_of());
  const auto all = tasks(graph, "block_backward");
  REQUIRE(!all.empty());
  CHECK(all.front() == std::vector<std::string>{"index_blocks_backward", "index_q_rotary_backward", "index_k_rotary_backward", "index_q_norm_backward",
                                                "index_k_norm_backward", "index_q_wgrad", "index_k_wgrad"});
}

TEST_CASE("an indexer of blocks has norms where attention's heads have them, and turns where they turn") {
  const json plain = {{"qk_norm", "none"}, {"position_embedding", "learned"}, {"rotary_fraction", 1}};
  CHECK(tasks(graph_of(plan_of(plain)), "block_forward").front() == std::vector<std::string>{"index_q", "index_k", "index_blocks"});
  json without = plain;
  without.merge_patch(kNone);
  CHECK(parameters(plan_of(plain)) - parameters(plan_of(without)) == 2 * (kEach - 2 * kDim));
  const auto turns = operations<Rotary>(graph_of(plan_of()), "block_forward");
  CHECK(std::count_if(turns.begin(), turns.end(), [](const Rotary& r) { return r.dims.head_dim == kDim && r.turned == 4; }) == 2);
}

TEST_CASE("parameters of an indexer of blocks are two matrices and two norms of heads in each layer that has it") {
  CHECK(parameters(plan_of()) - parameters(plan_of(kNone)) == 2 * kEach);
  CHECK(stored(graph_of(plan_of())) - stored(graph_of(plan_of(kNone))) == 2 * kEach);
  CHECK(parameters(plan_of({{"indexer", {{"layers", "i"}}}})) - parameters(plan_of(kNone)) == 4 * kEach);
  const json modules = {{"mtp", {{"num_layers", 1}}}};  // like the last layer, which has it
  json without = modules;
  without.merge_patch(kNone);
  CHECK(parameters(plan_of(modules)) - parameters(plan_of(without)) == 3 * kEach);
  CHECK(stored(graph_of(plan_of(modules))) - stored(graph_of(plan_of(without))) == 3 * kEach);
}

TEST_CASE("tensor ranks have the index heads of their key heads, and sum gradients of what heads share") {
  for (const bool sequence : {false, true}) {
    const json parallel = {{"tensor", 2}, {"sequence_parallel", sequence}};
    const TaskGraph graph = graph_of(plan_of(json::object(), parallel));
    const auto scores = operations<IndexBlocks>(graph, "block_forward");
    const auto learns = operations<IndexBlocksBackward>(graph, "block_backward");
    REQUIRE(!scores.empty());
    REQUIRE(!learns.empty());
    CHECK(scores.front().dims.heads == 1);
    CHECK(scores.front().dims.rows() == kSeq);
    CHECK(learns.front().attention.heads == 2);
    CHECK(learns.front().index_heads == 1);
    // A rank has half of the queries' matrix, and the key's matrix and the norms whole.
    CHECK(stored(graph) - stored(graph_of(plan_of(kNone, parallel))) == 2 * (kHidden * 2 * kDim + 2 * kDim));
    const auto summed = [](const TaskGraph& g) {  // of a layer's region
      std::int64_t most = 0;
      for (const Template& t : g.templates)
        for (const Task& task : t.tasks)
          if (const auto* c = std::get_if<Collective>(&task.op); c && has(t.name, "sequence_grad_reduce")) most = std::max(most, c->elements);
      return most;
    };
    CHECK(summed(graph) - summed(graph_of(plan_of(kNone, parallel))) == kHidden * kDim + 2 * kDim);
  }
}

TEST_CASE("context ranks gather the keys of an indexer of blocks and scatter the sum of their gradients") {
  const TaskGraph graph = graph_of(plan_of(json::object(), {{"context", 2}, {"context_mode", "all_gather"}}));
  const auto scores = operations<IndexBlocks>(graph, "block_forward");
  REQUIRE(!scores.empty());
  CHECK(scores.front().dims.seq == kSeq / 2);
  CHECK(scores.front().dims.key_count() == kSeq);
  CHECK(has(tasks(graph, "block_forward").front(), "index_k_all_gather"));
  CHECK(has(tasks(graph, "block_backward").front(), "index_dk_reduce_scatter"));
}

TEST_CASE("an indexer of blocks is lowered in every schedule, with sharding, recomputation and modules of multi-token prediction") {
  const json model = {{"mtp", {{"num_layers", 1}}}};
  json without = model;
  without.merge_patch(kNone);
  const auto lowers = [](const json& plan) {
    try {
      graph_of(plan);
      return true;
    } catch (const InfeasibleError&) {
      return false;
    }
  };
  int lowered = 0;
  for (const char* schedule : {"1f1b", "zb-h1", "zb-h2"})
    for (const int zero : {0, 2, 3})
      for (const char* norms : {"head", "none"})
        for (const char* modules : {"", "norm", "core_attention", "operations", "block"}) {
          json training = {{"global_batch_size", 8}};
          if (*modules != 0) training.update({{"recompute", "selective"}, {"recompute_modules", {modules}}});
          INFO(schedule << " " << zero << " " << norms << " " << modules);
          const json parallel = {{"pipeline", 2}, {"data", 2}, {"schedule", schedule}, {"zero_stage", zero}};
          json with = model, bare = without;
          with["qk_norm"] = bare["qk_norm"] = norms;
          const bool possible = lowers(plan_of(bare, parallel, training));  // zero-bubble schedules go with less
          CHECK(lowers(plan_of(with, parallel, training)) == possible);
          lowered += possible ? 1 : 0;
        }
  CHECK(lowered >= 30);  // all of 1F1B
}

TEST_CASE("what an indexer of blocks keeps is queries and key twice, statistics, and a list of blocks for every head") {
  const auto kept = [](const json& model) {
    std::int64_t most = 0;
    for (const Template& t : graph_of(plan_of(model, json::object(), {{"precision", "bf16"}})).templates)
      if (t.name == "block_forward")
        for (const Slot& s : t.slots)
          if (s.name == "saved") most = std::max(most, s.bytes.count());
    return most;
  };
  const std::int64_t wide = 2 * (kKeyHeads + 1) * kDim, statistics = 2 * (kKeyHeads + 1) + kKeyHeads;
  const std::int64_t listed = kKeyHeads * kTopK / kBlock;
  const std::int64_t bytes = kSeq * (2 * wide + 4 * statistics + 4 * listed);
  const std::int64_t more = kept(json::object()) - kept(kNone);
  CHECK(more >= bytes);
  CHECK(more < bytes + 8 * 256);  // each of eight tensors begins at a round place
}

TEST_CASE("values of an indexer of blocks that do not fit are refused by their field") {
  const auto refused = [](const json& indexer, const std::string& field) {
    CHECK_THROWS_WITH(parsed(plan_of({{"indexer", indexer}})), Catch::Contains(field));
  };
  refused({{"topk", 10}}, "model.indexer.topk");
  refused({{"heads", 4}}, "model.indexer.heads");
  refused({{"layers", "xi"}}, "model.indexer.layers");
  refused({{"layers", "f"}}, "model.indexer.layers");
  refused({{"head_dim", 2}}, "model.indexer.head_dim");
}

TEST_CASE("what an indexer of blocks does not stand beside is refused by its field, with one word") {
  CHECK(has(refusal(plan_of({{"indexer", {{"block_size", 1}}}})), "model.indexer.heads"));
  CHECK(has(refusal(plan_of({{"qk_norm", "full"}})), "model.qk_norm"));
  CHECK(has(refusal(plan_of({{"window", {{"size", 4}}}})), "model.window.size"));
  CHECK(has(refusal(plan_of(json::object(), {{"tensor", 4}})),
            "parallel.tensor 4; this version supports an indexer of blocks on tensor ranks with key heads of their own: at most model.num_kv_heads 2"));
  CHECK(has(refusal(plan_of(json::object(), {{"context", 2}, {"context_mode", "ring"}})), "parallel.context_mode"));
  const json latent = {{"qk_norm", "none"}, {"rotary_fraction", 1}, {"num_kv_heads", 4}, {"head_dim", 12},
                       {"latent", {{"kv_rank", 10}, {"query_rank", 14}, {"rotary_dim", 4}}}, {"indexer", {{"heads", 4}}}};
  CHECK(has(refusal(plan_of(latent)), "model.indexer.block_size"));
  CHECK(has(refusal(plan_of()), "simulated only"));
}
