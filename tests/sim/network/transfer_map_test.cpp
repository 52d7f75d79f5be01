// Transfers that share a pattern are those that the planner writes out one by one.

#include "sim/network/transfer_map.hpp"

#include "models/base/error.hpp"
#include "sim/network/roles.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/random_plans.hpp"
#include "topology/plan_reader.hpp"
#include "topology/same_topology.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

/// A topology of which nobody knows that its routes repeat.
class WrittenOut final : public SameTopology {
 public:
  using SameTopology::SameTopology;
  std::int64_t period() const override { return 0; }
};

TransferMap map_of(const RandomPlan& r, const Topology& topology, const Replay* replay = nullptr) {
  const auto cost = make_cost_model(topology);
  const Mesh mesh = make_mesh(r.plan);
  const TaskGraph& graph = replay == nullptr ? r.graph : replay->graph();
  return make_transfer_map({graph, mesh, topology, *cost, replay}, list_communications(graph, replay != nullptr));
}

using Uses = std::vector<std::pair<std::size_t, LinkUse>>;

Uses uses_of(const TransferMap& map, std::size_t t) {
  Uses out;
  map.each_use(t, [&](std::size_t u, const LinkUse& use) { out.emplace_back(u, use); });
  return out;
}

std::vector<std::size_t> members_of(const TransferMap& map, std::size_t t) {
  std::vector<std::size_t> out;
  for (std::size_t m = 0; m < map.members(t); ++m) out.push_back(map.member(t, m));
  return out;
}

bool equal(const std::vector<Segment>& a, const std::vector<Segment>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto& x, auto& y) { return x.uses == y.uses && x.work == y.work; });
}

bool equal(const TransferPlan& a, const TransferPlan& b) {
  return a.message == b.message && a.tail == b.tail && equal(a.chains[0], b.chains[0]) && equal(a.chains[1], b.chains[1]);
}

bool equal(const Transfer& a, const Transfer& b) {
  return a.port == b.port && a.directed == b.directed &&
         std::equal(a.plans.begin(), a.plans.end(), b.plans.begin(), b.plans.end(), [](auto& x, auto& y) { return equal(x, y); });
}

bool equal(const SlowChoices& a, const SlowChoices& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.chosen_s == y.second.chosen_s && x.second.other_s == y.second.other_s;
  });
}

void require_same(const TransferMap& shared, const TransferMap& written) {
  REQUIRE(shared.transfers.size() == written.transfers.size());
  REQUIRE(shared.transfer_of == written.transfer_of);
  REQUIRE(equal(shared.slow_choices, written.slow_choices));
  for (std::size_t t = 0; t < shared.transfers.size(); ++t) {
    REQUIRE(members_of(shared, t) == members_of(written, t));
    REQUIRE(uses_of(shared, t) == uses_of(written, t));
    REQUIRE(equal(shared.pattern(t), written.pattern(t)));
  }
}

void require_same(const Folding& shared, const Folding& written) {
  REQUIRE(shared.ranks.of == written.ranks.of);
  REQUIRE(shared.transfers.of == written.transfers.of);
  REQUIRE(shared.links.of == written.links.of);
}

std::vector<std::uint64_t> stages_of(const Plan& plan) {
  const Mesh mesh = make_mesh(plan);
  std::vector<std::uint64_t> out;
  for (std::int32_t r = 0; r < mesh.world_size(); ++r) out.push_back(static_cast<std::uint64_t>(mesh.coords(Rank(r))[Axis::pp]));
  return out;
}

}  // namespace

TEST_CASE("transfers a period apart share a pattern and are those of the map written out, on random plans") {
  PlanGenerator plans(516, 2048);
  std::size_t shares = 0;
  for (int i = 0; i < 120; ++i) {
    const RandomPlan r = plans.next();
    INFO(to_json(r.plan, -1));
    const TransferMap shared = map_of(r, *r.topology), written = map_of(r, WrittenOut(*r.topology));
    REQUIRE(written.patterns.size() == written.transfers.size());
    require_same(shared, written);
    require_same(fold(shared, stages_of(r.plan)), fold(written, stages_of(r.plan)));
    shares += shared.patterns.size() * 2 < shared.transfers.size();
  }
  CHECK(shares > 20);
}

TEST_CASE("every transfer has a pattern of its own where a link is slow or lost, or ranks share processors") {
  PlanGenerator plans(517, 2048);
  std::size_t large = 0;
  for (int i = 0; i < 20; ++i) {
    const RandomPlan r = plans.next();
    const auto plain = map_of(r, *r.topology);
    Perturbation slow;
    if (r.topology->link_count() > 0) slow.slow_links.push_back({r.topology->link_name(0), 0.5});
    const auto topology = perturbed(*r.topology, slow);
    const TransferMap map = map_of(r, *topology);
    CHECK(map.patterns.size() == map.transfers.size());
    if (plain.shared_cores) CHECK(plain.patterns.size() == plain.transfers.size());
    large += plain.patterns.size() < plain.transfers.size();
  }
  CHECK(large > 5);
}

TEST_CASE("every transfer has a pattern of its own where rows of experts differ from rank to rank") {
  RandomPlan r{parse_plan(R"({"stack": "tandem",
    "model": {"num_layers": 1, "hidden_size": 256, "num_attention_heads": 16, "vocab_size": 4000, "moe": {"num_experts": 8, "experts_per_token": 2}},
    "parallel": {"data": 64, "expert": 8}, "training": {"seq_length": 128, "micro_batch_size": 1, "global_batch_size": 64},
    "cluster": {"preset": "trn1.32xlarge", "devices": 64}})", "test.json"), {}, {}};
  r.graph = lower(r.plan), r.topology = make_topology(r.plan.cluster);
  std::vector<std::vector<RouterCounts>> routed;
  for (std::int32_t rank = 0; rank < 64; ++rank) routed.push_back({{0, 0, {rank, 60, 1, 7, 2, 5, 100, 81 - rank}}});
  const Routing routing(make_mesh(r.plan), routed);
  const Replay replay(r.graph, routing);
  const TransferMap even = map_of(r, *r.topology), rows = map_of(r, *r.topology, &replay);
  CHECK(even.patterns.size() < even.transfers.size());
  CHECK(rows.patterns.size() == rows.transfers.size());
}
