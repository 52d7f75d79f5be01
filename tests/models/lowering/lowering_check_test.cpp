// The graph's own check, on many layouts and on graphs that were broken on purpose.

#include "models/graph/deadlock.hpp"
#include "models/graph/task_graph.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"

using namespace tandem;
using tests::SmallPlan;

namespace {

SmallPlan everything() {
  SmallPlan p;
  p.tensor = p.pipeline = p.data = 2;
  p.overlap = p.tensor_overlap = true;
  p.recompute = "full";
  return p;
}

/// First task of the first template called `block` whose name is `task`.
Task& task_of(TaskGraph& graph, const std::string& block, const std::string& task) {
  for (Template& t : graph.templates)
    if (t.name == block)
      for (Task& k : t.tasks)
        if (k.name == task) return k;
  throw std::runtime_error("no task " + block + "/" + task);
}

void drop_edges(TaskGraph& graph, EdgeKind kind) {
  for (Program& p : graph.programs) {
    std::vector<Edge> kept;
    for (const Edge& e : p.edges)
      if (e.kind != kind) kept.push_back(e);
    p.edges = kept;
  }
}

/// Removes the last instance of a stage whose template is called `block`.
void drop_instance(TaskGraph& graph, std::size_t stage, const std::string& block) {
  Program& p = graph.programs[stage];
  for (std::size_t i = p.instances.size(); i-- > 0;) {
    if (graph.of(p.instances[i]).name != block) continue;
    p.instances.erase(p.instances.begin() + static_cast<std::ptrdiff_t>(i));
    p.edges.clear();  // what remains is judged by communication alone
    return;
  }
  throw std::runtime_error("no instance of " + block);
}

}  // namespace

TEST_CASE("every layout, recompute mode and overlap gives a graph that passes its own check") {
  SmallPlan p;
  p.tensor = GENERATE(1, 2, 4);
  p.pipeline = GENERATE(1, 2, 4);
  p.data = GENERATE(1, 2);
  p.micro_batches = GENERATE(1, 3, 6);
  p.recompute = GENERATE("none", "full");
  p.overlap = p.micro_batches != 3;
  p.tied = p.data == 1;
  p.bloom = p.tensor == 2 && p.data == 2;
  p.llama = p.tensor == 2 && p.data == 1;
  p.tensor_overlap = p.tensor == 4;
  INFO(p.label());
  REQUIRE_NOTHROW(lower(p.plan()).check());
}

TEST_CASE("no pipeline up to eight stages and eight micro-batches deadlocks") {
  SmallPlan p;
  p.layers = 8;
  p.pipeline = GENERATE(2, 3, 5, 8);
  p.micro_batches = GENERATE(1, 2, 4, 8);
  p.schedule = GENERATE("1f1b", "gpipe");
  const TaskGraph graph = lower(p.plan());
  CHECK_FALSE(find_deadlock(graph, Host::launches));
  CHECK_FALSE(find_deadlock(graph, Host::computes));
}

TEST_CASE("communications of every schedule can start in the order in which a rank issues them") {
  SmallPlan p;
  p.layers = 8;
  p.pipeline = GENERATE(2, 4, 8);
  p.micro_batches = GENERATE(1, 2, 4, 8);
  p.schedule = GENERATE("1f1b", "gpipe", "zb-h1", "zb-h2");
  p.tensor = GENERATE(1, 2);
  p.data = 2;
  p.overlap = p.tensor == 2;
  INFO(p.label());
  const auto stuck = find_deadlock(lower(p.plan()), Host::starts_in_order);
  INFO(stuck.value_or(""));
  CHECK_FALSE(stuck);
}

/// Interleaved over `pipeline` stages of `chunks` chunks.
std::optional<std::string> interleaved_stuck(int pipeline, int micro_batches, int chunks, bool overlap_p2p) {
  SmallPlan p;
  p.layers = 16;
  p.pipeline = pipeline;
  p.micro_batches = micro_batches;
  Plan plan = p.plan();
  plan.parallel.schedule = ScheduleKind::interleaved;
  plan.parallel.virtual_pipeline = chunks;
  plan.parallel.overlap_p2p = overlap_p2p;
  return find_deadlock(lower(plan), Host::starts_in_order);
}

TEST_CASE("interleaved communications can start in their order of issue if sends and receives overlap") {
  const auto stuck = interleaved_stuck(GENERATE(2, 4), GENERATE(4, 8), GENERATE(2, 4), true);
  INFO(stuck.value_or(""));
  CHECK_FALSE(stuck);
}

