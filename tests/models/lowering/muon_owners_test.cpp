// Muon with ZeRO 1: who owns which parameter, and what follows for memory, collectives and the update's work.

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <vector>

#include "models/base/error.hpp"
#include "models/graph/owners.hpp"
#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;

namespace {

struct Layout {
  int data = 4, expert = 1, zero = 1, group = 0;
};

// Without biases: a layer has two norms, qkv, proj, fc1 and fc2; with experts a router, and fc1 and fc2 of each expert.
std::string text(const Layout& l, bool experts, const std::string& optimizer = "muon") {
  const std::string moe = R"("moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 32},)";
  return R"({"model": {"family": "llama", "num_layers": 4, "hidden_size": 64, "num_attention_heads": 4, )" + (experts ? moe : "") +
         R"("ffn_hidden_size": 128, "vocab_size": 96, "pad_vocab_to": 32, "tie_embeddings": false},
             "parallel": {"data": )" + std::to_string(l.data) + R"(, "expert": )" + std::to_string(l.expert) + R"(, "zero_stage": )" +
         std::to_string(l.zero) + (l.group > 0 ? R"(, "zero_group": )" + std::to_string(l.group) : "") + R"(},
             "training": {"seq_length": 8, "micro_batch_size": 1, "global_batch_size": )" +
         std::to_string(2 * l.data) + R"(, "precision": "bf16", "optimizer": ")" + optimizer +
         R"("}, "cluster": {"preset": "cpu-host", "devices": )" + std::to_string(l.data) + "}}";
}

TaskGraph graph_of(const Layout& l, bool experts = false, const std::string& optimizer = "muon") {
  return lower(parse_plan(text(l, experts, optimizer), ""));
}

std::int64_t bytes_of_buffer(const Program& program, std::string_view name) {
  std::int64_t n = 0;
  for (const Allocation& a : program.memory.allocations)
    if (a.name == name) n += a.bytes.count();
  return n;
}

ShardCoords seat(std::int64_t data, const Layout& l) {
  ShardCoords s;
  s.data = s.shard = data;
  s.expert_data = s.expert_shard = data / l.expert;
  s.norm_over_world = true;
  return s;
}

/// Elements of the parameters in the dense groups, by size, as listed here from the model's shapes; word and output matrix last.
std::vector<std::int64_t> dense_sizes() {
  std::vector<std::int64_t> all(9, 64);  // two norms of each layer, and the final one
  for (int layer = 0; layer < 4; ++layer) all.insert(all.end(), {3 * 64 * 64, 64 * 64, 2 * 128 * 64, 128 * 64});
  all.insert(all.end(), {96 * 64, 96 * 64});
  std::sort(all.begin(), all.end());
  return all;
}

/// Megatron-LM's rule: ascending by size, to ranks 0 .. n-1, then n-1 .. 0, and so on.
std::vector<std::int64_t> dealt(const std::vector<std::int64_t>& sizes, std::size_t ranks) {
  std::vector<std::int64_t> sums(ranks);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t at = i % (2 * ranks);
    sums[at < ranks ? at : 2 * ranks - 1 - at] += sizes[i];
  }
  return sums;
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// By kind and group: calls and elements of the collectives around the update.
std::map<std::pair<CollectiveKind, Group>, std::pair<int, std::int64_t>> collectives(const TaskGraph& graph) {
  std::map<std::pair<CollectiveKind, Group>, std::pair<int, std::int64_t>> all;
  for (const Instance& i : graph.programs[0].instances)
    for (const Task& task : graph.of(i).tasks)
      if (const auto* c = std::get_if<Collective>(&task.op); c != nullptr && bits(c->dtype) <= 32)
        ++all[{c->kind, c->group}].first, all[{c->kind, c->group}].second += c->elements;
  return all;
}

}  // namespace

TEST_CASE("with ZeRO 1 each of Muon's parameters has one owner, which updates all of it") {
  const Layout l = GENERATE(Layout{2}, Layout{3}, Layout{4}, Layout{4, 2}, Layout{4, 4}, Layout{64});
  const bool experts = l.expert > 1;
  const TaskGraph graph = graph_of(l, experts);
  graph.check();
  const Program& program = graph.programs[0];
  std::vector<std::map<const Param*, std::int64_t>> updated;
  for (std::int64_t r = 0; r < l.data; ++r) {
    std::int64_t end = 0;
    auto& mine = updated.emplace_back();
    for (const ParamPiece& p : param_pieces(program, seat(r, l))) {
      CHECK(p.state >= end);  // states lie one after the other
      end = p.state + p.count;
      mine[p.param] += p.count;
      if (p.param->matrices.any()) CHECK(p.count % (p.param->elements() / p.param->matrices.stacked) == 0);
    }
    CHECK(bytes_of_buffer(program, "exp_avg") >= 4 * end);
  }
  for (const Param& p : program.params) {
    // Each rank of an expert group has other experts; the first of each stands for its owners.
    const bool of_experts = p.replication == Replication::expert;
    std::int64_t sum = 0, owners = 0;
    for (std::int64_t r = 0; r < l.data; r += of_experts ? l.expert : 1) {
      const auto at = updated[static_cast<std::size_t>(r)].find(&p);
      if (at != updated[static_cast<std::size_t>(r)].end()) sum += at->second, ++owners;
    }
    INFO(p.name);
    CHECK(sum == p.elements());
    if (p.matrices.stacked <= 1) CHECK(owners == 1);
  }
}

