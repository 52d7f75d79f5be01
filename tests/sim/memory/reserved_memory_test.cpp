#include "sim/memory/reserved_memory.hpp"


#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/plans.hpp"
#include "tests/sim/engine/random_plans.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

Operand operand(std::uint16_t slot, std::int64_t mib, std::int64_t offset = 0) {
  return {slot, DType::fp32, offset * kMiB, mib * kMiB / 4, 0, 1, Group::tensor};
}

Task task(const std::string& name, std::vector<Operand> in, std::vector<Operand> out) {
  Task t;
  t.name = name;
  t.inputs = std::move(in);
  t.outputs = std::move(out);
  return t;
}

Allocation allocation(MemoryKind kind, std::int64_t offset, std::int64_t mib, std::uint32_t first, std::uint32_t last) {
  return {"tensor", kind, offset * kMiB, Bytes(mib * kMiB), first, last};
}

/// Two passes forward that keep 30 MiB each, made with 12 MiB of scratch, and two backward that read it and have `wide` MiB of
/// scratch. Weights of 64 MiB are there for all of it.
TaskGraph two_each_way(std::int64_t wide) {
  TaskGraph graph;
  Template forward, backward;
  forward.name = "forward", backward.name = "backward";
  forward.slots = backward.slots = {{"scratch", MemoryKind::workspace, Bytes(0)},
                                    {"weights", MemoryKind::weights, Bytes(64 * kMiB)},
                                    {"kept", MemoryKind::activations, Bytes(30 * kMiB)}};
  forward.tasks = {task("make", {operand(1, 64)}, {operand(0, 12)}), task("keep", {operand(0, 12)}, {operand(2, 30)})};
  backward.tasks = {task("use", {operand(1, 64), operand(2, 30)}, {operand(0, wide)})};
  forward.scratch = {{Bytes(12 * kMiB), 0, 1}};
  backward.scratch = {{Bytes(wide * kMiB), 0, 0}};
  graph.templates = {forward, backward};
  Program& p = graph.programs.emplace_back();
  p.stage = StageId(0);
  for (const int tmpl : {0, 0, 1, 1}) p.instances.push_back({TemplateId(tmpl), -1, -1, 0, Phase::forward, 0});
  // The arena: weights, the two that are kept, scratch.
  const std::int64_t kept[] = {64, 94, 94, 64};
  for (std::uint32_t i = 0; i < 4; ++i) {
    p.instances[i].binding = static_cast<std::uint32_t>(p.bindings.size());
    for (const std::int64_t offset : {std::int64_t{124}, std::int64_t{0}, kept[i]}) p.bindings.push_back(offset * kMiB);
  }
  p.memory.allocations = {allocation(MemoryKind::weights, 0, 64, 0, 3), allocation(MemoryKind::activations, 64, 30, 0, 3),
                          allocation(MemoryKind::activations, 94, 30, 1, 2)};
  const Bytes scratch(std::max<std::int64_t>(12, wide) * kMiB);
  p.memory.allocations.push_back({"scratch", MemoryKind::workspace, 124 * kMiB, scratch, 0, 3});
  return graph;
}

/// `passes` forward passes that keep only 2 MiB each, then as many backward passes, in reverse order.
TaskGraph many_each_way(std::uint32_t passes) {
  TaskGraph graph;
  Template forward, backward;
  forward.slots = backward.slots = {{"scratch", MemoryKind::workspace, Bytes(0)},
                                    {"kept", MemoryKind::activations, Bytes(2 * kMiB)}};
  forward.tasks = {task("keep", {}, {operand(1, 2)})};
  backward.tasks = {task("use", {operand(1, 2)}, {})};
  graph.templates = {forward, backward};
  Program& p = graph.programs.emplace_back();
  p.stage = StageId(0);
  for (std::uint32_t i = 0; i < 2 * passes; ++i) {
    const std::uint32_t kept = i < passes ? i : 2 * passes - 1 - i;
    const auto binding = static_cast<std::uint32_t>(p.bindings.size());
    p.instances.push_back({TemplateId(i < passes ? 0 : 1), -1, -1, 0, Phase::forward, binding});
    p.bindings.insert(p.bindings.end(), {0, 2 * kMiB * kept});
    if (i < passes) p.memory.allocations.push_back(allocation(MemoryKind::activations, 2 * i, 2, i, 2 * passes - 1 - i));
  }
  return graph;
}

std::int64_t reserved(const TaskGraph& graph) { return reserved_bytes(graph, graph.programs.front()).count() / kMiB; }

}  // namespace

