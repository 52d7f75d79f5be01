// What orders the streams of a rank: asynchronous queues that are delayed at random give the bits of the synchronous backend, and
// without one of their waits they do not.

#include <algorithm>
#include <array>
#include <bit>
#include <random>

#include "tests/agree/closeness.hpp"
#include "tests/agree/features.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/catch.hpp"
#include "exec/communicator/staged_communicator.hpp"
#include "tests/exec/communicator/queued.hpp"
#include "models/base/threads.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using exec::RunResult;
using tests::HashTokens;
using tests::SmallPlan;

namespace {

constexpr int kSeeds = 20;  // within which a missing wait must show

RunResult trained(const Plan& plan, const TaskGraph& graph, std::int64_t steps, exec::RunOptions options) {
  options.steps = steps;
  options.gather_gradients = options.gather_weights = true;
  return exec::run(plan, graph, HashTokens(plan.model.vocab_size), options);
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](double x, double y) { return bits(x) == bits(y); });
}

bool same_bits(const std::vector<exec::GatheredTensor>& a, const std::vector<exec::GatheredTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return same_bits(x.values, y.values); });
}

bool same_bits(const RunResult& a, const RunResult& b) {
  for (std::size_t s = 0; s < b.steps.size(); ++s)
    if (!same_bits({a.steps[s].loss, a.steps[s].grad_norm}, {b.steps[s].loss, b.steps[s].grad_norm}) ||
        !same_bits(a.gradients[s], b.gradients[s]))
      return false;
  return same_bits(a.weights, b.weights);
}

/// The delays of one rank (odd seeds: of each of its streams). It sleeps never, now and then, every other time, or for spells, so that
/// some ranks or streams run far ahead of others.
exec::Disturbance uneven(std::uint64_t seed, Rank rank) {
  return [=](Stream stream) -> std::function<void()> {
    const auto r = static_cast<std::uint64_t>(rank.value()), s = static_cast<std::uint64_t>(stream);
    std::seed_seq of_stream{seed, r, s}, of_mood{seed, r, seed % 2 * s};
    const auto mood = std::mt19937(of_mood)() % 4;
    return [mood, random = std::mt19937(of_stream), calls = 0u]() mutable {
      const auto drawn = random();
      const std::array sleeps{false, drawn % 16 == 0, drawn % 2 == 0, calls++ / 64 % 2 == 1};
      if (sleeps[mood]) std::this_thread::sleep_for(std::chrono::microseconds(50 + (drawn >> 8) % 400));
    };
  };
}

exec::RunOptions uneven_options(std::uint64_t seed) {
  exec::RunOptions options;
  options.make_backend = [seed](Rank rank) { return exec::make_async_backend(exec::make_cpu_backend(), uneven(seed, rank)); };
  return options;
}

exec::RunOptions delayed(std::uint64_t seed) { return seed % 2 == 0 ? tests::delayed_options(seed) : uneven_options(seed); }

/// Layouts with work on every stream.
std::vector<Plan> busy_plans() {
  const auto patched = [](const std::string& patch) {
    return parse_plan(tests::small_json({patch, R"({"training": {"precision": "fp32"}})"}, 4), "queues");
  };
  return {patched(R"({"parallel": {"tensor": 2, "pipeline": 2, "data": 2, "overlap_grad_reduce": true, "bucket_bytes": 2000}})"),
          patched(R"({"parallel": {"data": 3, "zero_stage": 3, "overlap_grad_reduce": true, "overlap_param_gather": true}})"),
          patched(R"({"parallel": {"pipeline": 4, "schedule": "interleaved", "virtual_pipeline": 2}, "model": {"num_layers": 8}})"),
          patched(R"({"parallel": {"tensor": 4, "tensor_overlap": true, "sequence_parallel": true}})"),
          patched(R"({"parallel": {"context": 2, "pipeline": 2, "schedule": "zb-h1"}})"),
          patched(R"({"parallel": {"pipeline": 2, "data": 2, "expert": 2, "schedule": "dualpipe-v", "overlap_experts": true},
                      "model": {"moe": {"num_experts": 4, "experts_per_token": 2, "capacity_factor": 2}}})")};
}

