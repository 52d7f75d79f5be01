#include "models/plan/mesh.hpp"

#include <algorithm>

#include "tests/catch.hpp"

using namespace tandem;

namespace {
std::vector<int> values(const std::vector<Rank>& ranks) {
  std::vector<int> v;
  for (const Rank r : ranks) v.push_back(r.value());
  return v;
}
const Mesh mesh({2, 1, 1, 3, 4}, "tp-cp-ep-dp-pp");
}  // namespace

TEST_CASE("coordinates and ranks are inverse of each other in any order of axes") {
  const std::string order = GENERATE("tp-cp-ep-dp-pp", "pp-dp-ep-cp-tp", "tp-pp-dp-cp-ep");
  const Mesh m({2, 1, 1, 3, 4}, order);
  for (int r = 0; r < m.world_size(); ++r) CHECK(m.rank(m.coords(Rank(r))) == Rank(r));
}

TEST_CASE("the default order makes tensor neighbours adjacent and stages furthest apart") {
  CHECK(values(mesh.members(Group::tensor, Rank(5))) == std::vector<int>{4, 5});
  CHECK(values(mesh.members(Group::data, Rank(5))) == std::vector<int>{1, 3, 5});
  CHECK(values(mesh.members(Group::pipeline, Rank(5))) == std::vector<int>{5, 11, 17, 23});
  CHECK(mesh.stage_neighbour(Rank(5), 1) == Rank(11));
}

TEST_CASE("the embedding group joins first and last stage and leaves the middle alone") {
  CHECK(values(mesh.members(Group::embedding, Rank(5))) == std::vector<int>{5, 23});
  CHECK(values(mesh.members(Group::embedding, Rank(23))) == std::vector<int>{5, 23});
  CHECK(values(mesh.members(Group::embedding, Rank(11))) == std::vector<int>{11});
}

TEST_CASE("the embedding group has the stages that it is told") {
  const Mesh m({1, 1, 1, 2, 4}, "tp-cp-ep-dp-pp", {.word_stages = {0, 2}});
  CHECK(values(m.members(Group::embedding, Rank(5))) == std::vector<int>{1, 5});
  CHECK(values(m.members(Group::embedding, Rank(7))) == std::vector<int>{7});
  CHECK(m.group_size(Group::embedding) == 2);
}

TEST_CASE("the model group is all tensor ranks of all stages, tensor fastest") {
  CHECK(values(mesh.members(Group::model, Rank(9))) == std::vector<int>{2, 3, 8, 9, 14, 15, 20, 21});
}