TEST_CASE("tensors have segments from the task that makes them to the last one that reads them") {
  // Weights, what is there for the whole step, 30 more, 12 of scratch that both passes have; the backward passes' is new the first
  // time, when what the second forward pass kept is not free yet, and lies in that or in itself the second time.
  CHECK(reserved(two_each_way(40)) == 64 + 30 + 30 + 12 + 40);
  CHECK(reserved(two_each_way(20)) == 64 + 30 + 30 + 12 + 20);
  CHECK(reserved(two_each_way(12)) == 64 + 30 + 30 + 12);
}

TEST_CASE("tensors of the update lie in what the passes have left, and those that are there at once apart from each other") {
  TaskGraph graph = two_each_way(12);
  const auto passing = [&](std::vector<PassingTensor> tensors) {
    graph.programs.front().memory.passing.tensors = std::move(tensors);
    return reserved(graph);
  };
  const Bytes b(30 * kMiB);
  CHECK(passing({}) == 64 + 30 + 30 + 12);
  CHECK(passing({{b, 0, 0}, {b, 1, 1}, {Bytes(12 * kMiB), 1, 1}}) == 64 + 30 + 30 + 12);  // the second pass' 30 are free
  CHECK(passing({{b, 0, 0}, {b, 0, 0}, {b, 1, 1}}) == 64 + 30 + 30 + 12 + 30);
  CHECK(passing({{b, 0, 1}, {b, 1, 1}}) == 64 + 30 + 30 + 12 + 30);
  CHECK(passing({{Bytes(32 * kMiB), 0, 0}, {b, 1, 1}, {b, 1, 1}}) == 64 + 30 + 30 + 12 + 32);
}

TEST_CASE("gradients that pass come with the first backward pass, where something else may lie in what parameters have left") {
  TaskGraph graph = two_each_way(12);
  Program& p = graph.programs.front();
  Template& backward = graph.templates[1];
  backward.slots.push_back({"gradients", MemoryKind::gradients, Bytes(40 * kMiB)});
  backward.tasks.front().outputs.insert(backward.tasks.front().outputs.end(), {operand(3, 32), operand(3, 8, 32)});
  p.memory.allocations.push_back(allocation(MemoryKind::gradients, 200, 40, 0, 3));
  for (std::uint32_t i = 2; i < 4; ++i) {
    const auto first = p.bindings.begin() + p.instances[i].binding;
    const std::vector<std::int64_t> own(first, first + 3);
    p.instances[i].binding = static_cast<std::uint32_t>(p.bindings.size());
    p.bindings.insert(p.bindings.end(), own.begin(), own.end());
    p.bindings.push_back(200 * kMiB);
  }
  CHECK(reserved(graph) == 64 + 30 + 40 + 30 + 12);  // there for the whole step
  // Parameters of 32 and 8 MiB leave segments of 32 and 20. What the second forward pass keeps lies in the former when gradients come,
  // and they need 32 anew; the latter has 8 of them and 12 of scratch. The update finds room.
  const PassingTensor bucket{Bytes(30 * kMiB), 0, 0};
  p.memory.passing = {{bucket}, 1};
  CHECK(reserved(graph) == 64 + 30 + 32 + 20 + 32);
  // One of the 32 is the gradients' still; when they have gone there are two.
  p.memory.passing = {{bucket, bucket}, 1};
  CHECK(reserved(graph) == 64 + 30 + 32 + 20 + 32 + 30);
  p.memory.passing = {{bucket, bucket}, 0};
  CHECK(reserved(graph) == 64 + 30 + 32 + 20 + 32);
  p.memory.passing = {{bucket, {Bytes(30 * kMiB), 1, 1}, {Bytes(30 * kMiB), 1, 1}}, 1};
  CHECK(reserved(graph) == 64 + 30 + 32 + 20 + 32);
  p.memory.live_peak_bytes = Bytes(200 * kMiB);
  CHECK(reserved(graph) == 200);
}

TEST_CASE("as many tensors as micro-batches and layers keep at once are played") {
  constexpr std::uint32_t kPasses = 100'000;  // a moment; minutes where a pass looks at all that is there
  const TaskGraph graph = many_each_way(kPasses);
  // Segments of 20 MiB hold ten of them; the first is there for the whole step and lies in one of them, too.
  CHECK(reserved(graph) == 2 * kPasses);
}

TEST_CASE("what a task holds and nobody touches takes room while the task runs") {
  TaskGraph graph = two_each_way(12);
  graph.templates[1].scratch.push_back({Bytes(40 * kMiB), 0, 0});
  // 12 of the pass that holds them are where the others' are; the first backward pass finds nothing else free.
  CHECK(reserved(graph) == 64 + 30 + 30 + 12 + 40);
}

