#include "tests/exec/run/hand_graph.hpp"

#include <array>
#include <map>
#include <tuple>

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;
using namespace tandem::exec::hand;

namespace {

using Refs = std::vector<std::pair<std::uint32_t, std::uint16_t>>;

std::size_t at(Stream s) { return static_cast<std::size_t>(s); }

/// out = 1 everywhere.
void one(const float*, float* out, const KernelContext&) { fill(out, 1); }

}  // namespace

TEST_CASE("Computations of one rank run in issue order") {
  // weights = in: 0; compute writes 1 to buffer 2, which is added twice.
  const auto graph = graph_of({{{{compute(3, 2), add(2, 1)}, {add(2, 1)}}, {}, {}}});
  const auto result = run_graph(plan_of(1, 1, 1), graph, one);
  CHECK(weight(result, 0) == 2);
  const Refs expected{{0, 0}, {0, 1}, {1, 0}};
  CHECK(result.ranks[0].issue_order == expected);
  CHECK(result.ranks[0].stream_order[at(Stream::compute)] == expected);
}

TEST_CASE("The highest byte that an operand reached is reported beside what was allocated") {
  const auto graph = graph_of({{{{compute(3, 2)}}, {}, {}}});
  const auto books = run_graph(plan_of(1, 1, 1), graph, one).ranks[0];
  CHECK(books.arena_bytes == kBuffers * 256);
  CHECK(books.arena_touched_bytes == 3 * 256 + kElements * 4);
}

TEST_CASE("Bytes nobody wrote are not a number", "[tsan]") {
  const auto graph = graph_of({{{{add(4, 1)}}, {}, {}}});
  CHECK(std::isnan(run_graph(plan_of(1, 1, 1), graph, one).weights[0].values[0]));
}

TEST_CASE("A message carries what its sender computed, and its reader waits for it", "[tsan]") {
  // The sender is slow: a reader that did not wait would add NaN.
  const auto slow = [](const float*, float* out, const KernelContext&) {
    sleep_ms(20);
    fill(out, 7);
  };
  const auto graph = graph_of({{{{compute(3, 2), after({0}, send(1, 2))}}, {}, {}},
                               {{{recv(-1, 2), after({0}, add(2, 1))}}, {}, {}}});
  const auto result = run_graph(plan_of(1, 2, 1), graph, slow);
  CHECK(weight(result, 1) == 7);
  CHECK(result.ranks[0].comm.sends == 1);
  CHECK(result.ranks[0].comm.sent_bytes == kElements * 4);
  CHECK(result.ranks[1].stream_order[at(Stream::recv)] == Refs{{0, 0}});
}

TEST_CASE("Edges across instances make streams wait for each other", "[tsan]") {
  // compute -> all-reduce over data on its own stream -> add; then a second compute must not overwrite before that.
  const auto by_rank = std::make_shared<std::atomic<int>>(0);
  const auto body = [by_rank](const float*, float* out, const KernelContext& c) {
    sleep_ms(c.layer == 0 ? 20 : 0);
    fill(out, c.layer == 0 ? 3.0F : 100.0F);
  };
  const std::vector<Edge> edges{{0, 1, 0, 0, EdgeKind::data}, {1, 2, 0, 0, EdgeKind::data}, {1, 3, 0, 0, EdgeKind::reuse}};
  const auto graph = graph_of({{{{compute(3, 2)}, {all_reduce(Group::data, Stream::data, 2)}, {add(2, 1)}, {compute(3, 2)}},
                                edges, {}}});
  const auto result = run_graph(plan_of(1, 1, 3), graph, body);
  CHECK(weight(result, 0) == 9);
  for (const auto& rank : result.ranks) {
    CHECK(rank.issue_order == Refs{{0, 0}, {1, 0}, {2, 0}, {3, 0}});
    CHECK(rank.stream_order[at(Stream::data)] == Refs{{1, 0}});
    const auto& line = rank.comm.collectives.at({CollectiveKind::all_reduce, Group::data});
    CHECK(line.calls == 1);
    CHECK(line.payload_bytes == kElements * 4);
  }
}

