// The indexer of sparse attention (DeepSeek-V3.2, arXiv 2512.02556 section 2.1): its tasks, parameters, gradients and what it keeps.

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/models/lowering/lowered.hpp"

using namespace tandem;
using nlohmann::json;
using tests::arena;
using tests::graph_of;
using tests::has;
using tests::operations;
using tests::parameters;
using tests::parsed;
using tests::refusal;

namespace {

constexpr std::int64_t kSeq = 32, kHeads = 2, kDim = 6, kTopK = 8, kHidden = 32, kQueryRank = 14;

json plan_of(const json& model = json::object(), const json& parallel = json::object(), const json& training = json::object()) {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", kHidden}, {"num_attention_heads", 4}, {"vocab_size", 64},
                          {"head_dim", 12}, {"latent", {{"kv_rank", 10}, {"query_rank", kQueryRank}, {"rotary_dim", 4}}},
                          {"indexer", {{"heads", kHeads}, {"head_dim", kDim}, {"topk", kTopK}}}}},
               {"training", {{"seq_length", kSeq}, {"micro_batch_size", 1}, {"global_batch_size", 4}, {"flash_attention", true}}},
               {"parallel", parallel},
               {"cluster", {{"preset", "cpu-host"}, {"devices", 1}}}};
  plan["model"].merge_patch(model);
  plan["training"].merge_patch(training);
  return tests::with_devices(plan);
}

const json kNone = {{"indexer", {{"heads", 0}}}};

bool of_indexer(const Task& t) { return t.name.find("index_") != std::string::npos; }

/// Tasks of an indexer in the first template of this name.
std::vector<std::string> tasks(const TaskGraph& graph, const std::string& name) {
  std::vector<std::string> out;
  for (const Template& t : graph.templates) {
    if (t.name != name || !out.empty()) continue;
    for (const Task& task : t.tasks)
      if (of_indexer(task) && task.name.rfind("accumulate", 0) != 0) out.push_back(task.name);
  }
  return out;
}

std::int64_t stored(const TaskGraph& graph) {
  std::int64_t n = 0;
  for (const Param& p : graph.programs.front().params) n += p.elements();
  return n;
}

}  // namespace

TEST_CASE("an indexer chooses keys ahead of attention, which reads its list") {
  const TaskGraph graph = graph_of(plan_of());
  CHECK(tasks(graph, "block_forward") == std::vector<std::string>{"index_q", "index_q_rotary", "index_k", "index_k_norm", "index_k_rotary",
                                                                   "index_w", "index_topk"});
  const auto attention = operations<FlashAttention>(graph, "block_forward");
  REQUIRE(!attention.empty());
  CHECK(attention.front().chosen);
  CHECK(attention.front().dims.window == kTopK);
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks)
      if (std::holds_alternative<FlashAttention>(task.op)) {
        const auto is_list = [](const Operand& o) { return o.dtype == DType::int32; };
        CHECK(std::count_if(task.inputs.begin(), task.inputs.end(), is_list) == 1);
      }
}

TEST_CASE("an indexer learns in the backward pass, and no gradient leaves it") {
  const TaskGraph graph = graph_of(plan_of());
  CHECK(tasks(graph, "block_backward") ==
        std::vector<std::string>{"index_target", "index_topk_backward", "index_q_rotary_backward", "index_k_rotary_backward",
                                 "index_k_norm_backward", "index_q_wgrad", "index_k_wgrad", "index_w_wgrad"});
}

TEST_CASE("parameters of an indexer are three matrices and a layer norm of its key") {
  const std::int64_t each = kQueryRank * kHeads * kDim + kHidden * kDim + 2 * kDim + kHidden * kHeads;
  CHECK(parameters(plan_of()) - parameters(plan_of(kNone)) == 2 * each);
  CHECK(stored(graph_of(plan_of())) - stored(graph_of(plan_of(kNone))) == 2 * each);
  const json modules = {{"mtp", {{"num_layers", 1}}}};
  json without = modules;
  without.merge_patch(kNone);
  CHECK(parameters(plan_of(modules)) - parameters(plan_of(without)) == 3 * each);
}

TEST_CASE("tensor ranks compute all of an indexer, and sum what it learns over their heads") {
  for (const bool sequence : {false, true}) {
    const json parallel = {{"tensor", 2}, {"sequence_parallel", sequence}};
    const TaskGraph graph = graph_of(plan_of(json::object(), parallel));
    const auto target = operations<IndexTarget>(graph, "block_backward");
    const auto scores = operations<IndexTopK>(graph, "block_forward");
    REQUIRE(!target.empty());
    CHECK(target.front().dims.heads == 2);
    CHECK(scores.front().dims.heads == kHeads);
    CHECK(scores.front().dims.rows() == kSeq);
    const auto names = tasks(graph, "block_backward");
    CHECK(std::find(names.begin(), names.end(), "index_target_all_reduce") != names.end());
    const std::int64_t each = kQueryRank * kHeads * kDim + kHidden * kDim + 2 * kDim + kHidden * kHeads;
    CHECK(stored(graph) - stored(graph_of(plan_of(kNone, parallel))) == 2 * each);
  }
}