// Groups as the RankGenerator of experts lists them (NVIDIA/Megatron-LM: megatron/core/parallel_state.py): a rank is the sum of its
// places on the axes expert tensor, expert, expert data and pipeline, each times the product of the sizes before it.
TEST_CASE("experts part the ranks of a stage as Megatron-LM's rank generator does") {
  const auto groups = [](const Mesh& m, Group g) {
    std::vector<std::vector<int>> all;
    for (int r = 0; r < m.world_size(); ++r)
      if (auto members = values(m.members(g, Rank(r))); members.front() == r) all.push_back(std::move(members));
    return all;
  };
  using Groups = std::vector<std::vector<int>>;
  // Tensor 4 on two stages, each expert on two ranks, two expert ranks.
  const Mesh inside({4, 1, 1, 1, 2}, "tp-cp-ep-dp-pp", {.expert = 2, .expert_tensor = 2});
  CHECK(groups(inside, Group::expert_tensor) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(groups(inside, Group::expert) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(groups(inside, Group::expert_data).size() == 8);
  // Tensor 2 and data 4, whole experts, four expert ranks: two of each part.
  const Mesh across({2, 1, 1, 4, 1}, "tp-cp-ep-dp-pp", {.expert = 4, .expert_tensor = 1});
  CHECK(groups(across, Group::expert) == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(groups(across, Group::expert_data) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  // Experts over more ranks than everything else.
  const Mesh wide({2, 2, 1, 2, 1}, "tp-cp-ep-dp-pp", {.expert = 2, .expert_tensor = 4});
  CHECK(groups(wide, Group::expert_tensor) == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(groups(wide, Group::expert) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  // Stages inside of data ranks, for which it needs as many data ranks of experts as of all else.
  const Mesh stages({4, 1, 1, 2, 2}, "tp-cp-ep-pp-dp", {.expert = 2, .expert_tensor = 2});
  CHECK(groups(stages, Group::expert) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}});
  CHECK(groups(stages, Group::expert_data) == Groups{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}});
  // Unless it is told otherwise, experts are cut over the tensor ranks.
  const Mesh usual({2, 1, 1, 4, 1}, "tp-cp-ep-dp-pp", {.expert = 2});
  CHECK(groups(usual, Group::expert_tensor) == groups(usual, Group::tensor));
  CHECK(groups(usual, Group::expert) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
}

// There: intra_partial_expert_data_parallel_group, and the group across the optimizer's instances that have the same part.
TEST_CASE("the ranks with the same experts are parted by sharding groups as Megatron-LM's optimizer instances are") {
  // Tensor 2, data 4, two expert ranks with whole experts: four copies of every expert, in two groups of two.
  const Mesh m({2, 1, 1, 4, 1}, "tp-cp-ep-dp-pp", {.expert = 2, .expert_tensor = 1, .expert_shard = 2});
  const auto of = [&](Group g, int r) { return values(m.members(g, Rank(r))); };
  CHECK(of(Group::expert_data, 3) == std::vector<int>{1, 3, 5, 7});
  CHECK(of(Group::expert_shard, 0) == std::vector<int>{0, 2});
  CHECK(of(Group::expert_shard, 7) == std::vector<int>{5, 7});
  CHECK(of(Group::expert_replica, 3) == std::vector<int>{3, 7});
  CHECK(of(Group::expert_replica, 4) == std::vector<int>{0, 4});
  CHECK(m.position(Group::expert_shard, Rank(6)) == 1);
  CHECK(m.position(Group::expert_replica, Rank(6)) == 1);
}

TEST_CASE("the position group joins the stages that it is told and leaves the others alone") {
  const Mesh m({1, 1, 1, 2, 4}, "tp-cp-ep-dp-pp", {.position_stages = {0, 2}});
  CHECK(values(m.members(Group::position, Rank(5))) == std::vector<int>{1, 5});
  CHECK(values(m.members(Group::position, Rank(7))) == std::vector<int>{7});
  CHECK(m.group_size(Group::position) == 2);
  CHECK(mesh.group_size(Group::position) == 1);
}

TEST_CASE("groups partition the ranks") {
  const auto group = GENERATE(Group::tensor, Group::data, Group::pipeline, Group::model, Group::embedding, Group::world,
                              Group::expert, Group::expert_data, Group::expert_tensor, Group::expert_shard, Group::expert_replica,
                              Group::position, Group::window_kv, Group::context_heads, Group::context_keys);
  for (int r = 0; r < mesh.world_size(); ++r) {
    const auto members = mesh.members(group, Rank(r));
    CHECK(std::count(members.begin(), members.end(), Rank(r)) == 1);
    for (const Rank m : members) CHECK(mesh.members(group, m) == members);
  }
}

TEST_CASE("members of every group are those that agree in what the group does not span, in ascending places") {
  const std::string order = GENERATE("tp-cp-ep-dp-pp", "pp-dp-ep-cp-tp");
  const Mesh m({4, 4, 1, 6, 2}, order,
               {.expert = 4, .shard = 3, .kv = 2, .expert_tensor = 2, .expert_shard = 2, .window_kv = 4, .context_heads = 2});
  // By place among the ranks that a group parts, tensor or context fastest: neighbours, or the same place of every row.
  const auto together = [](Group g, std::int64_t a, std::int64_t b) {
    switch (g) {
      case Group::kv: return a / 2 == b / 2;
      case Group::window_kv: return a / 4 == b / 4;
      case Group::shard: return a / 3 == b / 3;
      case Group::context_heads: return a / 2 == b / 2;
      case Group::context_keys: return a % 2 == b % 2;
      case Group::replica: return a % 3 == b % 3;
      case Group::expert: return a % 2 == b % 2 && a / 8 == b / 8;
      case Group::expert_data: return a % 8 == b % 8;
      case Group::expert_tensor: return a / 2 == b / 2;
      case Group::expert_shard: return a % 8 == b % 8 && a / 16 == b / 16;
      case Group::expert_replica: return a % 16 == b % 16;
      default: return true;
    }
  };
  const auto spans = [](Group g, Axis a) {
    const bool tensor = g == Group::tensor || g == Group::kv || g == Group::window_kv;
    const bool data = g == Group::data || g == Group::shard || g == Group::replica;
    if (g == Group::world) return true;
    if (g == Group::pipeline) return a == Axis::pp;
    if (g == Group::model) return a == Axis::pp || a == Axis::tp;
    if (g == Group::context || g == Group::context_heads || g == Group::context_keys) return a == Axis::cp;
    return tensor ? a == Axis::tp : data ? a == Axis::cp || a == Axis::dp : a != Axis::pp;
  };
  for (const Group g : {Group::tensor, Group::data, Group::pipeline, Group::model, Group::world, Group::context, Group::expert,
                        Group::expert_data, Group::shard, Group::replica, Group::kv, Group::expert_tensor, Group::expert_shard,
                        Group::expert_replica, Group::window_kv, Group::context_heads, Group::context_keys}) {
    const auto place = [&](Rank r) {
      std::int64_t at = 0, step = 1;
      for (const Axis a : {Axis::tp, Axis::cp, Axis::dp, Axis::pp})
        if (spans(g, a)) at += m.coords(r)[a] * step, step *= m.size(a);
      return at;
    };
    for (std::int32_t r = 0; r < m.world_size(); ++r) {
      std::vector<std::pair<std::int64_t, int>> expected;
      for (std::int32_t o = 0; o < m.world_size(); ++o) {
        bool alike = together(g, place(Rank(r)), place(Rank(o)));
        for (const Axis a : {Axis::tp, Axis::cp, Axis::dp, Axis::pp})
          alike = alike && (spans(g, a) || m.coords(Rank(r))[a] == m.coords(Rank(o))[a]);
        if (alike) expected.emplace_back(place(Rank(o)), o);
      }
      std::sort(expected.begin(), expected.end());
      std::vector<int> ranks;
      for (const auto& [at, rank] : expected) ranks.push_back(rank);
      CAPTURE(name(g), r);
      REQUIRE(values(m.members(g, Rank(r))) == ranks);
    }
  }
}
