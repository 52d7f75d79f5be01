#include "sim/engine/simulate_step.hpp"
#include "sim/result/breakdown.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/graphs.hpp"
#include "tests/sim/engine/task_times.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

Duration us(std::int64_t n) { return Duration::nanoseconds(1000 * n); }

TaskGraph chain(int tasks, Duration each) {
  GraphBuilder graph(1);
  const TemplateId t = graph.one("work", Stream::compute, work(each));
  for (int i = 0; i < tasks; ++i) graph.add(0, t);
  return graph.take();
}

/// One stage's computations of 10 us each and sums over a group, in this order.
enum class Issued { work, sum };
TaskGraph around_a_sum(const std::vector<Issued>& order, Stream stream, Group group, std::int64_t elements) {
  GraphBuilder graph(1);
  const TemplateId c = graph.one("work", Stream::compute, work(us(10)));
  const TemplateId r = graph.one("reduce", stream, Collective{CollectiveKind::all_reduce, group, elements, DType::fp32, Reduce::sum});
  for (const Issued part : order) graph.add(0, part == Issued::work ? c : r);
  return graph.take();
}

struct Machine {
  Duration launch;
  bool synchronous = false;
  std::int64_t ranks = 1, ranks_per_device = 1, devices = 1;
  std::vector<double> slowdowns{1.0};
};

SimulatedStep run(const TaskGraph& graph, const Mesh& m, const Machine& machine, bool unfolded = false) {
  Shape shape;
  shape.devices = machine.devices;
  shape.ranks_per_device = machine.ranks_per_device;
  shape.synchronous = machine.synchronous;
  shape.latency = us(1);
  const FakeTopology topology(shape);
  FakeCost cost;
  cost.host_launch = machine.launch;
  cost.slowdowns = machine.slowdowns;
  return simulate_step({graph, m, topology, cost}, {unfolded, {}});
}

}  // namespace

TEST_CASE("a launch-bound chain takes n launches and the last task") {
  const TaskGraph graph = chain(100, us(3));
  CHECK(run(graph, mesh(1, 1, 1), {us(5), false}).step_time == 100 * us(5) + us(3));
}

TEST_CASE("a launch-bound chain takes its host operations and the last task") {
  TaskGraph graph = chain(100, us(3));
  graph.templates[0].tasks[0].host_operations = 4;
  CHECK(run(graph, mesh(1, 1, 1), {us(5), false}).step_time == 400 * us(5) + us(3));
  CHECK(run(graph, mesh(1, 1, 1), {us(5), true}).step_time == 100 * us(4 * 5 + 3));
}

TEST_CASE("a task waits for the host operations of those before it on any stream") {
  // Issue: compute a (3 operations), all-reduce of one rank (5, free of cost), compute b (2), in a template and over instances.
  const Op reduce = Collective{CollectiveKind::all_reduce, Group::data, 8, DType::fp32, Reduce::sum};
  const auto task = [](const char* name, Stream stream, const Op& op, std::uint16_t operations) {
    Task t;
    t.name = name, t.op = op, t.stream = stream, t.host_operations = operations;
    return t;
  };
  GraphBuilder graph(1);
  const TemplateId t = graph.many("three", {task("a", Stream::compute, work(us(1)), 3), task("reduce", Stream::data, reduce, 5),
                                            task("b", Stream::compute, work(us(1)), 2)});
  graph.add(0, t);
  graph.add(0, t);
  const TaskGraph g = graph.take();
  const auto ended = times_of(run(g, mesh(1, 1, 1), {us(2), false}), g, 0).ended;
  CHECK(ended == std::vector<std::int64_t>{us(7).ps(), us(16).ps(), us(21).ps(), us(27).ps(), us(36).ps(), us(41).ps()});
}

TEST_CASE("a compute-bound chain takes one launch and n tasks") {
  const TaskGraph graph = chain(100, us(7));
  CHECK(run(graph, mesh(1, 1, 1), {us(5), false}).step_time == us(5) + 100 * us(7));
}

TEST_CASE("a synchronous host pays launch and work one after the other") {
  const TaskGraph graph = chain(100, us(7));
  CHECK(run(graph, mesh(1, 1, 1), {us(5), true}).step_time == 100 * us(5 + 7));
}

