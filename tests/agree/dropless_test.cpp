// Dropless experts on several ranks: how many rows a rank gets is known only when tokens have chosen. The graph plans an even
// share of products and a bound of room; the runtime follows the real numbers and says when the room is too small; a simulation
// follows them too where a run has left them.

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "reports/timeline/run_routing.hpp"
#include "reports/timeline/saved_timeline.hpp"
#include "sim/result/simulate.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/agree/ledger.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "tests/exec/communicator/on_ranks.hpp"
#include "tests/exec/process/mail_carrier.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

constexpr int kMicroBatches = 8, kMicroBatch = 2;

struct Layout {
  int tensor = 1, pipeline = 1, data = 1, expert = 1, zero_stage = 0;
  double rows_bound = 4;
  std::string schedule = "1f1b";
  std::string dispatcher = "alltoall";
};

Plan plan_of(const Layout& l) {
  const json moe = {{"num_experts", 4}, {"experts_per_token", 2}, {"ffn_hidden_size", 16}, {"layer_frequency", 2},
                    {"aux_loss", 0.01}, {"rows_bound", l.rows_bound}};
  const json plan = {
      {"model",
       {{"family", "llama"}, {"num_layers", 4}, {"hidden_size", 24}, {"num_attention_heads", 4}, {"num_kv_heads", 2},
        {"ffn_hidden_size", 40}, {"vocab_size", 37}, {"pad_vocab_to", 16}, {"moe", moe}}},
      {"parallel",
       {{"tensor", l.tensor}, {"pipeline", l.pipeline}, {"data", l.data}, {"expert", l.expert}, {"zero_stage", l.zero_stage},
        {"sequence_parallel", l.tensor > 1}, {"schedule", l.schedule}, {"token_dispatcher", l.dispatcher}}},
      {"training",
       {{"seq_length", 8}, {"micro_batch_size", kMicroBatch}, {"global_batch_size", kMicroBatches * kMicroBatch},
        {"precision", "fp64"}, {"dropout", {{"hidden", 0.1}, {"attention", 0.1}}}, {"clip_grad", 0.5}}},
      {"cluster", {{"preset", "cpu-host"}, {"devices", l.tensor * l.pipeline * l.data}}}};
  return parse_plan(plan.dump(), "dropless.json");
}

exec::RunResult run(const Plan& plan) {
  const TaskGraph graph = lower(plan);
  graph.check();
  exec::RunOptions options = tests::run_options();
  options.steps = 2;
  options.gather_gradients = options.gather_weights = true;
  return exec::run(plan, graph, tests::HashTokens(plan.model.vocab_size), options);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]), norm += b[i] * b[i];
  return std::sqrt(sum) / std::max(std::sqrt(norm), 1e-4);
}

}  // namespace

TEST_CASE("dropless experts on several ranks train like one rank", "[emulated]") {
  const exec::RunResult one = run(plan_of({}));
  for (const Layout& l : {Layout{1, 1, 2, 2, 0}, Layout{1, 1, 4, 4, 3}, Layout{2, 2, 2, 2, 1, 4, "zb-h1"}, Layout{2, 1, 4, 2, 2},
                          Layout{2, 1, 1, 1, 0}, Layout{4, 1, 1, 1, 0}, Layout{4, 1, 2, 2, 3}, Layout{1, 1, 2, 2, 0, 4, "1f1b", "allgather"},
                          Layout{1, 1, 4, 4, 3, 4, "1f1b", "allgather"}, Layout{2, 2, 2, 2, 1, 4, "zb-h1", "allgather"},
                          Layout{2, 1, 4, 2, 2, 4, "1f1b", "allgather"}, Layout{4, 1, 1, 1, 0, 4, "1f1b", "allgather"},
                          Layout{4, 1, 2, 2, 3, 4, "1f1b", "allgather"}}) {
    INFO(l.dispatcher << "tp" << l.tensor << " pp" << l.pipeline << " dp" << l.data << " ep" << l.expert << " zero " << l.zero_stage);
    const exec::RunResult many = run(plan_of(l));
    for (std::size_t s = 0; s < one.steps.size(); ++s) {
      CHECK(std::abs(many.steps[s].loss / one.steps[s].loss - 1) <= 1e-12);
      for (std::size_t t = 0; t < one.gradients[s].size(); ++t) {
        INFO(one.gradients[s][t].name);
        CHECK(distance(many.gradients[s][t].values, one.gradients[s][t].values) <= 1e-12);
      }
    }
  }
}