TEST_CASE("Tensor-parallel collectives run between the computations around them", "[tsan]") {
  const auto body = [](const float*, float* out, const KernelContext& c) { fill(out, static_cast<float>(c.tensor_rank + 1)); };
  const auto graph = graph_of(
      {{{{compute(3, 2), after({0}, all_reduce(Group::tensor, Stream::tensor, 2)), after({1}, add(2, 1))}}, {}, {}}});
  const auto result = run_graph(plan_of(4, 1, 1), graph, body);
  CHECK(weight(result, 0) == 1 + 2 + 3 + 4);
}

TEST_CASE("Two stages exchange both ways without waiting in a circle", "[tsan]") {
  const auto body = [](const float*, float* out, const KernelContext& c) { fill(out, static_cast<float>(c.table->step + 1)); };
  const auto graph = graph_of({{{{compute(3, 2), after({0}, send(1, 2)), recv(1, 4), after({2}, add(4, 1))}}, {}, {}},
                               {{{compute(3, 2), after({0}, send(-1, 2)), recv(-1, 4), after({2}, add(4, 1))}}, {}, {}}});
  RunOptions options;
  options.steps = 3;
  const auto result = run_graph(plan_of(1, 2, 1), graph, body, options);
  CHECK(weight(result, 0) == 1 + 2 + 3);
  CHECK(weight(result, 1) == 1 + 2 + 3);
}

TEST_CASE("A kernel is told its step, layer, seed, tensor rank and first global sequence") {
  std::mutex mutex;
  std::map<std::pair<std::int64_t, std::int32_t>, std::int64_t> first;  // (step, layer) of data rank 1's side too
  const auto body = [&](const float*, float* out, const KernelContext& c) {
    std::lock_guard lock(mutex);
    require(c.seed == 1234 && c.tensor_size == 1 && c.table != nullptr, "context incomplete");
    const std::int64_t sequence = c.table->first_sample + c.first_sequence;
    first[{static_cast<std::int64_t>(c.table->step) * 100 + sequence, c.layer}] = sequence;
    fill(out, 0);
  };
  auto plan = plan_of(1, 1, 2);
  plan.training.global_batch_size = 12;  // 3 micro-batches of 2 sequences on each of 2 data ranks
  const auto graph = graph_of({{{{compute(3, 2)}, {compute(3, 2)}, {compute(3, 2)}}, {}, {0, 1, 2}}});
  RunOptions options;
  options.steps = 2;
  run_graph(plan, graph, body, options);
  std::vector<std::int64_t> seen;
  for (const auto& [key, sequence] : first) seen.push_back(key.first);
  // step*12 + (micro_batch*2 + data)*2, and 100 a step to tell steps apart.
  CHECK(seen == std::vector<std::int64_t>{0, 2, 4, 6, 8, 10, 112, 114, 116, 118, 120, 122});
}

TEST_CASE("The slot named tokens holds the micro-batch's sequences when its instance runs") {
  std::vector<std::int32_t> seen;
  const auto body = [&](const float* in, float* out, const KernelContext&) {
    const auto* tokens = reinterpret_cast<const std::int32_t*>(in);
    seen.assign(tokens, tokens + 8);
    fill(out, 0);
  };
  auto plan = plan_of(1, 1, 1);
  plan.training.global_batch_size = 4;
  const auto graph = graph_of({{{{compute(5, 2)}}, {}, {1}}});
  run_graph(plan, graph, body);
  CHECK(seen == std::vector<std::int32_t>{20, 21, 22, 23, 30, 31, 32, 33});  // sequences 2 and 3 of CountingTokens
}

TEST_CASE("Every context rank gets its own pieces of the same sequences, targets one position on") {
  std::mutex mutex;
  std::map<std::int32_t, std::vector<std::int32_t>> seen;  // by context rank and slot
  const auto body = [&](const float* in, float* out, const KernelContext& c) {
    std::lock_guard lock(mutex);
    require(c.context_size == 2 && c.seq_length == 8 && c.first_sequence == 0, "context incomplete");
    const auto* ids = reinterpret_cast<const std::int32_t*>(in);
    seen[c.context_rank * 10 + c.layer].assign(ids, ids + 8);
    fill(out, 0);
  };
  auto plan = plan_of(1, 1, 1, 2);
  plan.training.seq_length = 8;
  auto graph = graph_of({{{{compute(5, 2)}, {compute(4, 2)}}, {}, {}}});
  graph.templates[1].slots[4].name = "targets";  // a slot of its own: the host fills all before the first task
  run_graph(plan, graph, body);
  // Quarters 0 and 3 of sequences 0 and 1 on context rank 0, quarters 1 and 2 on rank 1.
  CHECK(seen[0] == std::vector<std::int32_t>{0, 1, 6, 7, 10, 11, 16, 17});
  CHECK(seen[1] == std::vector<std::int32_t>{1, 2, 7, 8, 11, 12, 17, 18});
  CHECK(seen[10] == std::vector<std::int32_t>{2, 3, 4, 5, 12, 13, 14, 15});
  CHECK(seen[11] == std::vector<std::int32_t>{3, 4, 5, 6, 13, 14, 15, 16});
}