TEST_CASE("what is held ahead of what a task writes leaves its place to it") {
  TaskGraph graph = two_each_way(12);
  // A backward pass holds 12 and 30 MiB before it writes its 12: the former lie where the forward passes' 12 were, and so does what is
  // written behind them; the latter are new.
  graph.templates[1].scratch.insert(graph.templates[1].scratch.begin(),
                                    {{Bytes(12 * kMiB), 0, 0, true}, {Bytes(30 * kMiB), 0, 0, true}});
  CHECK(reserved(graph) == 64 + 30 + 30 + 12 + 30);
  for (ScratchTensor& s : graph.templates[1].scratch) s.ahead = false;
  CHECK(reserved(graph) == 64 + 30 + 30 + 12 + 30 + 12);
}

TEST_CASE("each stream has segments of its own, which others' tensors do not lie in") {
  TaskGraph graph = two_each_way(20);
  // The backward passes' 20 MiB find what the second one kept free, unless that is another stream's.
  const auto of = [&](Pool pool) {
    for (std::uint32_t a : {1U, 2U}) graph.programs.front().memory.allocations[a].pool = pool;
    return reserved(graph);
  };
  CHECK(of(Pool::computation) == 64 + 30 + 30 + 12 + 20);
  CHECK(of(Pool::reductions) == 64 + 30 + 30 + 12 + 20);
  graph = two_each_way(12);
  graph.templates[1].scratch = {{Bytes(12 * kMiB), 0, 0}};
  graph.programs.front().memory.allocations[2].last = 1;  // what the second pass keeps is gone when the backward passes run
  graph.templates[1].scratch.push_back({Bytes(30 * kMiB), 0, 0});
  CHECK(of(Pool::computation) == 64 + 30 + 30 + 12);
  CHECK(of(Pool::gathers) == 64 + 30 + 30 + 12 + 30);
}

TEST_CASE("where segments are expandable tensors lie in what others of other sizes have left") {
  TaskGraph graph = two_each_way(40);
  graph.programs.front().memory.expandable_segments = true;
  // Weights and the two kept tensors, 12 between them; the 40 are mapped behind, and all in steps of 20 MiB: 80 of the weights, of which
  // 16 are left for the first 12, 20 more for the first kept one (4 are there), and so on.
  std::int64_t end = 0;
  for (const std::int64_t mib : {64, 12, 30, 30, 40}) end += mib;
  CHECK(reserved(graph) <= (end + 19) / 20 * 20);
  CHECK(reserved(graph) >= 64 + 30 + 30 + 40);
  CHECK(reserved(two_each_way(40)) == 64 + 30 + 30 + 12 + 40);
}

TEST_CASE("what is sent stays until the program lets go of it") {
  // A second send is made while the first one's bytes, touched no more, are still the first one's.
  for (const std::uint32_t released : {1U, 2U}) {
    TaskGraph graph;
    Template send;
    send.slots = {{"scratch", MemoryKind::workspace, Bytes(0)}, {"buffer", MemoryKind::communication, Bytes(30 * kMiB)}};
    send.tasks = {task("fill", {}, {operand(1, 30)}), task("send", {operand(1, 30)}, {})};
    send.tasks.back().stream = Stream::send;
    graph.templates = {send};
    Program& p = graph.programs.emplace_back();
    p.stage = StageId(0);
    for (std::uint32_t i = 0; i < 4; ++i) {
      p.instances.push_back({TemplateId(0), -1, -1, 0, Phase::forward, 2 * i});
      p.bindings.insert(p.bindings.end(), {0, 30 * kMiB * i});
      p.memory.allocations.push_back(allocation(MemoryKind::communication, 30 * i, 30, i, std::min(3U, i + released - 1)));
    }
    CHECK(reserved(graph) == 30 * released);
  }
}

TEST_CASE("for plain plans an allocator reserves what is alive at once or more, and less than every tensor apart") {
  tests::SmallPlan small;
  const std::string recompute = GENERATE("none", "full");
  small.recompute = recompute;
  const TaskGraph graph = lower(small.plan());
  for (const Program& p : graph.programs) {
    Bytes all;
    for (const Allocation& a : p.memory.allocations) all += Bytes((a.bytes.count() + (20 << 20)));
    CHECK(reserved_bytes(graph, p) >= p.memory.live_peak_bytes);
    CHECK(reserved_bytes(graph, p) < all);
  }
}