TEST_CASE("what the experts of all ranks multiply together is what was planned for them") {
  const Plan plan = plan_of({1, 1, 4, 4, 0});
  const TaskGraph graph = lower(plan);
  const exec::RunResult result = exec::run(plan, graph, tests::HashTokens(plan.model.vocab_size), tests::run_options());
  std::int64_t done = 0, uneven = 0;
  for (const exec::RankBooks& b : result.ranks) {
    done += b.backend.gemm_flops;
    uneven += b.backend.gemm_flops != result.ranks.front().backend.gemm_flops;
  }
  CHECK(uneven > 0);  // else the test would not see unequal numbers at all
  CHECK(done == 4 * count(graph, StageId(0)).matrix.count());
}

TEST_CASE("with the routing that a step left every rank's FLOPs and received bytes are simulated exactly", "[emulated]") {
  for (const Layout& l : {Layout{1, 1, 2, 2, 0}, Layout{1, 1, 4, 4, 3}, Layout{1, 1, 4, 2, 1}, Layout{2, 2, 2, 2, 1, 4, "zb-h1"},
                          Layout{2, 1, 4, 2, 2}, Layout{1, 2, 4, 4, 0, 4, "gpipe"}, Layout{4, 1, 2, 2, 0},
                          Layout{1, 1, 4, 4, 3, 4, "1f1b", "allgather"}, Layout{2, 1, 4, 2, 2, 4, "1f1b", "allgather"},
                          Layout{2, 2, 2, 2, 1, 4, "zb-h1", "allgather"}}) {
    INFO(l.dispatcher << "tp" << l.tensor << " pp" << l.pipeline << " dp" << l.data << " ep" << l.expert << " zero " << l.zero_stage);
    const Plan plan = plan_of(l);
    CHECK(tests::check_replayed_books(plan, lower(plan)) > 0);  // else the test would not see unequal numbers at all
  }
}

namespace {

/// An executed step with its timeline.
exec::RunResult recorded(const Plan& plan, const TaskGraph& graph) {
  exec::RunOptions options = tests::run_options();
  options.timeline_step = 0;
  return exec::run(plan, graph, tests::HashTokens(plan.model.vocab_size), options);
}

/// Tokens of a micro-batch that one rank routes.
std::int32_t routed(const Plan& plan) {
  return static_cast<std::int32_t>(plan.micro_batch_tokens() / (plan.parallel.sequence_parallel ? plan.parallel.tensor : 1));
}

/// A routing in which every token of every rank chooses the experts of `favoured`, two of the four.
Routing lopsided(const Plan& plan, std::int32_t favoured) {
  std::vector<RouterCounts> all;
  const std::int32_t tokens = routed(plan);
  for (std::int32_t layer = 0; layer < 4; ++layer)
    for (std::int32_t m = 0; m < plan.micro_batches(); ++m) {
      std::vector<std::int32_t> counts(4, 0);
      counts[static_cast<std::size_t>(favoured)] = counts[static_cast<std::size_t>(favoured + 1)] = tokens;
      all.push_back({layer, m, counts});
    }
  return {make_mesh(plan), std::vector(static_cast<std::size_t>(plan.world_size()), all)};
}
Routing even(const Plan& plan) {
  std::vector<RouterCounts> all;
  const std::int32_t share = routed(plan) / 2;
  for (std::int32_t layer = 0; layer < 4; ++layer)
    for (std::int32_t m = 0; m < plan.micro_batches(); ++m) all.push_back({layer, m, {share, share, share, share}});
  return {make_mesh(plan), std::vector(static_cast<std::size_t>(plan.world_size()), all)};
}

Prediction simulated(const Plan& plan, const Routing* routing) {
  sim::SimulateOptions options;
  options.timeline = true;
  options.routing = routing;
  return sim::simulate(plan, lower(plan), *make_topology(plan.cluster), options);
}

/// A larger plan, on devices with links between them.
Plan on_accelerators(const Layout& l) {
  json plan = json::parse(to_json(plan_of(l)));
  plan["cluster"] = {{"preset", "dgx-a100-80gb"}, {"devices", l.tensor * l.pipeline * l.data}};
  plan["training"].erase("dtypes");
  plan["training"]["precision"] = "bf16";
  plan["training"]["seq_length"] = 2048;
  plan["model"]["hidden_size"] = 1024;
  plan["model"]["head_dim"] = 256;
  plan["model"]["max_position_embeddings"] = 2048;
  plan["model"]["moe"]["ffn_hidden_size"] = 4096;
  return parse_plan(plan.dump(), "dropless.json");
}

}  // namespace