TEST_CASE("parameters are dealt out by size as Megatron-LM does, and memory is that of the rank that gets most") {
  const Layout l{GENERATE(2, 3, 4, 7)};
  const TaskGraph graph = graph_of(l);
  const Program& program = graph.programs[0];
  const std::vector<std::int64_t> sums = dealt(dense_sizes(), static_cast<std::size_t>(l.data));
  std::int64_t most_rest = 0;
  for (std::int64_t r = 0; r < l.data; ++r) {
    std::int64_t sum = 0, rest = 0;
    for (const ParamPiece& p : param_pieces(program, seat(r, l))) sum += p.count, rest += p.param->matrices.any() ? 0 : p.count;
    CHECK(sum == sums[static_cast<std::size_t>(r)]);
    most_rest = std::max(most_rest, rest);
  }
  const std::int64_t most = *std::max_element(sums.begin(), sums.end());
  const std::int64_t all = std::accumulate(sums.begin(), sums.end(), std::int64_t{0});
  CHECK(bytes_of_buffer(program, "exp_avg") == aligned(4 * most));
  CHECK(bytes_of_buffer(program, "master") == aligned(4 * most));
  CHECK(bytes_of_buffer(program, "exp_avg_sq") == aligned(4 * most_rest));
  CHECK(static_cast<double>(most) < 1.15 * static_cast<double>(all) / l.data);  // balanced
  const Program plain = graph_of({l.data, 1, 0}).programs[0];
  CHECK(bytes_of_buffer(program, "weights") >= bytes_of_buffer(plain, "weights"));  // whole, and padding
}

TEST_CASE("Muon's gradients are summed on every data rank, and each updated parameter is gathered once from its owner") {
  const Layout l{4, 2};
  const TaskGraph owned = graph_of(l, true), whole = graph_of({4, 2, 0}, true), adamw = graph_of(l, true, "adamw");
  auto now = collectives(owned);
  const auto before = collectives(whole), flat = collectives(adamw);
  for (const Group g : {Group::data, Group::expert_data})
    CHECK(now[{CollectiveKind::all_reduce, g}].second >= before.at({CollectiveKind::all_reduce, g}).second);
  CHECK(now.count({CollectiveKind::reduce_scatter, Group::shard}) == 0);
  for (const Group g : {Group::shard, Group::expert_shard})
    CHECK(now[{CollectiveKind::all_gather, g}] == flat.at({CollectiveKind::all_gather, g}));  // the same weights travel
  std::set<std::string> done;
  for (const Instance& i : owned.programs[0].instances)
    for (const Task& task : owned.of(i).tasks)
      if (task.name == "all_gather" && owned.of(i).name == "weight_gather") {
        CHECK(task.inputs[0].elements == task.outputs[0].elements);  // in place
        done.insert(std::to_string(i.layer));
      }
  CHECK(done.size() == owned.programs[0].units.size());
}

TEST_CASE("the update counts the matrices of the data rank whose iterations take most FLOPs") {
  const Layout l{GENERATE(2, 3, 4, 64)};
  const TaskGraph graph = graph_of(l);
  const auto flops = [](std::int64_t rows, std::int64_t cols) {
    const std::int64_t m = std::min(rows, cols), n = std::max(rows, cols);
    return 5 * (4 * m * m * n + 2 * m * m * m);
  };
  // Queries, keys and values are three matrices of one parameter.
  const std::map<std::int64_t, std::int64_t> work{{3 * 64 * 64, 3 * flops(64, 64)}, {64 * 64, flops(64, 64)},
                                                  {2 * 128 * 64, flops(256, 64)},   {128 * 64, flops(64, 128)}};
  std::vector<std::int64_t> of_ranks(static_cast<std::size_t>(l.data));
  for (std::int64_t r = 0; r < l.data; ++r)
    for (const ParamPiece& p : param_pieces(graph.programs[0], seat(r, l)))
      if (p.param->matrices.any()) of_ranks[static_cast<std::size_t>(r)] += work.at(p.param->elements());
  std::int64_t planned = 0;
  std::set<std::array<std::int64_t, 2>> shapes;
  for (const Instance& i : graph.programs[0].instances)
    for (const Task& task : graph.of(i).tasks)
      if (const auto* muon = std::get_if<Muon>(&task.op))
        planned += matrix_flops(task.op).count(), shapes.insert({muon->rows, muon->cols});
  CHECK(planned == *std::max_element(of_ranks.begin(), of_ranks.end()));
  CHECK(shapes == std::set<std::array<std::int64_t, 2>>{{64, 64}, {256, 64}, {64, 128}});  // also those that only others own
}

TEST_CASE("with groups of data ranks owners repeat in each group") {
  const Layout l{4, 1, 1, 2};
  const TaskGraph graph = graph_of(l);
  CHECK(bytes_of_buffer(graph.programs[0], "exp_avg") == bytes_of_buffer(graph_of({2}).programs[0], "exp_avg"));
  const auto all = collectives(graph);
  CHECK(all.count({CollectiveKind::all_reduce, Group::data}) == 1);
  CHECK(all.count({CollectiveKind::all_gather, Group::shard}) == 1);
}

TEST_CASE("owners need layers in every stage, as an empty one would shard flat what another stage owns whole") {
  const auto field_of = [](const char* split, int zero) -> std::string {
    nlohmann::json plan = nlohmann::json::parse(text({2, 1, zero}, false));
    plan["model"]["tie_embeddings"] = true;
    plan["parallel"]["pipeline"] = 2;
    plan["parallel"]["pipeline_split"] = nlohmann::json::parse(split);
    plan["cluster"]["devices"] = 4;
    try {
      lower(parse_plan(plan.dump(), "split.json"));
    } catch (const InfeasibleError& e) {
      return e.problems().front().field;
    }
    return "";
  };
  CHECK(field_of("[4, 0]", 1) == "parallel.pipeline_split");
  CHECK(field_of("[4, 0]", 0).empty());
  CHECK(field_of("[3, 1]", 1).empty());
}