TEST_CASE("a program whose micro-batches were copied reserves and needs what one does that was lowered pass by pass") {
  tests::SmallPlan small;
  small.pipeline = GENERATE(1, 2, 4);
  small.recompute = GENERATE("none", "full");
  small.micro_batches = 48;
  const Plan plan = small.plan();
  const TaskGraph copied = lower(plan), written = lower_every_pass(plan);
  for (std::size_t s = 0; s < copied.programs.size(); ++s) {
    const Program &a = copied.programs[s], &b = written.programs[s];
    CHECK(a.copied > 0);
    CHECK(b.copied == 0);
    CHECK(reserved_bytes(copied, a) == reserved_bytes(written, b));
    const Bytes room(a.memory.live_peak_bytes.count() * 101 / 100);
    CHECK(needed_bytes(copied, a, room) == needed_bytes(written, b, room));
  }
}

TEST_CASE("what an allocator needs is what is alive where it can give segments back, and more where tensors lie in them") {
  TaskGraph graph = two_each_way(40);
  Program& p = graph.programs.front();
  const auto needed = [&](std::int64_t room) { return needed_bytes(graph, p, Bytes(room * kMiB)).count() / kMiB; };
  p.memory.live_peak_bytes = Bytes((64 + 30 + 30 + 40) * kMiB);
  // The forward passes' 12 MiB go back when the backward pass has 40.
  CHECK(reserved(graph) == 64 + 30 + 30 + 12 + 40);
  CHECK(needed(64 + 30 + 30 + 40) == 64 + 30 + 30 + 40);
  CHECK(needed(64 + 30 + 30 + 39) == 64 + 30 + 30 + 40);  // not even what is alive fits
  // 2 MiB that come with the second forward pass lie in the 12 of the first, so it has 12 of its own, and only these go back.
  p.memory.allocations.push_back(allocation(MemoryKind::activations, 300, 2, 1, 3));
  p.memory.live_peak_bytes += Bytes(2 * kMiB);
  const std::int64_t alive = 64 + 30 + 30 + 40 + 2, least = alive + 10;
  CHECK(reserved(graph) == least + 12);
  CHECK(needed(least) == alive);
  for (const std::int64_t room : {alive, least - 1}) {
    CHECK(needed(room) >= least);
    CHECK(needed(room) <= least + 2);
  }
  p.memory.expandable_segments = true;
  CHECK(needed(alive) == alive);
}

TEST_CASE("what only a stream keeps is in nobody's way where memory runs short") {
  TaskGraph graph = two_each_way(12);
  MemoryPlan& memory = graph.programs.front().memory;
  memory.live_peak_bytes = Bytes((64 + 30 + 30 + 12) * kMiB);
  const auto needed = [&] { return needed_bytes(graph, graph.programs.front(), memory.live_peak_bytes).count() / kMiB; };
  PassingTensor bucket{Bytes(30 * kMiB), 0, 0, true};
  memory.passing.tensors = {bucket, bucket, bucket};
  CHECK(reserved(graph) == 64 + 30 + 30 + 12 + 30 + 30);
  CHECK(needed() == 64 + 30 + 30 + 12);
  bucket.let_go = false;
  memory.passing.tensors = {bucket, bucket, bucket};
  CHECK(needed() == 64 + 30 + 3 * 30);  // the 12 of scratch go back
}

TEST_CASE("what an allocator needs is enough for it, between what is alive and what it reserves with nobody in its way") {
  sim::test::PlanGenerator generator(20261123, 16);
  int holed = 0;
  for (int n = 0; n < 100; ++n) {
    const auto random = generator.next();
    for (const Program& p : random.graph.programs) {
      CAPTURE(n, to_json(random.plan, -1));
      const Bytes live = p.memory.live_peak_bytes, most = reserved_bytes(random.graph, p);
      CHECK(needed_bytes(random.graph, p, most) == live);
      const Bytes needed = needed_bytes(random.graph, p, live);
      CHECK(needed <= most);
      if (needed == live) continue;
      CHECK(needed > live);
      CHECK(needed_bytes(random.graph, p, needed) == live);
      ++holed;
    }
  }
  CHECK(holed > 0);
}

TEST_CASE("an allocator never reserves less than is alive at once") {
  sim::test::PlanGenerator generator(20261122, 64);
  for (int n = 0; n < 150; ++n) {
    const auto random = generator.next();
    for (const bool offload : {false, true}) {
      Plan plan = random.plan;
      if (offload && plan.parallel.zero_stage == 0) continue;
      plan.parallel.offload.optimizer = offload;
      const TaskGraph graph = offload ? lower(plan) : random.graph;
      for (const Program& p : graph.programs) {
        CAPTURE(n, offload, to_json(plan, -1));
        CHECK(reserved_bytes(graph, p) >= p.memory.live_peak_bytes);
      }
    }
  }
}
