// Context ranks share the heads of a recurrence: what they exchange, compute and keep, counted by hand.

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/graph/model_flops.hpp"
#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

constexpr std::int64_t kSeq = 256, kHeads = 4, kKeyHeads = 2, kKey = 8, kValue = 16;
constexpr std::int64_t kValues = kHeads * kValue, kMixed = 2 * kKeyHeads * kKey + kValues;

json recurrence(const char* rule, const char* layers = "rrra") {
  return {{"recurrence", {{"rule", rule}, {"heads", kHeads}, {"key_heads", kKeyHeads}, {"key_dim", kKey}, {"value_dim", kValue},
                          {"layers", layers}}}};
}

Plan plan_of(const json& model, const json& parallel, const json& training = json::object()) {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", 4}, {"hidden_size", 32}, {"num_attention_heads", 4}, {"num_kv_heads", 2},
                          {"ffn_hidden_size", 96}, {"vocab_size", 64}, {"pad_vocab_to", 64}}},
               {"training", {{"seq_length", kSeq}, {"micro_batch_size", 1}, {"global_batch_size", 8}, {"flash_attention", true}}},
               {"parallel", parallel},
               {"cluster", {{"preset", "cpu-host"}}}};
  plan["model"].merge_patch(model);
  plan["training"].merge_patch(training);
  std::int64_t devices = 1;
  for (const char* axis : {"tensor", "pipeline", "data", "context"}) devices *= parallel.value(axis, std::int64_t{1});
  plan["cluster"]["devices"] = devices;
  return parse_plan(plan.dump(), "recurrence.json");
}

TaskGraph graph_of(const Plan& plan) {
  TaskGraph graph = lower(plan);
  graph.check();
  return graph;
}

const Template& mixer(const TaskGraph& graph, const std::string& name) {
  for (const Template& t : graph.templates)
    if (t.name == name)
      for (const Task& task : t.tasks)
        if (std::holds_alternative<ShortConv>(task.op) || std::holds_alternative<ShortConvBackward>(task.op)) return t;
  throw ContractError("no layer with a recurrence");
}

/// Elements of each all-to-all of a layer's pass, by task.
std::map<std::string, std::int64_t> exchanged(const TaskGraph& graph, const std::string& pass) {
  std::map<std::string, std::int64_t> all;
  for (const Task& task : mixer(graph, pass).tasks)
    if (const auto* c = std::get_if<Collective>(&task.op); c && c->kind == CollectiveKind::all_to_all) {
      CHECK(c->group == Group::context);
      all[task.name] = c->elements;
    }
  return all;
}

/// FLOPs of a rank's step.
std::int64_t flops(const TaskGraph& graph) {
  std::int64_t sum = 0;
  for (const Instance& i : graph.programs[0].instances)
    for (const Task& t : graph.of(i).tasks) sum += model_flops(t, i.phase, {}).count();
  return sum;
}

std::int64_t kept(const TaskGraph& graph) {
  for (const Slot& s : mixer(graph, "block_forward").slots)
    if (s.name == "saved") return s.bytes.count();
  return 0;
}

std::string refusal(const json& model, const json& parallel, const json& training = json::object()) {
  try {
    require_lowerable(plan_of(model, parallel, training));
    return "";
  } catch (const InfeasibleError& e) {
    CHECK(e.problems().size() == 1);
    return e.problems().front().message();
  }
}

}  // namespace

TEST_CASE("context ranks exchange queries, keys, values and scalars, and take outputs back, once each way") {
  for (const char* mode : {"ring", "all_gather"})
    for (const bool delta : {true, false}) {
      const TaskGraph graph = graph_of(plan_of(recurrence(delta ? "gated_delta" : "mamba2"), {{"context", 2}, {"context_mode", mode}}));
      const std::int64_t rows = kSeq / 2, scalars = delta ? 2 * kHeads : kHeads;
      CHECK(exchanged(graph, "block_forward") == std::map<std::string, std::int64_t>{{"recurrence_mixed_all_to_all", rows * kMixed},
                                                                                    {"recurrence_scalars_all_to_all", rows * scalars},
                                                                                    {"recurrence_out_all_to_all", rows * kValues}});
      CHECK(exchanged(graph, "block_backward") == std::map<std::string, std::int64_t>{{"drecurrence_mixed_all_to_all", rows * kMixed},
                                                                                     {"drecurrence_scalars_all_to_all", rows * scalars},
                                                                                     {"drecurrence_out_all_to_all", rows * kValues}});
    }
}