TEST_CASE("A slot that the host fills must hold a micro-batch") {
  auto graph = graph_of({{{{compute(5, 2)}}, {}, {}}});
  graph.templates[0].slots[5].bytes = Bytes(28);  // 2 sequences of 4 are 32 bytes
  REQUIRE_THROWS_AS(run_graph(plan_of(1, 1, 1), graph, one), ContractError);
}

TEST_CASE("A rank that fails wakes the others and its cause is thrown with its rank", "[tsan]") {
  const auto stream = GENERATE(Stream::tensor, Stream::data);
  const auto body = [](const float*, float* out, const KernelContext& c) {
    if (c.tensor_rank == 2 && c.table->step == 1) throw DeviceError("out of memory");
    fill(out, 1);
  };
  const std::vector<Edge> edges{{0, 1, 1, 0, EdgeKind::data}};
  const auto graph = graph_of(
      {{{{compute(3, 2), after({0}, all_reduce(Group::tensor, stream, 2))}, {add(2, 1)}}, edges, {}}});
  RunOptions options;
  options.steps = 3;
  REQUIRE_THROWS_AS(run_graph(plan_of(4, 1, 1), graph, body, options), DeviceError);
  REQUIRE_THROWS_WITH(run_graph(plan_of(4, 1, 1), graph, body, options), "rank 2 failed in step 1: out of memory");
}

TEST_CASE("A failure is told with its rank, its step and the steps before it", "[tsan]") {
  const auto body = [](const float*, float* out, const KernelContext& c) {
    if (c.tensor_rank == 1 && c.table->step == 2) throw std::bad_alloc();
    fill(out, 1);
  };
  RunOptions options;
  options.steps = 4;
  std::optional<RankFailure> told;
  std::size_t steps = 0, ranks = 0;
  options.on_failure = [&](const RankFailure& failure, const RunResult& until_then) {
    told = failure, steps = until_then.steps.size(), ranks = until_then.ranks.size();
  };
  const auto graph = graph_of({{{{compute(3, 2)}}, {}, {}}});
  REQUIRE_THROWS_AS(run_graph(plan_of(2, 1, 1), graph, body, options), DeviceError);
  REQUIRE(told.has_value());
  CHECK(told->rank == Rank(1));
  CHECK(told->step == 2);
  CHECK(told->during == Activity::training);
  CHECK(told->reason == "the host has no memory left");
  CHECK(steps == 2);
  CHECK(ranks == 2);
}

TEST_CASE("A rank that the host has no room for is a rank that failed") {
  int made = 0;
  RunOptions options;
  options.make_backend = [&](Rank) -> std::unique_ptr<Backend> {
    if (++made == 2) throw DeviceError("no room");
    return std::make_unique<AddingBackend>(one);
  };
  std::optional<RankFailure> told;
  options.on_failure = [&](const RankFailure& failure, const RunResult& until_then) {
    told = failure;
    CHECK(until_then.steps.empty());
  };
  const Plan plan = plan_of(2, 1, 1);
  const auto graph = graph_of({{{{compute(3, 2)}}, {}, {}}});
  REQUIRE_THROWS_WITH(run(plan, graph, CountingTokens(), options), "rank 1 failed before step 0: no room");
  REQUIRE(told.has_value());
  CHECK(told->rank == Rank(1));
  CHECK(told->during == Activity::start);
}