// A communicator that starts in this order has to start a send and the receive beside it as one (ncclGroupStart, ncclGroupEnd).
TEST_CASE("without overlap an interleaved send and receive wait for each other unless they start together") {
  CHECK(interleaved_stuck(2, 4, GENERATE(2, 4), false));
  CHECK(interleaved_stuck(4, 8, GENERATE(2, 4), false));
  CHECK_FALSE(interleaved_stuck(4, 4, GENERATE(2, 4), false));
}

TEST_CASE("1F1B cannot run with transfers serialised among everything else, which is why they have streams") {
  SmallPlan p;
  p.pipeline = 2;
  p.micro_batches = 4;
  const auto stuck = find_deadlock(lower(p.plan()), Host::serialised);
  REQUIRE(stuck);
  CHECK(stuck->find("waits for its peer") != std::string::npos);
}

TEST_CASE("one stage runs with everything serialised") {
  SmallPlan p;
  p.tensor = p.data = 2;
  CHECK_FALSE(find_deadlock(lower(p.plan()), Host::serialised));
}

TEST_CASE("the check notices missing dependencies") {
  TaskGraph graph = lower(everything().plan());
  SECTION("between instances") { drop_edges(graph, EdgeKind::data); }
  SECTION("where memory is reused") { drop_edges(graph, EdgeKind::reuse); }
  SECTION("of a computation on an all-reduce") { task_of(graph, "block_forward", "attention_add").deps.clear(); }
  SECTION("of an all-reduce on a computation") { task_of(graph, "block_backward", "qkv_dgrad_all_reduce").deps.clear(); }
  REQUIRE_THROWS_AS(graph.check(), ContractError);
}

TEST_CASE("the check notices operands and bindings that are wrong") {
  TaskGraph graph = lower(everything().plan());
  SECTION("outside the slot") { task_of(graph, "block_forward", "qkv").outputs[0].elements += 1000000; }
  SECTION("outside the arena") { graph.programs[0].memory.arena_bytes = Bytes(1000); }
  SECTION("on another tensor's bytes") {
    Program& p = graph.programs[0];
    for (const Instance& i : p.instances)
      if (graph.of(i).name == "send_forward") p.bindings[i.binding + 1] += 64;
  }
  SECTION("an input nothing wrote") { task_of(graph, "block_forward", "ln1").outputs.clear(); }
  REQUIRE_THROWS_AS(graph.check(), ContractError);
}

TEST_CASE("the check notices ranks that do not talk alike") {
  TaskGraph graph = lower(everything().plan());
  SECTION("a send that is missing") { drop_instance(graph, 0, "send_forward"); }
  SECTION("a receive that is missing") { drop_instance(graph, 0, "recv_backward"); }
  SECTION("a norm that one stage does not join") { drop_instance(graph, 1, "optimizer"); }
  SECTION("half of a tied embedding") { drop_instance(graph, 1, "tie_reduce"); }
  REQUIRE_THROWS_AS(graph.check(), ContractError);
}

TEST_CASE("a deadlock is reported with the tasks that wait on each other") {
  // The last stage is made to wait for the third micro-batch before its first backward pass, but the first stage
  // computes that micro-batch only after the gradient of the first has come back.
  SmallPlan p;
  p.pipeline = 2;
  TaskGraph graph = lower(p.plan());
  Program& last = graph.programs[1];
  const auto find = [&](const std::string& block, int micro_batch) {
    for (std::uint32_t i = 0; i < last.instances.size(); ++i)
      if (graph.of(last.instances[i]).name == block && last.instances[i].micro_batch == micro_batch) return i;
    throw std::runtime_error("no instance of " + block);
  };
  const std::uint32_t to = find("head_backward", 0), from = find("recv_forward", 2);
  REQUIRE(to < from);
  std::rotate(last.instances.begin() + to, last.instances.begin() + from, last.instances.begin() + from + 1);
  const auto moved = [&](std::uint32_t i) { return i == from ? to : (i >= to && i < from ? i + 1 : i); };
  std::vector<Edge> edges{{to, to + 1, 0, 0, EdgeKind::data}};
  for (Edge e : last.edges) {
    e.from_instance = moved(e.from_instance);
    e.to_instance = moved(e.to_instance);
    if (e.from_instance < e.to_instance) edges.push_back(e);
  }
  last.edges = edges;
  const auto stuck = find_deadlock(graph, Host::launches);
  REQUIRE(stuck);
  CHECK(stuck->find("stage 0") != std::string::npos);
  const std::string first_task = graph.of(last.instances[to + 1]).tasks.front().name;
  CHECK(stuck->find("stage 1: head_backward/" + first_task + " micro-batch 0 (backward) waits for stage 1: "
                    "recv_forward/recv micro-batch 2 (forward)") != std::string::npos);
}