TEST_CASE("each of more context ranks than key heads gets the queries and keys of its head") {
  const TaskGraph graph = graph_of(plan_of(recurrence("mamba2"), {{"context", 4}}));
  const std::int64_t rows = kSeq / 4;
  // Four ranks, each with one query, one key and the values of one head.
  CHECK(exchanged(graph, "block_forward").at("recurrence_mixed_all_to_all") == rows * 4 * (2 * kKey + kValue));
  CHECK(exchanged(graph, "block_backward").at("drecurrence_mixed_all_to_all") == rows * 4 * (2 * kKey + kValue));
  for (const Task& task : mixer(graph, "block_forward").tasks)
    if (const auto* scan = std::get_if<Recurrence>(&task.op)) {
      CHECK(scan->dims.seq == kSeq);
      CHECK(scan->dims.heads == 1);
      CHECK(scan->dims.key_heads == 1);
    }
  // So do tensor ranks with fewer key heads than context ranks.
  const TaskGraph both = graph_of(plan_of(recurrence("mamba2"), {{"tensor", 2}, {"context", 2}}));
  CHECK(exchanged(both, "block_forward").at("recurrence_mixed_all_to_all") == kSeq / 2 * 2 * (2 * kKey + kValue));
}

TEST_CASE("context ranks of a recurrence share its FLOPs and what it keeps, and each has all parameters") {
  for (const char* rule : {"gated_delta", "mamba2"})
    for (const char* mode : {"ring", "all_gather", "ulysses"}) {
      INFO(rule << " " << mode);
      const TaskGraph one = graph_of(plan_of(recurrence(rule), {{"context", 1}}));
      const TaskGraph two = graph_of(plan_of(recurrence(rule), {{"context", 2}, {"context_mode", mode}}));
      CHECK(2 * flops(two) == flops(one));
      CHECK(2 * kept(two) == kept(one));
      CHECK(two.programs[0].params.size() == one.programs[0].params.size());
      std::int64_t difference = 0;
      for (std::size_t i = 0; i < one.programs[0].params.size(); ++i)
        difference += std::abs(two.programs[0].params[i].elements() - one.programs[0].params[i].elements());
      CHECK(difference == 0);
    }
}

TEST_CASE("context ranks of recurrences and gates are lowered in every schedule, with sharding and recomputation") {
  json single = recurrence("mamba2", "raaa");
  single["sublayers"] = "mfmf";
  for (const json& model : {recurrence("gated_delta"), single, json{{"attention_gate", true}}})
    for (const char* schedule : {"1f1b", "interleaved", "zb-h1"})
      for (const int zero : {0, 1, 2, 3})
        for (const char* recompute : {"none", "full", "selective"}) {
          if (std::string(schedule) == "interleaved" && zero > 1) continue;
          const char* mode = zero % 2 == 0 ? "ring" : "ulysses";
          json parallel = {{"pipeline", 2}, {"data", 2}, {"context", 2}, {"context_mode", mode}, {"schedule", schedule}, {"zero_stage", zero}};
          if (std::string(schedule) == "interleaved") parallel["virtual_pipeline"] = 2;
          INFO(model.dump() << parallel.dump() << recompute);
          CHECK_NOTHROW(graph_of(plan_of(model, parallel, {{"recompute", recompute}})));
        }
}

TEST_CASE("context ranks that cannot share the heads of a recurrence are refused, with those that can") {
  CHECK(refusal(recurrence("mamba2"), {{"context", 8}}) ==
        "recurrence.json: parallel.context = 8: context ranks share the heads of a recurrence, and 4 heads of a tensor rank "
        "(model.recurrence.heads) do not divide by it; use 1, 2 or 4");
  json model = recurrence("gated_delta");
  model["recurrence"].update({{"heads", 12}, {"key_heads", 4}});
  const std::string message = refusal(model, {{"context", 3}}, {{"seq_length", 240}});
  CHECK(message ==
        "recurrence.json: parallel.context = 3: context ranks share the heads of a recurrence, and 4 key heads of a tensor rank "
        "(model.recurrence.key_heads) neither divide by it nor it by them; use 1, 2, 4 or 12");
  for (const char* mode : {"ring", "all_gather", "ulysses"}) {
    CHECK(refusal(recurrence("mamba2"), {{"context", 4}, {"context_mode", mode}}).empty());
    CHECK(refusal({{"attention_gate", true}}, {{"context", 2}, {"context_mode", mode}}).empty());
  }
}