TEST_CASE("an even routing is simulated like no routing, to the picosecond") {
  for (const Layout& l : {Layout{1, 1, 4, 4, 0}, Layout{2, 2, 2, 2, 1}}) {
    const Plan plan = on_accelerators(l);
    const Routing routing = even(plan);
    const Prediction with = simulated(plan, &routing), without = simulated(plan, nullptr);
    CHECK(with.step_time == without.step_time);
    CHECK(with.roles.size() == without.roles.size());
  }
}

TEST_CASE("ranks whose experts nobody chooses wait for those that everybody chooses") {
  const Plan plan = on_accelerators({1, 1, 2, 2, 0});
  const Routing first = lopsided(plan, 0), last = lopsided(plan, 2), balanced = even(plan);
  const Prediction all_first = simulated(plan, &first), all_last = simulated(plan, &last);
  CHECK(all_first.roles.size() == 2);  // unlike ranks are not one role
  CHECK(simulated(plan, &balanced).roles.size() == 1);
  CHECK(all_first.step_time == all_last.step_time);
  CHECK(all_first.step_time > simulated(plan, &balanced).step_time);
}

TEST_CASE("a run's timeline file holds its routing, which a simulation of the same plan can read") {
  const std::string path = (std::filesystem::temp_directory_path() / "tandem-routing.json").string();
  const Plan plan = plan_of({1, 2, 4, 4, 0});
  const TaskGraph graph = lower(plan);
  const exec::RunResult run = recorded(plan, graph);
  const Routing routing = routing_of(*run.timeline, make_mesh(plan));
  save_timeline(*run.timeline, graph, path, &routing);
  const auto flops = [](const SavedTimeline& t) {
    std::vector<std::int64_t> of_lanes;
    for (const SavedLane& lane : t.lanes) {
      of_lanes.push_back(0);
      for (const SavedSpan& s : lane.spans) of_lanes.back() += t.tasks[s.task].flops.count();
    }
    return of_lanes;
  };
  std::vector<std::int64_t> counted;
  for (const exec::RankBooks& b : run.ranks) counted.push_back(b.backend.gemm_flops);
  CHECK(flops(read_timeline(path)) == counted);
  const Routing read = read_routing(path, plan);
  for (std::int32_t r = 0; r < plan.world_size(); ++r) CHECK(read.work_of(Rank(r)).size() == 2 * routing.work_of(Rank(r)).size());
  // Another pipeline, the same ranks otherwise: layers move to other stages, their tokens stay.
  const Plan deeper = plan_of({1, 1, 4, 4, 3});
  const Routing moved = read_routing(path, deeper);
  sim::SimulateOptions options;
  options.routing = &moved;
  const Prediction p = sim::simulate(deeper, lower(deeper), *make_topology(deeper.cluster), options);
  CHECK(p.step_time > Duration{});
  std::filesystem::remove(path);
}

TEST_CASE("a run of another model, batch or layout is refused by field, and so is one without routing") {
  const std::string path = (std::filesystem::temp_directory_path() / "tandem-routing-refused.json").string();
  const Plan plan = plan_of({1, 1, 4, 4, 0});
  const TaskGraph graph = lower(plan);
  const exec::RunResult run = recorded(plan, graph);
  save_timeline(*run.timeline, graph, path);
  const auto fields = [&](const Plan& other) {
    std::vector<std::string> all;
    try {
      read_routing(path, other);
    } catch (const ConfigError& e) {
      for (const Problem& p : e.problems()) all.push_back(p.field);
    }
    return all;
  };
  CHECK(fields(plan).empty());
  CHECK(fields(plan_of({1, 1, 4, 2, 0})) == std::vector<std::string>{"parallel.expert"});
  CHECK(fields(plan_of({2, 1, 4, 4, 0})) == std::vector<std::string>{"parallel.tensor", "parallel.sequence_parallel"});
  CHECK(fields(plan_of({1, 1, 4, 1, 0})) == std::vector<std::string>{"parallel.expert"});  // nothing depends on it
  Plan wider = plan;
  wider.model.ffn_hidden_size = 48;
  wider.training.seq_length = 16;
  CHECK(fields(wider) == std::vector<std::string>{"model.ffn_hidden_size", "training.seq_length"});
  const Prediction p = simulated(plan, nullptr);
  save_timeline(*p.timeline, graph, path);
  CHECK(fields(plan) == std::vector<std::string>{"lanes.routing"});
  Timeline damaged = *run.timeline;
  damaged.lanes[1].routing.pop_back();
  save_timeline(damaged, graph, path);
  CHECK(fields(plan) == std::vector<std::string>{"lanes.routing"});
  std::filesystem::remove(path);
}

