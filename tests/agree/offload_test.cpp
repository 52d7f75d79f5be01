// States and weights in the host's memory (parallel.offload): the same numbers as without, bit for bit, and less of the device.

#include "exec/checkpoint/file_keeper.hpp"
#include "exec/process/world.hpp"
#include "models/graph/host_arena.hpp"
#include "tests/agree/closeness.hpp"
#include "tests/agree/features.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/catch.hpp"
#include "tests/exec/state/kept_files.hpp"
#include "tests/temporary_folder.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using exec::RunResult;
using tests::check_equal;
using tests::HashTokens;

namespace {

constexpr std::int64_t kSteps = 3;

struct Layout {
  const char* parallel;
  bool weights = false;  ///< ZeRO 3: weights can go, too
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{
      {R"({"parallel": {"tensor": 1}})"},
      {R"({"parallel": {"tensor": 2, "pipeline": 2}})"},
      {R"({"parallel": {"data": 2}})"},
      {R"({"parallel": {"data": 2, "zero_stage": 1, "overlap_grad_reduce": true, "bucket_bytes": 2000}})"},
      {R"({"parallel": {"tensor": 2, "data": 2, "zero_stage": 2}})"},
      {R"({"parallel": {"data": 4, "zero_stage": 3, "overlap_grad_reduce": true, "overlap_param_gather": true}})", true},
      {R"({"parallel": {"pipeline": 2, "data": 2, "zero_stage": 3}})", true},
  };
  return all;
}

Plan plan_of(const Layout& l, const std::string& offload, const std::string& training) {
  const std::string offloads = R"({"parallel": {"offload": )" + offload + "}}", trains = R"({"training": )" + training + "}";
  return parse_plan(tests::small_json({l.parallel, offloads, trains}, 4), "offload");
}

std::vector<std::string> offloads(const Layout& l) {
  std::vector<std::string> all{R"({"optimizer": true})", R"({"optimizer": true, "ratio": 0.4})"};
  if (l.weights) all.emplace_back(R"({"optimizer": true, "parameters": true})");
  return all;
}

RunResult trained(const Plan& plan, exec::RunOptions options) {
  options.steps = kSteps;
  options.gather_gradients = options.gather_weights = true;
  return exec::run(plan, lower(plan), HashTokens(plan.model.vocab_size), options);
}

/// Bytes of the heaviest stage.
struct Memories {
  std::int64_t arena = 0, host = 0;
};

Memories memories(const TaskGraph& graph) {
  Memories most;
  for (const Program& p : graph.programs) {
    most.arena = std::max(most.arena, p.memory.arena_bytes.count());
    most.host = std::max(most.host, HostArena(graph, p).bytes().count());
  }
  return most;
}

bool is_copy(const Task& t) { return std::holds_alternative<HostCopy>(t.op); }

/// Without what tasks of other streams wait for copies for, or without what copies wait for.
TaskGraph without_waits(TaskGraph graph, bool of_copies) {
  const auto gone = [&](const Task& from, const Task& to) { return from.stream != to.stream && is_copy(of_copies ? to : from); };
  for (Template& t : graph.templates)
    for (Task& task : t.tasks) std::erase_if(task.deps, [&](std::uint16_t d) { return gone(t.tasks[d], task); });
  for (Program& p : graph.programs)
    std::erase_if(p.edges, [&](const Edge& e) {
      return gone(graph.of(p.instances[e.from_instance]).tasks[e.from_task], graph.of(p.instances[e.to_instance]).tasks[e.to_task]);
    });
  return graph;
}

bool same_weights(const RunResult& a, const RunResult& b) {
  return std::equal(a.weights.begin(), a.weights.end(), b.weights.begin(), b.weights.end(),
                    [](const auto& x, const auto& y) { return x.values == y.values; });
}

const char* const kTypes[] = {R"({"precision": "fp32"})", R"({"precision": "fp64"})", R"({"precision": "bf16"})"};

}  // namespace

TEST_CASE("Offloaded states and weights train to the same bits") {
  for (const char* type : kTypes)
    for (const Layout& l : layouts()) {
      const RunResult plain = trained(plan_of(l, "{}", type), tests::run_options());
      for (const std::string& offload : offloads(l)) {
        INFO(type << " " << l.parallel << " " << offload);
        check_equal(trained(plan_of(l, offload, type), tests::run_options()), plain);
      }
    }
}

TEST_CASE("Offloaded states and weights train to the same bits on queues that are delayed at random") {
  for (const Layout& l : layouts()) {
    const char* type = R"({"precision": "bf16"})";
    const RunResult plain = trained(plan_of(l, "{}", type), {});
    for (const std::string& offload : offloads(l))
      for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
        INFO(l.parallel << " " << offload << " seed " << seed);
        check_equal(trained(plan_of(l, offload, type), tests::delayed_options(seed)), plain);
      }
  }
}