TEST_CASE("context ranks gather an indexer's keys and scatter the sum of their gradients") {
  const TaskGraph graph = graph_of(plan_of(json::object(), {{"context", 2}, {"context_mode", "all_gather"}}));
  const auto scores = operations<IndexTopK>(graph, "block_forward");
  REQUIRE(!scores.empty());
  CHECK(scores.front().dims.seq == kSeq / 2);
  CHECK(scores.front().dims.key_count() == kSeq);
  const auto forward = tasks(graph, "block_forward"), backward = tasks(graph, "block_backward");
  CHECK(std::find(forward.begin(), forward.end(), "index_k_all_gather") != forward.end());
  CHECK(std::find(backward.begin(), backward.end(), "index_dk_reduce_scatter") != backward.end());
}

TEST_CASE("an indexer is lowered in every schedule, with sharding, recomputation and modules of multi-token prediction") {
  const json model = {{"num_layers", 4}, {"mtp", {{"num_layers", 1}}}};
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
      for (const char* modules : {"", "norm", "mla_up_proj", "core_attention", "operations", "block"}) {
        json training = {{"global_batch_size", 8}};
        if (*modules != 0) training.update({{"recompute", "selective"}, {"recompute_modules", {modules}}});
        INFO(schedule << " " << zero << " " << modules);
        const json parallel = {{"pipeline", 2}, {"data", 2}, {"schedule", schedule}, {"zero_stage", zero}};
        const bool possible = lowers(plan_of(without, parallel, training));  // zero-bubble schedules go with less
        CHECK(lowers(plan_of(model, parallel, training)) == possible);
        lowered += possible ? 1 : 0;
      }
  CHECK(lowered >= 18);  // all of 1F1B
}

TEST_CASE("what an indexer keeps is its queries, its key twice, weights, statistics and a list of four-byte positions") {
  const auto kept = [](const json& model) {
    for (const Template& t : graph_of(plan_of(model, json::object(), {{"precision", "bf16"}})).templates)
      if (t.name == "block_forward")
        for (const Slot& s : t.slots)
          if (s.name == "saved") return s.bytes.count();
    return std::int64_t{0};
  };
  const std::int64_t wide = kHeads * kDim + 2 * kDim + kHeads, statistics = 2, listed = kTopK;
  const std::int64_t bytes = kSeq * (2 * wide + 4 * statistics + 4 * listed);
  const std::int64_t more = kept(json::object()) - kept(kNone);
  CHECK(more >= bytes);
  CHECK(more < bytes + 6 * 256);  // each of six tensors begins at a round place
}

TEST_CASE("a list is no longer than a sequence, and attention then sees all keys") {
  const TaskGraph graph = graph_of(plan_of({{"indexer", {{"topk", 4096}}}}));
  CHECK(operations<FlashAttention>(graph, "block_forward").front().dims.window == 0);
  CHECK(operations<IndexTopK>(graph, "block_forward").front().dims.listed() == kSeq);
  CHECK(arena(plan_of({{"indexer", {{"topk", 4096}}}})) > arena(plan_of()));
}

TEST_CASE("what an indexer does not stand beside is refused by its field, with one word") {
  CHECK(has(refusal(plan_of({{"latent", {{"query_rank", 0}}}})), "model.indexer.heads"));
  CHECK(has(refusal(plan_of({{"window", {{"size", 4}}}})), "model.window.size"));
  CHECK(has(refusal(plan_of({{"attention_sinks", true}})), "model.attention_sinks"));
  CHECK(has(refusal(plan_of({{"attention_soft_cap", 50}})), "model.attention_soft_cap"));
  CHECK(has(refusal(plan_of(json::object(), json::object(), {{"flash_attention", false}})), "training.flash_attention"));
  CHECK(has(refusal(plan_of(json::object(), {{"context", 2}, {"context_mode", "ring"}})), "parallel.context_mode"));
  CHECK(has(refusal(plan_of(json::object(), {{"context", 2}, {"context_mode", "ulysses"}})), "parallel.context_mode"));
  CHECK_THROWS_WITH(parsed(plan_of({{"indexer", {{"head_dim", 2}}}})), Catch::Contains("model.indexer.head_dim"));
}

TEST_CASE("the runtime takes an indexer, whose gradients are of a mean over the queries of the global batch") {
  CHECK(refusal(plan_of()).empty());
  for (const json& parallel : {json::object(), json{{"context", 2}, {"context_mode", "all_gather"}}, json{{"data", 2}}}) {
    const TaskGraph graph = graph_of(plan_of(json::object(), parallel, {{"global_batch_size", 6}}));
    const auto learn = operations<IndexTopKBackward>(graph, "block_backward");
    REQUIRE(!learn.empty());
    CHECK(learn.front().global_queries == 6 * kSeq);
  }
}