TEST_CASE("A rank that fails while the state is saved did not fail in the step before it") {
  struct Full final : StateKeeper {
    void keep(const StateMoment&) override { throw DeviceError("no room"); }
  } keeper;
  RunOptions options;
  options.steps = 5, options.state_every = 2, options.keeper = &keeper;
  std::optional<RankFailure> told;
  options.on_failure = [&](const RankFailure& failure, const RunResult&) { told = failure; };
  const auto graph = graph_of({{{{compute(3, 2)}}, {}, {}}});
  REQUIRE_THROWS_WITH(run_graph(plan_of(1, 1, 1), graph, one, options), "rank 0 failed while it saved after step 1: no room");
  REQUIRE(told.has_value());
  CHECK(told->during == Activity::saving);
  CHECK(told->step == 1);
}

TEST_CASE("A failing callback ends the run with its own exception") {
  struct Stop {};
  RunOptions options;
  options.steps = 3;
  options.on_step = [](const StepResult&) { throw Stop{}; };
  const auto graph = graph_of({{{{compute(3, 2)}}, {}, {}}});
  REQUIRE_THROWS_AS(run_graph(plan_of(2, 1, 2), graph, one, options), Stop);
}

TEST_CASE("Messages that do not match end the run with both ends named") {
  const auto graph = graph_of({{{{compute(3, 2), after({0}, send(1, 2))}}, {}, {0}},
                               {{{recv(-1, 2)}}, {}, {1}}});
  REQUIRE_THROWS_AS(run_graph(plan_of(1, 2, 1), graph, one), CommError);
}

TEST_CASE("A rank finds its own share of a larger tensor by its place in the operand's group") {
  // Share i of buffer 2 holds 10^i; every rank adds its own to the weights.
  const auto powers = [](const float*, float* out, const KernelContext&) {
    for (int i = 0; i < 4; ++i)
      std::fill_n(out + i * kElements, kElements, std::array{1.0F, 10.0F, 100.0F, 1000.0F}[static_cast<std::size_t>(i)]);
  };
  const auto [plan, group] = GENERATE(table<Plan, Group>({{plan_of(4, 1, 1), Group::tensor},
                                                          {plan_of(1, 1, 4), Group::data},
                                                          {plan_of(1, 1, 2, 2), Group::data},
                                                          {plan_of(1, 1, 1, 4), Group::context}}));
  auto own = add(2, 1);
  own.inputs[0].shards = 4, own.inputs[0].stride = kElements * 4, own.inputs[0].shard_group = group;
  auto longer = plan;
  longer.training.seq_length = 8;
  const auto graph = graph_of({{{{compute(0, 2), own, after({1}, all_reduce(group, Stream::tensor, 1))}}, {}, {}}});
  const auto result = run_graph(longer, graph, powers);
  CHECK(weight(result, 0) == 1111);
  CHECK(result.ranks[0].arena_touched_bytes == 2 * 256 + kElements * 4);
  CHECK(result.ranks[3].arena_touched_bytes == 3 * 256);  // the last share ends with its slot
}

TEST_CASE("An operand of more members than shares is a contract error") {
  auto own = add(2, 1);
  own.inputs[0].shards = 2, own.inputs[0].stride = kElements * 4, own.inputs[0].shard_group = Group::tensor;
  const auto graph = graph_of({{{{compute(3, 2), own}}, {}, {}}});
  REQUIRE_THROWS_AS(run_graph(plan_of(4, 1, 1), graph, one), ContractError);
}

namespace {

/// Receives from `from`, adds one and sends `to`; 0: neither.
std::vector<Task> relay(int from, int to) {
  std::vector<Task> tasks;
  if (from != 0) tasks.push_back(recv(from, 2));
  tasks.push_back(after(std::vector<std::uint16_t>(tasks.size(), 0), compute(2, 4)));
  if (to != 0) tasks.push_back(after({static_cast<std::uint16_t>(tasks.size() - 1)}, send(to, 4)));
  return tasks;
}

void set(TaskGraph& graph, std::size_t stage, const std::vector<std::pair<std::int32_t, Phase>>& instances) {
  for (std::size_t i = 0; i < instances.size(); ++i)
    std::tie(graph.programs[stage].instances[i].chunk, graph.programs[stage].instances[i].phase) = instances[i];
}

}  // namespace

