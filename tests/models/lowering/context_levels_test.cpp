// Two levels of context ranks: who exchanges what, counted by hand.

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "models/graph/task_graph.hpp"
#include "models/ops/collective.hpp"
#include "models/plan/mesh.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

constexpr std::int64_t kSeq = 64, kHeads = 8, kDim = 16, kContext = 8, kBatch = 3;

Plan plan_of(const std::string& mode, std::int64_t ulysses, std::int64_t key_heads = kHeads) {
  const json plan = {{"model", {{"family", "llama"}, {"num_layers", 2}, {"hidden_size", kHeads * kDim}, {"num_attention_heads", kHeads},
                                {"num_kv_heads", key_heads}, {"ffn_hidden_size", 96}, {"vocab_size", 64}, {"pad_vocab_to", 64}}},
                     {"training", {{"seq_length", kSeq}, {"micro_batch_size", kBatch}, {"global_batch_size", kBatch}, {"flash_attention", true}}},
                     {"parallel", {{"context", kContext}, {"context_mode", mode}, {"ulysses", ulysses}}},
                     {"cluster", {{"preset", "cpu-host"}, {"devices", kContext}}}};
  return parse_plan(plan.dump(), "levels.json");
}

/// Elements that a layer's pass hands to each kind of collective of each group of context ranks, and their number.
using Exchanged = std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, std::int64_t>>;
Exchanged exchanged(const Plan& plan, const std::string& pass) {
  const TaskGraph graph = lower(plan);
  graph.check();
  Exchanged out;
  for (const Template& t : graph.templates) {
    if (t.name != pass) continue;
    for (const Task& task : t.tasks)
      if (const auto* c = std::get_if<Collective>(&task.op)) {
        auto& [elements, count] = out[{std::string(name(c->group)), std::string(name(c->kind))}];
        elements += c->elements, ++count;
      }
    return out;
  }
  throw ContractError("no such pass");
}

}  // namespace

TEST_CASE("neighbours exchange all columns of their rows, and rings pass the keys of a group's rows for a rank's heads") {
  constexpr std::int64_t rows = kBatch * kSeq / kContext, hidden = kHeads * kDim;
  for (const std::int64_t u : {2, 4}) {
    const std::int64_t rings = kContext / u;
    // Queries, keys and values there, the context back. Keys and values of u ranks' rows, for 1/u of the heads.
    const std::int64_t keys = u * rows * 2 * hidden / u;
    CHECK(exchanged(plan_of("ring", u), "block_forward") ==
          Exchanged{{{"context_heads", "all_to_all"}, {rows * 4 * hidden, 2}}, {{"context_keys", "shift"}, {(rings - 1) * keys, rings - 1}}});
    // The gradient of the context there, that of qkv back. Keys pass as before, their gradients on to their owners.
    CHECK(exchanged(plan_of("ring", u), "block_backward") ==
          Exchanged{{{"context_heads", "all_to_all"}, {rows * 4 * hidden, 2}},
                    {{"context_keys", "shift"}, {(2 * rings - 1) * keys, 2 * rings - 1}}});
    CHECK(exchanged(plan_of("all_gather", u), "block_forward") ==
          Exchanged{{{"context_heads", "all_to_all"}, {rows * 4 * hidden, 2}}, {{"context_keys", "all_gather"}, {rings * keys, 1}}});
  }
}

TEST_CASE("ranks that exchange heads have copies of key heads that are fewer than they") {
  constexpr std::int64_t rows = kBatch * kSeq / kContext, hidden = kHeads * kDim;
  // Two key heads among four ranks: queries, a key and a value for each of four ranks, and the context back.
  const Exchanged all = exchanged(plan_of("ring", 4, 2), "block_forward");
  CHECK(all.at({"context_heads", "all_to_all"}).first == rows * (hidden + 4 * 2 * kDim) + rows * hidden);
  CHECK(all.at({"context_keys", "shift"}).first == 4 * rows * 2 * kDim);
}

// NVIDIA/Megatron-LM: megatron/core/parallel_state.py, create_hierarchical_groups: level 1 has neighbours, level 2 ranks that far apart.
TEST_CASE("ranks that exchange heads are neighbours, and rings join every so-manyth rank") {
  const Mesh mesh = make_mesh(plan_of("ring", 2));
  const auto of = [&](Group g, int r) {
    std::vector<int> out;
    for (const Rank m : mesh.members(g, Rank(r))) out.push_back(m.value());
    return out;
  };
  CHECK(of(Group::context_heads, 5) == std::vector<int>{4, 5});
  CHECK(of(Group::context_keys, 5) == std::vector<int>{1, 3, 5, 7});
  CHECK(of(Group::context, 5).size() == 8);
}
