#include "sim/result/breakdown.hpp"

#include <numeric>

#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/graphs.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

Duration us(std::int64_t n) { return Duration::nanoseconds(1000 * n); }

struct Played {
  SimulatedStep simulated;
  std::vector<Breakdown> roles;
};

Played run(const TaskGraph& graph, const Mesh& m, Duration launch, bool synchronous = false, Duration latency = us(1)) {
  Shape shape;
  shape.devices = m.world_size();
  shape.latency = latency;
  shape.synchronous = synchronous;
  const FakeTopology topology(shape);
  FakeCost cost;
  cost.host_launch = launch;
  Played out{simulate_step({graph, m, topology, cost}), {}};
  for (std::size_t r = 0; r < out.simulated.roles.size(); ++r) out.roles.push_back(break_down(out.simulated, graph, r));
  return out;
}

std::int64_t total(const Breakdown& b) { return std::accumulate(b.ps.begin(), b.ps.end(), std::int64_t{0}); }

Op reduce(Group group) { return Collective{CollectiveKind::all_reduce, group, 0, DType::fp32, Reduce::sum}; }

Task task(const std::string& name, Stream stream, const Op& op, std::vector<std::uint16_t> deps = {}) {
  Task t;
  t.name = name;
  t.op = op;
  t.stream = stream;
  t.deps = std::move(deps);
  return t;
}

}  // namespace

TEST_CASE("a computation that waits for a tensor collective waits for tensor_comm") {
  GraphBuilder graph(1);
  graph.add(0, graph.many("block", {task("a", Stream::compute, work(us(10))),
                                    task("r", Stream::tensor, reduce(Group::tensor), {0}),
                                    task("b", Stream::compute, work(us(20)), {1})}));
  const TaskGraph g = graph.take();
  const bool synchronous = GENERATE(false, true);
  // Two ranks: two steps of 1 us.
  const Breakdown b = run(g, mesh(2, 1, 1), {}, synchronous).roles[0];
  CHECK(b[Share::compute] == us(30).ps());
  CHECK(b[Share::tensor_comm] == us(2).ps());
  CHECK(total(b) == us(32).ps());
}

TEST_CASE("exchanges in a layer are told apart by who exchanges") {
  const auto waited = [](Group group, const Mesh& ranks) {
    GraphBuilder graph(1);
    graph.add(0, graph.many("block", {task("a", Stream::compute, work(us(10))), task("r", Stream::tensor, reduce(group), {0}),
                                      task("b", Stream::compute, work(us(20)), {1})}));
    return run(graph.take(), ranks, {}).roles[0];
  };
  Divisions of_experts;
  of_experts.expert = 2;
  const Breakdown experts = waited(Group::expert, Mesh({1, 1, 1, 2, 1}, "tp-cp-ep-dp-pp", of_experts));
  const Breakdown context = waited(Group::context, Mesh({1, 2, 1, 1, 1}, "tp-cp-ep-dp-pp"));
  CHECK(experts[Share::expert_comm] == us(2).ps());
  CHECK(context[Share::context_comm] == us(2).ps());
  for (const Breakdown& b : {experts, context}) {
    CHECK(b[Share::tensor_comm] == 0);
    CHECK(total(b) == us(32).ps());
  }
}

TEST_CASE("what a launch-bound stream waits for is the host") {
  GraphBuilder graph(1);
  const TemplateId t = graph.one("work", Stream::compute, work(us(3)));
  for (int i = 0; i < 10; ++i) graph.add(0, t);
  const TaskGraph g = graph.take();
  const Breakdown async = run(g, mesh(1, 1, 1), us(5)).roles[0];
  CHECK(async[Share::compute] == us(30).ps());
  CHECK(async[Share::launch] == us(5 + 9 * 2).ps());
  const Breakdown sync = run(g, mesh(1, 1, 1), us(5), true).roles[0];
  CHECK(sync[Share::compute] == us(30).ps());
  CHECK(sync[Share::launch] == us(50).ps());
}

TEST_CASE("a synchronous host's launches of other streams count as launch") {
  GraphBuilder graph(1);
  const TemplateId c = graph.one("work", Stream::compute, work(us(10)));
  const TemplateId d = graph.one("reduce", Stream::data, reduce(Group::data));
  for (const TemplateId t : {c, d, d, c}) graph.add(0, t);
  const TaskGraph g = graph.take();
  const Breakdown b = run(g, mesh(1, 1, 1), us(1), true).roles[0];
  CHECK(b[Share::compute] == us(20).ps());
  CHECK(b[Share::launch] == us(4).ps());
  CHECK(total(b) == us(24).ps());
}

TEST_CASE("waiting for a stage that still computes is bubble, the message itself is pipeline_comm") {
  const Played p = run(relay_graph(us(30), us(10)), mesh(1, 1, 2), {});
  CHECK(p.roles[1][Share::bubble] == us(30).ps());
  CHECK(p.roles[1][Share::pipeline_comm] == us(1).ps());
  CHECK(p.roles[1][Share::compute] == us(10).ps());
  // Stage 0: its send is its own, what follows is waiting for stage 1.
  CHECK(p.roles[0][Share::compute] == us(30).ps());
  CHECK(p.roles[0][Share::pipeline_comm] == us(1).ps());
  CHECK(p.roles[0][Share::bubble] == us(10).ps());
}