TEST_CASE("Messages pass from the last stage to the first one's next chunk and back", "[tsan]") {
  // Two stages of two chunks: both directions between the same two ranks. Every virtual stage adds one, there and back,
  // the first to nothing. The last turns with what it received.
  const auto more = [](const float* in, float* out, const KernelContext&) { fill(out, std::isnan(in[0]) ? 1 : in[0] + 1); };
  auto graph = graph_of({{{relay(0, 1), relay(-1, 1), relay(1, -1), relay(1, 0), {add(4, 1)}}, {}, {}},
                         {{relay(-1, 1), relay(-1, 0), relay(0, -1), relay(1, -1), {add(4, 1)}}, {}, {}}});
  set(graph, 0, {{0, Phase::forward}, {1, Phase::forward}, {1, Phase::backward}, {0, Phase::backward}, {0, Phase::optimizer}});
  set(graph, 1, {{0, Phase::forward}, {1, Phase::forward}, {1, Phase::backward}, {0, Phase::backward}, {0, Phase::optimizer}});
  // What a relay leaves is overwritten by the next only after it was sent, and what it reads only after it was read.
  graph.programs[0].edges = {{0, 1, 1, 1, EdgeKind::reuse}, {1, 2, 1, 0, EdgeKind::reuse}, {1, 2, 2, 1, EdgeKind::reuse},
                             {2, 3, 1, 0, EdgeKind::reuse}, {2, 3, 2, 1, EdgeKind::reuse}};
  graph.programs[1].edges = {{0, 1, 1, 0, EdgeKind::reuse}, {0, 1, 2, 1, EdgeKind::reuse}, {2, 3, 0, 0, EdgeKind::reuse},
                             {2, 3, 1, 1, EdgeKind::reuse}};
  const auto result = run_graph(plan_of(1, 2, 1), graph, more);
  CHECK(weight(result, 0) == 7);
  CHECK(weight(result, 1) == 6);
  CHECK(result.ranks[0].comm.sends == 3);
  CHECK(result.ranks[1].comm.sends == 3);
}

TEST_CASE("Once-a-step work passes from the last stage to the first with no chunk between") {
  auto graph = graph_of({{{{recv(-1, 2), after({0}, add(2, 1))}}, {}, {-1}},
                         {{{compute(3, 2), after({0}, send(1, 2))}}, {}, {-1}}});
  CHECK(weight(run_graph(plan_of(1, 2, 1), graph, one), 0) == 1);
}

TEST_CASE("A message for another chunk than its receiver works on is named, not taken") {
  auto graph = graph_of({{{{compute(3, 2), after({0}, send(1, 2))}}, {}, {}}, {{{recv(-1, 2)}}, {}, {}}});
  graph.programs[1].instances[0].chunk = 1;
  REQUIRE_THROWS_AS(run_graph(plan_of(1, 2, 1), graph, one), CommError);
}

TEST_CASE("Spans are ordered and a rendezvous starts on both sides when the later side is ready", "[tsan]") {
  const auto slow = [](const float*, float* out, const KernelContext&) {
    sleep_ms(15);
    fill(out, 1);
  };
  const auto graph = graph_of({{{{compute(3, 2), after({0}, send(1, 2))}}, {}, {}}, {{{recv(-1, 2)}}, {}, {}}});
  RunOptions options;
  options.steps = 2;
  options.timeline_step = 1;
  const auto result = run_graph(plan_of(1, 2, 1), graph, slow, options);
  REQUIRE(result.timeline);
  REQUIRE(result.timeline->lanes.size() == 2);
  for (const auto& lane : result.timeline->lanes)
    for (const auto& s : lane.spans) {
      CHECK(Duration() <= s.issued);
      CHECK(s.issued <= s.ready);
      CHECK(s.ready <= s.started);
      CHECK(s.started <= s.ended);
      CHECK(s.ended <= result.timeline->step_time);
    }
  const auto& sent = result.timeline->lanes[0].spans[1];
  const auto& received = result.timeline->lanes[1].spans[0];
  CHECK(sent.started >= Duration::seconds(0.015));
  CHECK(received.started == sent.started);
  CHECK(received.ready < sent.ready);
}

TEST_CASE("What a backend cannot do is refused before anything runs, by operation, type and backend") {
  auto task = add(2, 1);
  task.op = BiasGrad{kElements, 1};
  const auto graph = graph_of({{{{task}}, {}, {}}});
  try {
    run_graph(plan_of(1, 1, 1), graph, one);
    FAIL("not refused");
  } catch (const InfeasibleError& e) {
    CHECK(e.problems().at(0).field == "training.precision");
    CHECK_THAT(e.what(), Catch::Contains("the adding") && Catch::Contains("backend cannot do bias_grad in fp32"));
  }
}