/// How many of the first `seeds` give the bits of the synchronous backend; `at_once` of them run at a time.
std::ptrdiff_t same_under(const Plan& plan, std::int64_t steps, std::size_t seeds, int at_once) {
  const TaskGraph graph = lower(plan);
  graph.check();
  const RunResult expected = trained(plan, graph, steps, {});
  std::vector<char> same(seeds);
  const auto compare = [&](std::size_t seed) { same[seed] = same_bits(trained(plan, graph, steps, delayed(seed)), expected); };
  for_each_index(seeds, {at_once}, compare);
  return std::count(same.begin(), same.end(), 1);
}

/// One thing that a task waits for on another stream: an edge of a program, or a dependency within a template.
struct Wait {
  bool gives;               ///< a communication waits for the computation that makes what it gives
  std::size_t where;       ///< stage or template
  std::size_t task, which; ///< of a template; edges have their index in `which`
  bool edge;
  std::string name;        ///< with the kind of an edge
};

/// Whether a task reads what an earlier one of its template writes.
bool reads(const Task& to, const Task& from) {
  return std::any_of(from.outputs.begin(), from.outputs.end(), [&](const Operand& w) {
    return std::any_of(to.inputs.begin(), to.inputs.end(), [&](const Operand& r) {
      return r.slot == w.slot && r.offset < w.offset + w.span() && w.offset < r.offset + r.span();
    });
  });
}

/// What fills up a bucket is in no result.
bool is_given(const Task& from, const Task& to) {
  return !is_communication(from.op) && !std::holds_alternative<Fill>(from.op) && is_communication(to.op);
}

std::vector<Wait> waits_of(const TaskGraph& graph) {
  std::vector<Wait> all;
  for (std::size_t t = 0; t < graph.templates.size(); ++t) {
    const Template& block = graph.templates[t];
    for (std::size_t k = 0; k < block.tasks.size(); ++k)
      for (std::size_t d = 0; d < block.tasks[k].deps.size(); ++d) {
        const Task &from = block.tasks[block.tasks[k].deps[d]], &to = block.tasks[k];
        if (from.stream != to.stream)
          all.push_back({is_given(from, to) && reads(to, from), t, k, d, false,
                         block.name + ": " + to.name + " for " + from.name});
      }
  }
  for (std::size_t s = 0; s < graph.programs.size(); ++s) {
    const Program& program = graph.programs[s];
    for (std::size_t e = 0; e < program.edges.size(); ++e) {
      const Edge& edge = program.edges[e];
      const Task& from = graph.of(program.instances[edge.from_instance]).tasks[edge.from_task];
      const Task& to = graph.of(program.instances[edge.to_instance]).tasks[edge.to_task];
      if (from.stream != to.stream)
        all.push_back({is_given(from, to) && edge.kind == EdgeKind::data, s, 0, e, true,
                       "stage " + std::to_string(s) + ": " + to.name + " for " + from.name + ", kind " +
                           std::to_string(static_cast<int>(edge.kind))});
    }
  }
  return all;
}

TaskGraph without(TaskGraph graph, const Wait& w) {
  if (w.edge) {
    auto& edges = graph.programs[w.where].edges;
    edges.erase(edges.begin() + static_cast<std::ptrdiff_t>(w.which));
  } else {
    auto& deps = graph.templates[w.where].tasks[w.task].deps;
    deps.erase(deps.begin() + static_cast<std::ptrdiff_t>(w.which));
  }
  return graph;
}

/// Other waits may imply one: the graph's own check tells.
bool needed(const TaskGraph& graph_without) {
  try {
    graph_without.check();
    return false;
  } catch (const ContractError&) {
    return true;
  }
}

/// How many seeds show that `broken` is not the graph of `expected`; beyond kSeeds: none did.
int seeds_until_found(const Plan& plan, const TaskGraph& broken, const RunResult& expected) {
  for (int seed = 0; seed < kSeeds; ++seed) try {
      if (!same_bits(trained(plan, broken, 1, uneven_options(static_cast<std::uint64_t>(seed))), expected)) return seed + 1;
    } catch (const std::exception&) {
      return seed + 1;
    }
  return kSeeds + 1;
}

