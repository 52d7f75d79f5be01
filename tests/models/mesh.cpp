#include "models/mesh.hpp"

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

TEST_CASE("groups partition the ranks") {
  const auto group = GENERATE(Group::tensor, Group::data, Group::pipeline, Group::model, Group::embedding, Group::world);
  for (int r = 0; r < mesh.world_size(); ++r) {
    const auto members = mesh.members(group, Rank(r));
    CHECK(std::count(members.begin(), members.end(), Rank(r)) == 1);
    for (const Rank m : members) CHECK(mesh.members(group, m) == members);
  }
}