TEST_CASE("Types that no kernel has, fp64 beside narrower ones and masters no wider than weights are refused by field") {
  const auto graph = graph_of({{{{compute(3, 2)}}, {}, {}}});
  const auto refused = [&](auto change) -> std::string {
    auto plan = plan_of(1, 1, 1);
    change(plan.training.dtypes);
    try {
      run_graph(plan, graph, one);
    } catch (const InfeasibleError& e) {
      return e.problems().at(0).field;
    }
    return "";
  };
  CHECK(refused([](DTypes& d) { d.compute = DType::fp8; }) == "training.dtypes.compute");
  CHECK(refused([](DTypes& d) { d.compute = DType::tf32; }) == "training.dtypes.compute");
  CHECK(refused([](DTypes& d) { d.optimizer_state = DType::fp8; }) == "training.dtypes.optimizer_state");
  CHECK(refused([](DTypes& d) { d.gradients = DType::fp64; }) == "training.dtypes.gradients");
  CHECK(refused([](DTypes& d) { d.weights = DType::bf16, d.master = DType::fp16; }) == "training.dtypes.master");
  CHECK(refused([](DTypes& d) { d.master = DType::bf16; }) == "training.dtypes.master");
  CHECK(refused([](DTypes& d) { d.gradient_reduce = DType::fp64; }).empty());
  CHECK(refused([](DTypes& d) { d = DTypes{}; }).empty());  // bf16 with fp32 beside it
}

TEST_CASE("Data with more tokens than the vocabulary is refused by field") {
  auto plan = plan_of(1, 1, 1);
  plan.model.vocab_size = 255;
  const auto graph = graph_of({{{{compute(3, 2)}}, {}, {}}});
  REQUIRE_THROWS_AS(run_graph(plan, graph, one), ConfigError);
}

TEST_CASE("BERT needs a token more than the data has, for the mask") {
  auto plan = plan_of(1, 1, 1);
  plan.model.family = Family::bert;
  const auto graph = graph_of({{{{compute(3, 2)}}, {}, {}}});
  REQUIRE_THROWS_AS(run_graph(plan, graph, one), ConfigError);
  plan.model.vocab_size = 257;
  CHECK_NOTHROW(run_graph(plan, graph, one));
}

TEST_CASE("The loss is read where the program has it") {
  const auto body = [](const float*, float* out, const KernelContext& c) {
    const double loss = c.tensor_rank == 0 ? 2.5 : -1;
    std::memcpy(out, &loss, sizeof loss);
  };
  auto graph = graph_of({{{{compute(3, 2)}}, {}, {}}, {{{compute(3, 4)}}, {}, {}}});
  CHECK(std::isnan(run_graph(plan_of(2, 2, 1), graph, body).steps[0].loss));
  graph.programs[1].memory.allocations.push_back({"loss", MemoryKind::workspace, 4 * 256, Bytes(256), 0, 1});
  CHECK(run_graph(plan_of(2, 2, 1), graph, body).steps[0].loss == 2.5);
}

TEST_CASE("Programs whose tasks wait forwards or compute on a communication stream are contract errors") {
  auto misplaced = compute(3, 2);
  misplaced.stream = Stream::data;
  CHECK_THROWS_AS(run_graph(plan_of(1, 1, 1), graph_of({{{{misplaced}}, {}, {}}}), one), ContractError);
  const auto forwards = graph_of({{{{compute(3, 2)}, {compute(3, 2)}}, {{1, 0, 0, 0, EdgeKind::data}}, {}}});
  CHECK_THROWS_AS(run_graph(plan_of(1, 1, 1), forwards, one), ContractError);
}

TEST_CASE("Every step is reported once, in order, from rank 0") {
  RunOptions options;
  options.steps = 4;
  std::vector<std::int64_t> steps;
  options.on_step = [&](const StepResult& s) { steps.push_back(s.step); };
  const auto graph = graph_of({{{{compute(3, 2)}}, {}, {}}});
  const auto result = run_graph(plan_of(2, 1, 2), graph, one, options);
  CHECK(steps == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(result.steps.size() == 4);
  for (const auto& s : result.steps) CHECK(s.step_time_s > 0);
}