namespace {

/// Stage 0 computes ten times and sends; stage 1 receives and computes for 10 us.
TaskGraph ten_then_one(Duration each) {
  GraphBuilder graph(2);
  const TemplateId a = graph.one("a", Stream::compute, work(each));
  std::uint32_t last = 0;
  for (int i = 0; i < 10; ++i) last = graph.add(0, a);
  graph.edge(0, last, graph.add(0, graph.one("send", Stream::send, Send{0, DType::fp32, 1})));
  const std::uint32_t r = graph.add(1, graph.one("recv", Stream::recv, Recv{0, DType::fp32, -1}));
  graph.edge(1, r, graph.add(1, graph.one("b", Stream::compute, work(us(10)))));
  return graph.take();
}

}  // namespace

TEST_CASE("waiting for a stage whose host launches is launch, not bubble") {
  // Stage 0 computes for 3 us of every 5 that a launch takes: its message is issued eleventh, at 55 us.
  const Played p = run(ten_then_one(us(3)), mesh(1, 1, 2), us(5));
  CHECK(p.roles[1][Share::launch] == us(55).ps());
  CHECK(p.roles[1][Share::bubble] == 0);
  CHECK(p.roles[1][Share::pipeline_comm] == us(1).ps());
  // Stage 0 then waits for the other's computation.
  CHECK(p.roles[0][Share::bubble] == us(10).ps());
  // Where computations take longer than launches, they are waited for from the first one on.
  const Played busy = run(ten_then_one(us(30)), mesh(1, 1, 2), us(5));
  CHECK(busy.roles[1][Share::launch] == us(5).ps());
  CHECK(busy.roles[1][Share::bubble] == us(300).ps());
}

TEST_CASE("of a synchronous host that is waited for the launches are launch and the computations bubble") {
  const Played p = run(ten_then_one(us(3)), mesh(1, 1, 2), us(5), true);
  CHECK(p.roles[1][Share::launch] >= us(50).ps());
  CHECK(p.roles[1][Share::bubble] == us(30).ps());
  for (const Breakdown& b : p.roles) CHECK(total(b) == p.simulated.step_time.ps());
}

TEST_CASE("the wait for the last stage's launches before the step's end is launch") {
  // Stage 1 launches four tasks of no length behind the message: stage 0 has ended by then.
  GraphBuilder graph(2);
  graph.add(0, graph.one("a", Stream::compute, work(us(1))));
  const TemplateId b = graph.one("b", Stream::compute, work(us(1)));
  for (int i = 0; i < 4; ++i) graph.add(1, b);
  const Played p = run(graph.take(), mesh(1, 1, 2), us(5));
  CHECK(p.simulated.step_time == us(21));
  CHECK(p.roles[0][Share::launch] == us(5 + 14).ps());  // to 6 us its own task; the other's last one is issued at 20
  CHECK(p.roles[0][Share::bubble] == us(1).ps());
  CHECK(p.roles[0][Share::compute] == us(1).ps());
}

TEST_CASE("a data reduction before the optimizer is data_comm, one beside computation costs nothing") {
  GraphBuilder graph(1);
  const TemplateId c = graph.one("backward", Stream::compute, work(us(10)));
  const TemplateId d = graph.one("reduce", Stream::data, reduce(Group::data));
  const TemplateId o = graph.one("adamw", Stream::compute, work(us(5)));
  const std::uint32_t first = graph.add(0, c, Phase::backward);
  const std::uint32_t hidden = graph.add(0, d, Phase::reduce);
  const std::uint32_t second = graph.add(0, c, Phase::backward);
  const std::uint32_t shown = graph.add(0, d, Phase::reduce);
  const std::uint32_t update = graph.add(0, o, Phase::optimizer);
  graph.edge(0, first, hidden);
  graph.edge(0, second, shown);
  graph.edge(0, hidden, update);
  graph.edge(0, shown, update);
  const TaskGraph g = graph.take();
  const Breakdown b = run(g, mesh(1, 2, 1), {}).roles[0];
  CHECK(b[Share::compute] == us(20).ps());
  CHECK(b[Share::data_comm] == us(2).ps());
  CHECK(b[Share::optimizer] == us(5).ps());
  CHECK(total(b) == us(27).ps());
}

TEST_CASE("the shares of every role of a pipeline add up to the step, exactly") {
  const bool synchronous = GENERATE(false, true);
  const std::int64_t launch = GENERATE(0, 3);
  const int p = GENERATE(2, 5);
  PipelineCase c = equal_stages(p, 7, Duration::nanoseconds(10), Duration::nanoseconds(23));
  c.forward[0] = Duration::nanoseconds(17);
  const TaskGraph g = pipeline_graph(c);
  const Played played = run(g, mesh(1, 1, p), Duration::nanoseconds(launch), synchronous, Duration::nanoseconds(4));
  for (const Breakdown& b : played.roles) {
    CHECK(total(b) == played.simulated.step_time.ps());
    for (const std::int64_t share : b.ps) CHECK(share >= 0);
  }
}

TEST_CASE("with equal stages, free launches and no latency the bubble is (p-1)/(m+p-1) of the step") {
  const int p = GENERATE(2, 4, 8);
  const int m = 2 * p;
  const TaskGraph g = pipeline_graph(equal_stages(p, m, us(1), us(2)));
  const Played played = run(g, mesh(1, 1, p), {}, false, {});
  for (const Breakdown& b : played.roles) {
    CHECK(b[Share::bubble] == (p - 1) * us(3).ps());
    CHECK(b[Share::compute] == m * us(3).ps());
  }
}
