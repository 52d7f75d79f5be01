#include <random>

#include "sim/play.hpp"
#include "tests/catch.hpp"
#include "tests/sim/graphs.hpp"
#include "tests/sim/task_times.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

/// A random but consistent step: every stage computes, reduces over several groups on several streams, and exchanges
/// with its neighbours; enough for everything to contend with everything.
class RandomStep {
 public:
  RandomStep(std::mt19937& random, std::int32_t stages) : random_(random), graph_(stages), stages_(stages) {}

  TaskGraph build() {
    const int rounds = static_cast<int>(1 + random_() % 4);
    for (int r = 0; r < rounds; ++r) {
      const Group group = pick();
      const Stream stream = random_() % 2 == 0 ? Stream::tensor : Stream::data;
      const TemplateId reduce = graph_.one("reduce", stream, collective(group));
      const std::int64_t elements = size();
      const TemplateId send = graph_.one("send", Stream::send, Send{elements, DType::fp32, 1});
      const TemplateId recv = graph_.one("recv", Stream::recv, Recv{elements, DType::fp32, -1});
      for (std::int32_t stage = 0; stage < stages_; ++stage) round(stage, reduce, send, recv);
    }
    return graph_.take();
  }

 private:
  Group pick() {
    constexpr Group groups[] = {Group::tensor, Group::data, Group::model, Group::world, Group::pipeline};
    return groups[random_() % 5];
  }
  std::int64_t size() { return static_cast<std::int64_t>(1 + random_() % 300'000); }
  Op collective(Group group) {
    constexpr CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                        CollectiveKind::all_to_all};
    return Collective{kinds[random_() % 3], group, size(), DType::fp32, Reduce::sum};
  }
  Op random_work() { return work(Duration::nanoseconds(static_cast<std::int64_t>(random_() % 20'000))); }

  void round(std::int32_t stage, TemplateId reduce, TemplateId send, TemplateId recv) {
    const std::uint32_t c = graph_.add(stage, graph_.one("work", Stream::compute, random_work()));
    const std::uint32_t r = graph_.add(stage, reduce);
    if (random_() % 2 == 0) graph_.edge(stage, c, r);
    if (stage > 0) {
      const std::uint32_t in = graph_.add(stage, recv);
      const std::uint32_t after = graph_.add(stage, graph_.one("after", Stream::compute, random_work()));
      graph_.edge(stage, in, after);
    }
    if (stage + 1 < stages_) graph_.edge(stage, c, graph_.add(stage, send));
  }

  std::mt19937& random_;
  GraphBuilder graph_;
  std::int32_t stages_;
};

struct Layout {
  std::int64_t tp, dp, pp;
};

Layout random_layout(std::mt19937& random) {
  const std::int64_t degrees[] = {1, 2, 3, 4};
  return {degrees[random() % 4], degrees[random() % 4], degrees[random() % 4]};
}

Shape random_shape(std::mt19937& random, std::int64_t world) {
  Shape shape;
  constexpr ScaleUp kinds[] = {ScaleUp::crossbar, ScaleUp::full_mesh, ScaleUp::torus2d};
  shape.scale_up = kinds[random() % 3];
  shape.ranks_per_device = random() % 3 == 0 && world % 2 == 0 ? 2 : 1;
  shape.devices = world / shape.ranks_per_device;
  shape.latency = Duration::nanoseconds(static_cast<std::int64_t>(random() % 2000));
  shape.synchronous = random() % 3 == 0;
  return shape;
}

void require_equal(const Play& folded, const Play& whole, const TaskGraph& graph) {
  REQUIRE(folded.step_time == whole.step_time);
  for (std::size_t r = 0; r < folded.roles.size(); ++r)
    for (const std::int32_t rank : folded.roles[r].ranks)
      REQUIRE(times_of(folded, graph, r) == times_of(whole, graph, static_cast<std::size_t>(rank)));
}

}  // namespace

TEST_CASE("folded and unfolded simulations agree on every task of every rank, bit for bit") {
  std::mt19937 random(2026);
  std::size_t folded_roles = 0, ranks = 0;
  std::int64_t events = 0;
  for (int i = 0; i < 250; ++i) {
    const Layout l = random_layout(random);
    const TaskGraph graph = RandomStep(random, static_cast<std::int32_t>(l.pp)).build();
    const Mesh m = mesh(l.tp, l.dp, l.pp);
    const FakeTopology topology(random_shape(random, m.world_size()));
    FakeCost cost;
    cost.host_launch = Duration::nanoseconds(static_cast<std::int64_t>(random() % 500));
    cost.slowdowns = {1.0, random() % 2 == 0 ? 1.0 : 1.25};
    const Scene scene{graph, m, topology, cost};
    const Play folded = play(scene), whole = play(scene, {true, {}});
    REQUIRE(whole.roles.size() == static_cast<std::size_t>(m.world_size()));
    require_equal(folded, whole, graph);
    folded_roles += folded.roles.size();
    ranks += whole.roles.size();
    events += folded.events;
  }
  // The comparison means something only if ranks were folded and flows contended.
  CHECK(folded_roles < ranks / 2);
  CHECK(events > 1000);
}

TEST_CASE("a symmetric machine has one role a stage") {
  const TaskGraph graph = pipeline_graph(equal_stages(4, 8, Duration::nanoseconds(10), Duration::nanoseconds(20)));
  Shape shape;
  shape.devices = 64;
  const FakeTopology topology(shape);
  const FakeCost cost;
  const Mesh m = mesh(4, 4, 4);
  const Play play = sim::play({graph, m, topology, cost});
  REQUIRE(play.roles.size() == 4);
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(play.roles[r].ranks.size() == 16);
    CHECK(play.roles[r].stage == StageId(static_cast<std::int32_t>(r)));
  }
}

TEST_CASE("a slower link splits the roles that its ranks' communication reaches") {
  const TaskGraph graph = pipeline_graph(equal_stages(2, 4, Duration::nanoseconds(10), Duration::nanoseconds(20)));
  Shape shape;
  shape.devices = 8;
  FakeTopology topology(shape);
  topology.edit_links()[0].latency = Duration::nanoseconds(7);
  const FakeCost cost;
  const Mesh m = mesh(1, 4, 2);
  const Play play = sim::play({graph, m, topology, cost});
  // Data rank 0 of both stages stands apart from data ranks 1 to 3.
  REQUIRE(play.roles.size() == 4);
  CHECK(play.roles[0].ranks == std::vector<std::int32_t>{0});
  CHECK(play.roles[1].ranks == std::vector<std::int32_t>{1, 2, 3});
}

TEST_CASE("a marked rank has a role of its own, and so have its neighbours") {
  const TaskGraph graph = pipeline_graph(equal_stages(2, 4, Duration::nanoseconds(10), Duration::nanoseconds(20)));
  Shape shape;
  shape.devices = 8;
  const FakeTopology topology(shape);
  const FakeCost cost;
  const Mesh m = mesh(1, 4, 2);
  Manner manner;
  manner.marks.assign(8, 0);
  manner.marks[2] = 1;
  const Play play = sim::play({graph, m, topology, cost}, manner);
  REQUIRE(play.roles.size() == 4);
  CHECK(play.roles[1].ranks == std::vector<std::int32_t>{2});
  CHECK(play.roles[3].ranks == std::vector<std::int32_t>{6});
}

TEST_CASE("two simulations of one step are equal in every time of every task") {
  std::mt19937 random(9);
  for (int i = 0; i < 20; ++i) {
    const TaskGraph graph = RandomStep(random, 3).build();
    const Mesh m = mesh(2, 2, 3);
    const FakeTopology topology(random_shape(random, 12));
    const FakeCost cost;
    const Play a = play({graph, m, topology, cost}), b = play({graph, m, topology, cost});
    REQUIRE(a.events == b.events);
    for (std::size_t r = 0; r < a.records.size(); ++r) REQUIRE(times_of(a, graph, r) == times_of(b, graph, r));
  }
}

TEST_CASE("rings of all tensor ranks through one shared link take as many times longer") {
  // Two devices a node; the ring over data crosses one trunk for both tensor ranks.
  const std::int64_t tp = GENERATE(1, 2, 4);
  GraphBuilder graph(1);
  graph.add(0, graph.one("reduce", Stream::data,
                         Collective{CollectiveKind::all_reduce, Group::data, 2 * 16384, DType::fp32, Reduce::sum}));
  const TaskGraph g = graph.take();

  class Trunk : public FakeTopology {
   public:
    using FakeTopology::FakeTopology;
    std::vector<std::int32_t> route(DeviceId from, DeviceId to) const override {
      return {from.value() < to.value() ? 0 : 1};
    }
  };
  Shape shape;
  shape.devices = 2 * tp;
  const Trunk topology(shape);
  const FakeCost cost;
  const Mesh m = mesh(tp, 2, 1);
  const Play play = sim::play({g, m, topology, cost});
  // 2 steps of 65536 bytes for each of tp rings.
  CHECK(play.roles.size() == 1);
  CHECK(std::abs(play.step_time.ps() - std::llround(static_cast<double>(tp) * 2 * 65536 / 50e9 * 1e12)) <= 2);
  CHECK(play.events == 0);
}