TEST_CASE("more rows than planned for are an error that names the bound, the same in every run") {
  // One thread moves a small exchange for all ranks; of a large one each rank moves its share, and one of them fails alone.
  for (const std::int64_t seq_length : {0, 512}) {
    Plan plan = plan_of({1, 1, 2, 2, 0, 1.0});
    if (seq_length > 0) plan.training.seq_length = seq_length;
    CAPTURE(plan.training.seq_length);
    const auto refusal = [&]() -> std::string {
      try {
        run(plan);
      } catch (const DeviceError& e) {
        return e.what();
      }
      return "";
    };
    const std::string message = refusal();
    CHECK_THAT(message, Catch::Contains("failed in step 0: dropless.json: model.moe.rows_bound = 1.0: the step needs at least "));
    CHECK_THAT(message, Catch::EndsWith("; 2 (the number of expert ranks) never fails"));
    for (int again = 0; again < 3; ++again) CHECK(refusal() == message);
    const std::string at_least = "at least ";
    const double needed = std::stod(message.substr(message.find(at_least) + at_least.size()));
    CHECK((1 < needed && needed <= 2));
    plan.model.moe.rows_bound = 2;
    CHECK_NOTHROW(run(plan));
  }
}

namespace {

/// Has no memory to save anything.
class FullKeeper final : public exec::StateKeeper {
 public:
  void keep(const exec::StateMoment&) override { throw std::bad_alloc(); }
};

/// A plan whose experts get too many rows in a step behind the first.
Plan failing_later() {
  for (double bound = 1.05; bound < 2; bound += 0.05) {
    const Plan plan = plan_of({1, 1, 2, 2, 0, bound});
    exec::RunOptions options = tests::run_options();
    options.steps = 20;
    try {
      exec::run(plan, lower(plan), tests::HashTokens(plan.model.vocab_size), options);
    } catch (const DeviceError& e) {
      if (std::string(e.what()).find("failed in step 0:") == std::string::npos) return plan;
    }
  }
  throw ContractError("no such bound");
}

/// What each of so many processes ends with, if none can save its state.
std::vector<std::string> ends_unsaved(const Plan& plan, int processes) {
  const auto ways = exec::tests::make_ways(processes);
  std::vector<std::string> ends(static_cast<std::size_t>(processes));
  exec::tests::on_ranks(processes, [&](int p) {
    exec::World world = processes > 1 ? exec::World(std::make_unique<exec::tests::MailCarrier>(ways, p), {}) : exec::World();
    if (processes > 1) world.place(make_mesh(plan).world_size());
    FullKeeper keeper;
    exec::RunOptions options = tests::run_options();
    options.steps = 20;
    options.keeper = &keeper;
    GraphCache graphs(plan);
    try {
      exec::run(graphs, tests::HashTokens(plan.model.vocab_size), options, world);
    } catch (const DeviceError& e) {
      ends[static_cast<std::size_t>(p)] = e.what();
    } catch (const std::bad_alloc&) {
      ends[static_cast<std::size_t>(p)] = "no memory";
    }
    world.leave(7);
  });
  return ends;
}

}  // namespace

TEST_CASE("Too many rows are told though the state behind them cannot be saved, in each process") {
  const Plan plan = failing_later();
  for (const int processes : {1, 2})
    for (const std::string& end : ends_unsaved(plan, processes)) {
      CHECK_THAT(end, Catch::Contains(": the step needs at least "));
      CHECK_THAT(end, Catch::EndsWith("; the last step could not be saved: the host has no memory left"));
    }
}
