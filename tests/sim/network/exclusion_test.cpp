#include "sim/network/exclusion.hpp"

#include "sim/engine/lane_program.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/graphs.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

const Op kReduce = Collective{CollectiveKind::all_reduce, Group::tensor, 8, DType::fp32, Reduce::sum};
const Op kNorm = Collective{CollectiveKind::all_reduce, Group::model, 8, DType::fp32, Reduce::sum};

/// Whether the first two communications of a stage may meet, in either order.
bool at_once(const TaskGraph& g, bool synchronous) {
  const Communications communications = list_communications(g);
  const Exclusion exclusion(g, communications, lanes_of(synchronous));
  const PortEnd a = 2 * communications.messages[0].port, b = 2 * communications.messages[1].port;
  CHECK(exclusion.at_once(StageId(0), a, b) == exclusion.at_once(StageId(0), b, a));
  return exclusion.at_once(StageId(0), a, b);
}

/// Computations c0, c1, c2 with a tensor reduction after c0 and a data-stream one at the end. `heard` is the
/// computation that waits for the first, `awaited` the one the second waits for.
bool together(std::uint32_t heard, std::uint32_t awaited, bool synchronous = false) {
  GraphBuilder graph(1);
  const TemplateId c = graph.one("work", Stream::compute, work(Duration::nanoseconds(1)));
  const std::uint32_t first = graph.add(0, c);
  const std::uint32_t tensor = graph.add(0, graph.one("tensor", Stream::tensor, kReduce));
  const std::uint32_t computed[] = {first, graph.add(0, c), graph.add(0, c)};
  const std::uint32_t norm = graph.add(0, graph.one("norm", Stream::data, kNorm));
  graph.edge(0, tensor, computed[heard]);
  graph.edge(0, computed[awaited], norm);
  return at_once(graph.take(), synchronous);
}

/// Two communications that nothing orders but their streams.
bool meet(const std::pair<Stream, Op>& a, const std::pair<Stream, Op>& b) {
  GraphBuilder graph(1);
  graph.add(0, graph.one("a", a.first, a.second));
  graph.add(0, graph.one("b", b.first, b.second));
  return at_once(graph.take(), false);
}

}  // namespace

TEST_CASE("a reduction that waits for a computation that waited for another cannot meet it") {
  CHECK_FALSE(together(1, 1));
  CHECK_FALSE(together(1, 2));
  CHECK_FALSE(together(2, 2));
}

TEST_CASE("a reduction that waits only for earlier computations may meet it") {
  CHECK(together(2, 1));
  CHECK(together(1, 0));
}

TEST_CASE("communications of one lane take turns") {
  CHECK_FALSE(meet({Stream::data, kReduce}, {Stream::data, kNorm}));
}

TEST_CASE("communications of different lanes that nothing orders may meet, also when the later one is issued first") {
  CHECK(meet({Stream::data, kNorm}, {Stream::tensor, kReduce}));
}