TEST_CASE("an asynchronous stream runs beside the host, and its launch comes in issue order") {
  // Issue: compute a, data all-reduce of one rank (free of cost), compute b.
  const TaskGraph g = around_a_sum({Issued::work, Issued::sum, Issued::work}, Stream::data, Group::data, 8);
  const SimulatedStep sync = run(g, mesh(1, 1, 1), {us(1), true});
  CHECK(sync.step_time == us(1 + 10 + 1 + 1 + 10));
  const SimulatedStep async = run(g, mesh(1, 1, 1), {us(1), false});
  CHECK(async.step_time == us(1 + 10 + 10));
  // The reduction is issued third-first on the asynchronous device, after the first computation on the synchronous one.
  CHECK(times_of(async, g, 0).ended[1] == us(2).ps());
  CHECK(times_of(sync, g, 0).ended[1] == us(12).ps());
}

TEST_CASE("a synchronous host waits inline for a tensor collective, an accelerator's compute stream goes on") {
  const TaskGraph g = around_a_sum({Issued::sum, Issued::work}, Stream::tensor, Group::tensor, 0);
  // Two ranks: the ring of nothing takes 2 steps of 1 us.
  CHECK(run(g, mesh(2, 1, 1), {{}, true, 2, 1, 2}).step_time == us(2 + 10));
  CHECK(run(g, mesh(2, 1, 1), {{}, false, 2, 1, 2}).step_time == us(10));
}

TEST_CASE("k ranks that compute on one processor each take k times as long") {
  const std::int64_t k = GENERATE(1, 2, 3, 4, 7);
  const TaskGraph graph = chain(10, us(7));
  const Machine machine{{}, true, k, k, 1};
  CHECK(run(graph, mesh(1, k, 1), machine).step_time == 10 * k * us(7));
  CHECK(run(graph, mesh(1, k, 1), machine, true).step_time == 10 * k * us(7));
}

TEST_CASE("processors are shared only among ranks that compute at the moment") {
  // Two stages on one processor. Stage 0 works 30 us in one go, stage 1 10 us: at first both at half speed, so stage 1
  // ends at 20 us with 20 us of stage 0 left.
  GraphBuilder graph(2);
  graph.add(0, graph.one("long", Stream::compute, work(us(30))));
  graph.add(1, graph.one("short", Stream::compute, work(us(10))));
  const TaskGraph g = graph.take();
  const SimulatedStep simulated = run(g, mesh(1, 1, 2), {{}, true, 2, 2, 1});
  CHECK(times_of(simulated, g, 1).ended[0] == us(20).ps());
  CHECK(times_of(simulated, g, 0).ended[0] == us(40).ps());
}

TEST_CASE("a rank that waits for another leaves it the processor") {
  // Stage 1 waits for the message of stage 0 and only then computes: nobody is slowed down.
  const TaskGraph g = relay_graph(us(30), us(10));
  // Two ranks on one device have no link between them: the message is free.
  CHECK(run(g, mesh(1, 1, 2), {{}, true, 2, 2, 1}).step_time == us(40));
}

TEST_CASE("ranks that share a processor communicate with it: alone as measured, slower beside a computation") {
  // Two pairs over data; the first two ranks share device 0, the others device 1. Stage 0 reduces, stage 1 computes 20
  // us.
  GraphBuilder graph(2);
  graph.add(0, graph.one("reduce", Stream::tensor,
                         Collective{CollectiveKind::all_reduce, Group::data, 8, DType::fp32, Reduce::sum}));
  const TaskGraph alone = [&] { return GraphBuilder(graph).take(); }();
  graph.add(1, graph.one("work", Stream::compute, work(us(20))));
  const TaskGraph beside = graph.take();
  Shape shape;
  shape.devices = 2;
  shape.ranks_per_device = 2;
  shape.synchronous = true;
  const FakeTopology topology(shape);
  FakeCost cost;
  cost.measured = us(10);
  // Ranks 0, 1 are stage 0 and 1 of data rank 0; 2, 3 those of data rank 1.
  const Mesh m({1, 1, 1, 2, 2}, "tp-pp-cp-ep-dp");
  CHECK(simulate_step({alone, m, topology, cost}).step_time == us(10));
  // Until the reduction ends at 20 us both have half of each processor; then 10 us of the computation are left.
  const SimulatedStep both = simulate_step({beside, m, topology, cost});
  CHECK(both.records[0].end == us(20));
  CHECK(both.records[1].end == us(30));
}