TEST_CASE("Without the waits for copies, or of copies, delayed queues give other bits") {
  const Layout& l = layouts().back();
  const Plan plan = plan_of(l, offloads(l).back(), kTypes[0]);
  const TaskGraph graph = lower(plan);
  const auto run = [&](const TaskGraph& g, std::uint64_t seed) {
    exec::RunOptions options = tests::delayed_options(seed);
    options.steps = kSteps;
    options.gather_weights = true;
    return exec::run(plan, g, HashTokens(plan.model.vocab_size), options);
  };
  const RunResult expected = run(graph, 0);
  for (const bool of_copies : {false, true}) {
    INFO("of copies " << of_copies);
    const TaskGraph broken = without_waits(graph, of_copies);
    bool shown = false;
    for (std::uint64_t seed = 1; seed <= 20 && !shown; ++seed) shown = !same_weights(run(broken, seed), expected);
    CHECK(shown);
  }
}

TEST_CASE("An update that is left out leaves offloaded weights as they are") {
  const char* type = R"({"precision": "fp16", "loss_scale": {"initial": 1267650600228229401496703205376}})";
  const Layout& l = layouts().back();
  const RunResult plain = trained(plan_of(l, "{}", type), tests::run_options());
  const RunResult offloaded = trained(plan_of(l, offloads(l).back(), type), tests::run_options());
  REQUIRE(plain.steps.front().skipped());
  REQUIRE(offloaded.weights.size() == plain.weights.size());
  for (std::size_t t = 0; t < plain.weights.size(); ++t) CHECK(offloaded.weights[t].values == plain.weights[t].values);
}

TEST_CASE("What is offloaded is in the host's arena and not in the device's") {
  const char* type = R"({"precision": "fp32"})";
  for (const Layout& l : layouts())
    for (const std::string& offload : offloads(l)) {
      INFO(l.parallel << " " << offload);
      const Plan plan = plan_of(l, offload, type);
      const Memories planned = memories(lower(plan)), plain = memories(lower(plan_of(l, "{}", type)));
      Memories taken;
      for (const exec::RankBooks& rank : trained(plan, tests::run_options()).ranks) {
        taken.host = std::max(taken.host, rank.host_arena_bytes);
        taken.arena = std::max(taken.arena, rank.arena_bytes);
        if (!tests::tests_asynchronous()) CHECK(rank.backend.peak_bytes == rank.arena_bytes);
      }
      CHECK(taken.host == planned.host);
      CHECK(taken.arena == planned.arena);
      CHECK(planned.host > 0);
      CHECK(plain.host == 0);
      CHECK(planned.arena < plain.arena);
    }
}

TEST_CASE("A timeline has every copy to and from the host") {
  const Layout& l = layouts().back();
  const Plan plan = plan_of(l, offloads(l).back(), R"({"precision": "fp32"})");
  const TaskGraph graph = lower(plan);
  exec::RunOptions options = tests::run_options();
  options.steps = 2;
  options.timeline_step = 1;
  const RunResult run = exec::run(plan, graph, HashTokens(plan.model.vocab_size), options);
  for (const Lane& lane : run.timeline->lanes) {
    std::size_t copies = 0;
    const Program& program = graph.program(StageId(lane.coords[Axis::pp]));
    for (const Span& s : lane.spans) {
      if (!std::holds_alternative<HostCopy>(graph.of(program.instances[s.instance]).tasks[s.task].op)) continue;
      ++copies;
      CHECK(s.ended >= s.started);
      CHECK(s.started >= s.issued);
    }
    CHECK(copies > 0);
    CHECK(lane.spans.size() == static_cast<std::size_t>(graph.tasks(program.stage)));
  }
}

TEST_CASE("A run with offloaded states goes on from a saved state, with and without offloading") {
  for (const char* type : kTypes)
    for (const Layout& l : {layouts()[3], layouts().back()}) {
      const RunResult whole = trained(plan_of(l, "{}", type), tests::run_options());
      for (const std::string& offload : offloads(l)) {
        INFO(type << " " << l.parallel << " " << offload);
        const Plan plan = plan_of(l, offload, type);
        const tests::TemporaryFolder folder;
        const std::string path = (folder.path() / "run").string();
        exec::World world;
        const auto keeper = exec::make_file_keeper(exec::test::always(path, {to_json(plan), 0}), world);
        exec::RunOptions first = tests::run_options();
        first.steps = kSteps;
        first.state_every = 2;
        first.keeper = keeper.get();
        exec::run(plan, lower(plan), HashTokens(plan.model.vocab_size), first);
        const exec::Checkpoint saved = exec::load_checkpoint(path + "/step-00000002");
        for (const std::string& then : {offload, std::string("{}")}) {
          exec::RunOptions options = tests::run_options();
          options.resume = saved.state.get();
          const RunResult rest = trained(plan_of(l, then, type), options);
          CHECK(rest.steps.back().loss == whole.steps.back().loss);
          REQUIRE(rest.weights.size() == whole.weights.size());
          for (std::size_t t = 0; t < whole.weights.size(); ++t) CHECK(rest.weights[t].values == whole.weights[t].values);
        }
      }
    }
}