struct Removed {
  int waits = 0, found = 0;
};

/// Removes up to `most` of a plan's waits that `wanted` and no other wait implies, one at a time, in any order.
template <class Wanted>
Removed removed_from(const Plan& plan, int most, Wanted wanted) {
  const TaskGraph graph = lower(plan);
  const RunResult expected = trained(plan, graph, 1, {});
  std::vector<Wait> waits = waits_of(graph);
  std::erase_if(waits, [&](const Wait& w) { return !wanted(w); });
  std::mt19937 random(20261123);
  std::shuffle(waits.begin(), waits.end(), random);
  Removed removed;
  for (std::size_t i = 0; i < waits.size() && removed.waits < most; ++i) {
    const TaskGraph broken = without(graph, waits[i]);
    if (!needed(broken)) continue;
    ++removed.waits;
    const int seeds = seeds_until_found(plan, broken, expected);
    removed.found += seeds <= kSeeds;
    UNSCOPED_INFO(waits[i].name << ": " << seeds << " seeds");
  }
  return removed;
}

}  // namespace

TEST_CASE("asynchronous queues that are delayed at random give the bits of the synchronous backend", "[tsan]") {
  for (const Plan& plan : busy_plans()) CHECK(same_under(plan, 2, 3, 1) == 3);
}

/// With experts whose rows the host counts.
std::vector<Plan> busy_and_dropless() {
  std::vector<Plan> all = busy_plans();
  all.push_back(parse_plan(tests::small_json({R"({"parallel": {"data": 2, "expert": 2}, "model": {"moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16}},
                                                "training": {"precision": "fp32"}})"}, 4), "dropless"));
  return all;
}

TEST_CASE("communications that are issued to queues give the bits of those that block the host", "[tsan]") {
  for (const Plan& plan : busy_and_dropless()) {
    const TaskGraph graph = lower(plan);
    const RunResult expected = trained(plan, graph, 2, {});
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      exec::RunOptions options = delayed(seed);
      options.make_communicators = exec::tests::make_queued_communicators;
      REQUIRE(same_bits(trained(plan, graph, 2, options), expected));
    }
  }
}

TEST_CASE("communications that are staged through other memory give the bits of threads", "[tsan]") {
  for (const Plan& plan : busy_and_dropless()) {
    const TaskGraph graph = lower(plan);
    exec::RunOptions options = tests::delayed_options(1);
    options.make_communicators = [](exec::World& world) {
      return exec::make_staged_communicators(world.make_communicators(), exec::host_staging_area(), world.here());
    };
    REQUIRE(same_bits(trained(plan, graph, 2, options), trained(plan, graph, 2, {})));
  }
}

TEST_CASE("twelve waits that are removed on purpose are each found within 20 seeds") {
  const std::vector<Plan> plans = busy_plans();
  for (const std::size_t i : {0, 3, 4}) {
    const Removed removed = removed_from(plans[i], 4, [](const Wait& w) { return w.gives && !w.edge; });
    CHECK(removed.waits == 4);
    CHECK(removed.found == 4);
  }
}

// A wait at a step's end can hide behind others that are nearly always over by then.
TEST_CASE("nine in ten of all waits for what a communication gives are found within 20 seeds", "[.nightly]") {
  Removed all;
  for (const Plan& plan : busy_plans()) {
    const Removed removed = removed_from(plan, 1'000'000, [](const Wait& w) { return w.gives; });
    all.waits += removed.waits, all.found += removed.found;
  }
  CHECK(all.waits > 100);
  CHECK(all.found * 10 >= all.waits * 9);
}

TEST_CASE("the parity grid gives the bits of the synchronous backend under 200 seeds", "[.nightly]") {
  for (const SmallPlan& p : tests::layouts()) {
    INFO(p.label());
    CHECK(same_under(p.plan(), 1, 200, 8) == 200);  // delays are most of a run
  }
}