TEST_CASE("a collective of as many ranks as there are links takes its measured time on processors that they share") {
  const std::int64_t devices = GENERATE(1, 2, 3), each = GENERATE(2, 4);
  GraphBuilder graph(1);
  graph.add(0, graph.one("reduce", Stream::tensor, Collective{CollectiveKind::all_reduce, Group::data, 8, DType::fp32, Reduce::sum}));
  const TaskGraph g = graph.take();
  Shape shape;
  shape.devices = devices;
  shape.ranks_per_device = each;
  shape.synchronous = true;
  FakeCost cost;
  cost.measured = us(10);
  CHECK(simulate_step({g, mesh(1, devices * each, 1), FakeTopology(shape), cost}).step_time == us(10));
}

TEST_CASE("processors of a node that compute at once slow each other down as measured") {
  const TaskGraph graph = chain(10, us(8));
  const Machine four{{}, true, 4, 1, 4, {1.0, 1.0, 1.25, 1.5}};
  CHECK(run(graph, mesh(1, 4, 1), four).step_time == 10 * us(12));
  const Machine two_each{{}, true, 4, 2, 2, {1.0, 1.25}};
  CHECK(run(graph, mesh(1, 4, 1), two_each).step_time == 10 * us(20));
}

TEST_CASE("tasks that wait for each other are named") {
  GraphBuilder graph(2);
  graph.add(0, graph.one("lonely_send", Stream::send, Send{8, DType::fp32, 1}));
  graph.add(1, graph.one("other", Stream::recv, Recv{9, DType::fp32, -1}));
  const TaskGraph mismatched = graph.take();
  CHECK_THROWS_WITH(run(mismatched, mesh(1, 1, 2), {{}, false, 2, 1, 2}), Catch::Contains("other"));

  GraphBuilder crossed(2);
  const TemplateId up = crossed.one("send_up", Stream::send, Send{8, DType::fp32, 1});
  const TemplateId down = crossed.one("send_down", Stream::send, Send{8, DType::fp32, -1});
  const TemplateId from_down = crossed.one("recv_from_down", Stream::recv, Recv{8, DType::fp32, -1});
  const TemplateId from_up = crossed.one("recv_from_up", Stream::recv, Recv{8, DType::fp32, 1});
  // Both first send and receive only when that has ended: rendezvous cannot start.
  crossed.edge(0, crossed.add(0, up), crossed.add(0, from_up));
  crossed.edge(1, crossed.add(1, down), crossed.add(1, from_down));
  const TaskGraph deadlock = crossed.take();
  CHECK_THROWS_WITH(run(deadlock, mesh(1, 1, 2), {{}, false, 2, 1, 2}),
                    Catch::Contains("send_up") && Catch::Contains("send_down") && Catch::Contains("stage 1"));
}

namespace {

/// Stage 0 works and sends; stage 1 receives, then has ten short tasks that need it.
TaskGraph sender_and_ten(bool host_waits) {
  GraphBuilder graph(2);
  const TemplateId long_work = graph.one("long", Stream::compute, work(us(100)));
  const TemplateId short_work = graph.one("short", Stream::compute, work(us(1)));
  const TemplateId send = graph.one("send", Stream::send, Send{1, DType::fp32, 1});
  const TemplateId recv = graph.one("recv", Stream::recv, Recv{1, DType::fp32, -1});
  graph.edge(0, graph.add(0, long_work), graph.add(0, send));
  const std::uint32_t received = graph.add(1, recv), first = graph.add(1, short_work);
  graph.edge(1, received, first);
  for (int i = 1; i < 10; ++i) graph.add(1, short_work);
  TaskGraph g = graph.take();
  g.templates[recv.index()].host_waits = host_waits;
  return g;
}

}  // namespace

TEST_CASE("a host that waits for what it receives cannot run ahead of it") {
  Machine machine{us(5), false};
  machine.devices = 2;
  const SimulatedStep ahead = run(sender_and_ten(false), mesh(1, 1, 2), machine);
  const SimulatedStep waits = run(sender_and_ten(true), mesh(1, 1, 2), machine);
  // All ten were issued while nothing had come: they follow each other at once. A waiting host issues each by itself.
  const Duration came = ahead.step_time - 10 * us(1);
  CHECK(waits.step_time == came + 10 * us(5) + us(1));
  const TaskGraph graph = sender_and_ten(true);
  const Breakdown named = break_down(waits, graph, 1);
  // What the host waited for is its sender's launch and work, and the message. Launches are the sender's, the receive's own and those
  // that came after.
  CHECK(named[Share::launch] == (us(5) + us(5) + us(5) + 9 * us(4)).ps());
  CHECK(named[Share::bubble] + named[Share::pipeline_comm] == (came - 2 * us(5)).ps());
  CHECK(named[Share::pipeline_comm] > 0);
}
