// Trainings that are cut, kept in a file and taken up again: against the same training in one piece.

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "exec/checkpoint/file_keeper.hpp"
#include "exec/checkpoint/folder.hpp"
#include "exec/checkpoint/resumable.hpp"
#include "exec/run/run.hpp"
#include "models/base/error.hpp"
#include "models/base/fnv.hpp"
#include "tests/patched_plan.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "tests/exec/cpu/numbers.hpp"
#include "tests/exec/state/cut_training.hpp"
#include "tests/exec/state/kept_files.hpp"
#include "tests/exec/state/whole_state.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::exec;
using test::always;
using test::Cut;
using test::MemoryKeeper;
using test::Numbers;
using test::problem_of;
using test::train;
using test::whole_of;
using test::WholeState;
using test::WholeTensor;
using tests::patched_plan;
using tests::SmallPlan;

namespace {

/// A file that is gone when the test ends.
class CheckpointFile {
 public:
  /// The file's name has the process id, because tests run in parallel.
  explicit CheckpointFile(const std::string& name) : path_("exec_checkpoint_test_" + name + std::to_string(getpid()) + ".safetensors") {}
  ~CheckpointFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }
  std::string bytes() const {
    std::ostringstream out;
    out << std::ifstream(path_, std::ios::binary).rdbuf();
    return out.str();
  }
  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }

 private:
  std::string path_;
};

/// The file, or the folder, of the first state that is kept.
void train_into(const std::string& path, const Plan& plan, const Cut& cut, const SavedRun& run) {
  World world;
  KeeperOptions options = always(path, run);
  options.wanted = [first = true]() mutable { return std::exchange(first, false); };
  const auto keeper = make_file_keeper(options, world);
  train(plan, cut, keeper.get());
}

/// Both forms of a checkpoint.
const std::string kForms[] = {"folder", "one.safetensors"};

using Tensors = std::vector<GatheredTensor>;

void check_equal(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t t = 0; t < a.size(); ++t) {
    INFO(a[t].name);
    CHECK(a[t].name == b[t].name);
    CHECK(a[t].values == b[t].values);
  }
}

void check_equal(const WholeState& a, const WholeState& b) {
  CHECK(a.steps() == b.steps());
  CHECK(a.facts().samples == b.facts().samples);
  REQUIRE(a.all().size() == b.all().size());
  for (std::size_t t = 0; t < a.all().size(); ++t) {
    const WholeTensor &x = a.all()[t], &y = b.all()[t];
    INFO(x.is.buffer << "." << x.is.name);
    CHECK(x.is.buffer == y.is.buffer);
    CHECK(x.is.name == y.is.name);
    CHECK(x.is.type == y.is.type);
    CHECK(x.values == y.values);
  }
}

struct Layout {
  int tensor, pipeline, data;
  const char* patch;
};

Plan plan_of(const Layout& l) {
  SmallPlan p;
  p.tensor = l.tensor, p.pipeline = l.pipeline, p.data = l.data;
  p.micro_batches = 12 / p.micro_batch / p.data;
  auto patch = nlohmann::json::parse(R"({"training": {"warmup": 2, "learning_rate": 0.01, "learning_rate_decay": "cosine"}})");
  patch.merge_patch(nlohmann::json::parse(l.patch));
  return patched_plan(p, patch.dump());
}

}  // namespace

TEST_CASE("A training that is cut and resumed from its file is the one that was not, bit for bit", "[tsan]") {
  const auto l = GENERATE(values<Layout>({
      {1, 1, 1, R"({"training": {"precision": "fp32"}})"},
      {1, 4, 1, R"({"training": {"recompute": "full"}, "parallel": {"schedule": "zb-h1"}})"},
      {2, 2, 2, R"({"parallel": {"zero_stage": 1, "overlap_param_gather": true, "sequence_parallel": true}})"},
      {1, 2, 2, R"({"parallel": {"zero_stage": 3}, "model": {"tie_embeddings": false}})"},
      {1, 2, 1, R"({"parallel": {"virtual_pipeline": 2, "schedule": "interleaved"}, "training": {"optimizer": "lans"}})"},
      {1, 2, 1, R"({"parallel": {"schedule": "dualpipe-v"}})"},
      {2, 1, 2, R"({"parallel": {"zero_stage": 2}, "training": {"optimizer": "lamb"}})"},
      {1, 2, 1, R"({"training": {"optimizer": "sgd", "momentum": 0.9}})"},
      {1, 2, 2, R"({"training": {"optimizer": "muon"}, "model": {"num_kv_heads": 2, "activation": "swiglu"}})"},
      {1, 2, 3, R"({"training": {"optimizer": "muon"}, "parallel": {"zero_stage": 1}, "model": {"num_kv_heads": 2, "activation": "swiglu"}})"},
      {2, 1, 1, R"({"training": {"optimizer": "muon", "momentum": 0.9, "muon": {"nesterov": false}}, "model": {"moe": {"num_experts": 4}}})"},
      {1, 1, 2, R"({"model": {"family": "bert", "token_types": 2}})"},
      {1, 2, 1, R"({"model": {"family": "t5", "num_layers": 2, "num_decoder_layers": 3}, "training": {"decoder_seq_length": 4}})"},
      {1, 1, 2, R"({"model": {"moe": {"num_experts": 4, "capacity_factor": 2}}, "parallel": {"expert": 2}})"},
      {1, 1, 1, R"({"training": {"batch_rampup": {"start": 4, "increment": 4, "samples": 16}}})"},
      {1, 2, 2, R"({"parallel": {"zero_stage": 1}, "training": {"fusion": "internevo"}})"},
  }));
  INFO(l.patch);
  const Plan plan = plan_of(l);
  const auto [whole, states] = train(plan, {6, 4});
  REQUIRE(states.size() == 2);
  REQUIRE(states[0].steps() == 4);
  const tests::TemporaryFolder folder;
  const std::string path = (folder.path() / kForms[GENERATE(0, 1)]).string();
  train_into(path, plan, {6, 4}, {to_json(plan), 5});
  const Checkpoint kept = load_checkpoint(path);
  CHECK(kept.run.data == 5);
  require_resumable(kept, plan);
  check_equal(whole_of(*kept.state), states[0]);
  const auto [rest, ends] = train(plan, {6, 0, kept.state.get()});
  REQUIRE(rest.steps.size() == 2);
  for (std::size_t s = 0; s < 2; ++s) {
    CHECK(rest.steps[s].step == static_cast<std::int64_t>(4 + s));
    CHECK(rest.steps[s].loss == whole.steps[4 + s].loss);
    CHECK(rest.steps[s].grad_norm == whole.steps[4 + s].grad_norm);
    CHECK(rest.steps[s].learning_rate == whole.steps[4 + s].learning_rate);
    check_equal(rest.gradients[s], whole.gradients[4 + s]);
  }
  check_equal(rest.weights, whole.weights);
  REQUIRE(ends.size() == 1);
  check_equal(ends[0], states[1]);
}

TEST_CASE("A state goes on under any other layout", "[host]") {
  const auto model = GENERATE(values<std::string>({"{}", R"({"model": {"tie_embeddings": false, "num_kv_heads": 2, "activation": "swiglu"}})",
                                                   R"({"model": {"moe": {"num_experts": 4}}})"}));
  const bool experts = model.find("moe") != std::string::npos;
  const auto l = GENERATE(values<Layout>({
      {1, 1, 1, "{}"},
      {4, 1, 1, R"({"model": {"pad_vocab_to": 64}})"},
      {1, 4, 1, R"({"parallel": {"schedule": "zb-h1"}})"},
      {1, 2, 1, R"({"parallel": {"schedule": "dualpipe-v"}})"},
      {2, 1, 3, R"({"parallel": {"zero_stage": 3}})"},
      {1, 2, 2, R"({"parallel": {"zero_stage": 1}})"},
      {1, 1, 2, R"({"parallel": {"context": 3}, "cluster": {"devices": 6}})"},
  }));
  INFO(l.patch << " " << model);
  const auto with_model = [&](Layout layout, const char* more) {
    auto patch = nlohmann::json::parse(layout.patch);
    patch.merge_patch(nlohmann::json::parse(model));
    patch.merge_patch(nlohmann::json::parse(more));
    if (experts && layout.data == 2) patch["parallel"]["expert"] = 2;
    return plan_of({layout.tensor, layout.pipeline, layout.data, patch.dump().c_str()});
  };
  const char* quiet = R"({"training": {"dropout": {"hidden": 0, "attention": 0}}})";
  const Layout first{2, 2, 2, R"({"parallel": {"zero_stage": 1}})"};
  const auto [whole, states] = train(with_model(first, quiet), {5, 3});
  const Plan other = with_model(l, quiet);
  const tests::TemporaryFolder folder;
  const std::string path = (folder.path() / kForms[GENERATE(0, 1)]).string();
  train_into(path, with_model(first, quiet), {5, 3}, {to_json(with_model(first, quiet)), 0});
  const Checkpoint saved = load_checkpoint(path);
  require_resumable(saved, other);
  const WholeState kept = whole_of(*saved.state);
  check_equal(kept, states[0]);
  const RunResult rest = train(other, {5, 0, saved.state.get()}).first;
  for (std::size_t s = 0; s < 2; ++s)  // fp64: sums in another order, through two updates
    CHECK(std::abs(rest.steps[s].loss - whole.steps[3 + s].loss) <= 1e-10 * whole.steps[3 + s].loss);
  // Where nothing is learned, what was kept is what is kept.
  const Plan still = with_model(l, R"({"training": {"learning_rate": 0, "dropout": {"hidden": 0, "attention": 0}}})");
  const WholeState end = train(still, {4, 0, saved.state.get()}).second.front();
  REQUIRE(end.all().size() == kept.all().size());
  for (std::size_t t = 0; t < kept.all().size(); ++t) {
    if (kept.all()[t].is.buffer != "weights") continue;
    INFO(kept.all()[t].is.name);
    REQUIRE(kept.all()[t].is.name == end.all()[t].is.name);
    CHECK(kept.all()[t].values == end.all()[t].values);
  }
}

// Six data ranks with a micro-batch each add gradients in the order of one rank with six, so no bit may differ.

TEST_CASE("States of Muon's owners go on under other numbers of data ranks and stages, bit for bit", "[host]") {
  const auto model = GENERATE(values<std::string>({R"({"model": {"num_kv_heads": 2, "activation": "swiglu"}})",
                                                   R"({"model": {"moe": {"num_experts": 4}}})"}));
  const auto muon = [&](int pipeline, int data, int zero) {
    nlohmann::json patch = {{"training", {{"optimizer", "muon"}}}, {"parallel", {{"zero_stage", zero}}}};
    patch.merge_patch(nlohmann::json::parse(model));
    return plan_of({1, pipeline, data, patch.dump().c_str()});
  };
  const Plan first = muon(2, 6, 1);
  const auto [whole, states] = train(first, {5, 3});
  const tests::TemporaryFolder folder;
  const std::string path = (folder.path() / kForms[0]).string();
  train_into(path, first, {5, 3}, {to_json(first), 0});
  const Checkpoint saved = load_checkpoint(path);
  check_equal(whole_of(*saved.state), states[0]);
  for (const Plan& other : {muon(1, 1, 0), muon(2, 1, 1), muon(1, 6, 1), muon(4, 6, 0)}) {
    INFO("data ranks: " << other.parallel.data);
    const auto [rest, ends] = train(other, {5, 0, saved.state.get()});
    check_equal(rest.weights, whole.weights);
    check_equal(ends.front(), states[1]);
  }
}

TEST_CASE("A file that is cut short, longer or has any bit turned over is refused by name", "[host]") {
  const Plan plan = SmallPlan{}.plan();
  const CheckpointFile file("damaged");
  train_into(file.path(), plan, {1}, {to_json(plan), 0});
  const std::string whole = file.bytes();
  const auto refused = [&](const std::string& bytes) {
    file.put(bytes);
    return problem_of([&] { load_checkpoint(file.path()); }).find(file.path()) != std::string::npos;
  };
  CHECK_FALSE(refused(whole));
  for (std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{9}, std::size_t{40}, whole.size() / 2, whole.size() - 1}) {
    INFO(n << " bytes");
    CHECK(refused(whole.substr(0, n)));
  }
  CHECK(refused(whole + "x"));
  CHECK(refused("{}"));
  CHECK(refused(std::string(100, '\0')));
  for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 97) {
    std::string turned = whole;
    turned[at] = static_cast<char>(turned[at] ^ (1 << (at % 8)));
    INFO("byte " << at);
    CHECK(refused(turned));
  }
}

TEST_CASE("A file whose checksum is right but whose header lies is refused", "[host]") {
  const CheckpointFile file("lies");
  const auto refused = [&](const std::string& header, const std::string& data) {
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(header.size() & 0xFF), bytes[1] = static_cast<char>(header.size() >> 8);
    bytes += header + data;
    std::uint64_t sum = fnv1a(bytes);
    for (int i = 0; i < 8; ++i, sum >>= 8) bytes += static_cast<char>(sum & 0xFF);
    file.put(bytes);
    return problem_of([&] { load_checkpoint(file.path()); });
  };
  const auto header = [](const std::string& tensor, const std::string& steps = "\"1\"") {
    return R"({"__metadata__": {"format": "tandem checkpoint", "schema_version": "1", "steps": )" + steps +
           R"(, "samples": "2", "data": "0", "plan": "{}"}, "a": )" + tensor + "}";
  };
  CHECK(refused(header(R"({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]})"), "1234").empty());
  CHECK_FALSE(refused(header(R"({"dtype": "I32", "shape": [1], "data_offsets": [0, 4]})"), "1234").empty());
  CHECK_FALSE(refused(header(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]})"), "1234").empty());
  CHECK_FALSE(refused(header(R"({"dtype": "F32", "shape": [1], "data_offsets": [400, 404]})"), "1234").empty());
  CHECK_FALSE(refused(header(R"({"dtype": "F32", "shape": [1], "data_offsets": [4, 0]})"), "1234").empty());
  CHECK_FALSE(refused(header(R"({"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]})"), "1234").empty());
  CHECK_FALSE(refused(header(R"({"dtype": "F32", "shape": [4611686018427387905, 4], "data_offsets": [0, 4]})"), "1234").empty());
  CHECK_FALSE(refused(header(R"({"dtype": "F32"})"), "1234").empty());
  CHECK_FALSE(refused(header("7"), "1234").empty());
  for (const char* steps : {"\"-1\"", "\"x\"", "1", "\"99999999999999999999\""})
    CHECK_FALSE(refused(header(R"({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]})", steps), "1234").empty());
  CHECK_FALSE(refused("{}", "1234").empty());
}

TEST_CASE("A run that goes on with another batch does what a ramp-up to that batch does, bit for bit", "[host]") {
  const auto plan_of_batch = [](const char* patch) { return plan_of({1, 2, 2, patch}); };
  const Plan six = plan_of_batch(R"({"training": {"global_batch_size": 8}})"),
             twelve = plan_of_batch(R"({"training": {"global_batch_size": 16}})"),
             ramp = plan_of_batch(R"({"training": {"global_batch_size": 16, "batch_rampup": {"start": 8, "increment": 8, "samples": 24}}})");
  const tests::TemporaryFolder folder;
  const std::string path = (folder.path() / "kept.safetensors").string();
  train_into(path, six, {3, 3}, {to_json(six), 0});
  const Checkpoint kept = load_checkpoint(path);
  require_resumable(kept, twelve);
  const std::vector<std::string> changed = changed_hyper_parameters(kept, twelve);
  REQUIRE(changed.size() == 1);
  CHECK(changed.front().find("training.global_batch_size from 8 to 16") == 0);
  const RunResult rest = train(twelve, {5, 0, kept.state.get()}).first, whole = train(ramp, {5}).first;
  REQUIRE(rest.steps.size() == 2);
  for (std::size_t s = 0; s < 2; ++s) {
    CHECK(whole.steps[3 + s].global_batch_size == 16);
    CHECK(rest.steps[s].global_batch_size == 16);
    CHECK(rest.steps[s].loss == whole.steps[3 + s].loss);
  }
  check_equal(rest.weights, whole.weights);
}

TEST_CASE("What of the text was held out is kept, and a share that is none is refused") {
  const Plan plan = SmallPlan{}.plan();
  const std::string form = kForms[GENERATE(0, 1)];
  const auto saved = [&](const std::optional<double>& share) {
    const tests::TemporaryFolder folder;
    const std::string path = (folder.path() / form).string();
    train_into(path, plan, {1}, {to_json(plan), 0, share});
    return load_checkpoint(path).run.held_out;
  };
  CHECK_FALSE(saved(std::nullopt).has_value());
  for (const double share : {0.0, 0.1, 0.125}) CHECK(saved(share) == share);
  const double none = GENERATE(1.0, -0.1, std::nan(""));
  CHECK(problem_of([&] { saved(none); }).find("held_out") != std::string::npos);
}

TEST_CASE("A state that the host has no memory for, or no room on the disk, is told, and the run goes on") {
  const Plan plan = SmallPlan{}.plan();
  const tests::TemporaryFolder folder;
  const std::string form = kForms[GENERATE(0, 1)], path = (folder.path() / "a" / form).string();
  World world;
  std::vector<std::int64_t> kept;
  int lost = 0;
  KeeperOptions options = always(path, {to_json(plan), 0});
  options.wanted = [&] {  // behind the first step the folder becomes a file, where nothing can be written
    if (lost == 0 && kept.size() == 1) {
      std::filesystem::remove_all(folder.path() / "a");
      std::ofstream(folder.path() / "a") << "x";
    } else {
      std::filesystem::remove(folder.path() / "a");
      std::filesystem::create_directories(folder.path() / "a");
    }
    return true;
  };
  std::filesystem::create_directories(folder.path() / "a");
  options.kept = [&](std::int64_t steps) { kept.push_back(steps); };
  options.lost = [&](std::exception_ptr error) {
    ++lost;
    CHECK_THROWS_AS(std::rethrow_exception(error), ConfigError);
  };
  const auto keeper = make_file_keeper(options, world);
  CHECK(train(plan, {3, 1}, keeper.get()).steps.size() == 3);
  CHECK(kept == std::vector<std::int64_t>{1, 3});
  CHECK(lost == 1);
}

TEST_CASE("A state of as many steps as the run, or without one of its tensors, is refused") {
  const Plan plan = SmallPlan{}.plan();
  const WholeState state = train(plan, {2}).second.front();
  const auto refusal = [&](std::int64_t steps, const WholeState& from) {
    return problem_of([&] { train(plan, {steps, 0, &from}); });
  };
  CHECK(refusal(2, state).find("training.steps = 2") != std::string::npos);
  const std::string name = state.all()[1].is.name;
  const auto is_it = [&](const WholeTensor& t) { return t.is.buffer == "weights" && t.is.name == name; };
  CHECK(refusal(3, state.bent([&](WholeTensor& t) { return !is_it(t); })).find("is missing") != std::string::npos);
  const WholeState taller = state.bent([&](WholeTensor& t) {
    if (is_it(t)) t.is.rows += 1, t.values.resize(static_cast<std::size_t>(t.is.rows * t.is.cols));
    return true;
  });
  CHECK(refusal(3, taller).find(name) != std::string::npos);
  CHECK(refusal(3, state.bent([](WholeTensor& t) { return t.is.buffer != "exp_avg_sq"; })).find("exp_avg_sq") != std::string::npos);
  try {
    const WholeState forged = state.bent([&](WholeTensor& t) { return !is_it(t); });
    train(plan, {3, 0, &forged});
    FAIL("a state without one of its tensors was resumed");
  } catch (const ConfigError& e) {  // by its own name, not by its plan's
    CHECK(e.problems().front().file == "memory");
    CHECK(e.problems().front().field == "weights." + name);
  }
}

TEST_CASE("A run that is stopped ends behind a step with its books and state", "[tsan]") {
  SmallPlan p;
  p.pipeline = p.data = 2;
  const Plan plan = p.plan();
  const bool timed = GENERATE(false, true);
  INFO("timeline of the last step: " << timed);
  GraphCache graphs(plan);
  RunOptions o = tests::run_options();
  o.steps = 1000;
  o.timeline_step = timed ? 999 : -1;
  std::int64_t told = 0;
  o.on_step = [&](const StepResult&) { ++told; };
  o.stop = [&] { return told == 3; };
  MemoryKeeper keeper;
  o.keeper = &keeper;
  const RunResult result = run(graphs, Numbers(), o);
  const std::int64_t done = timed ? 4 : 3;  // the step that is timed comes after the wish to stop
  CHECK(told == done);
  CHECK(keeper.states.back().steps() == done);
  REQUIRE(result.steps.size() == static_cast<std::size_t>(done));
  CHECK((result.timeline != nullptr) == timed);
  GraphCache again(plan);
  RunOptions plain = tests::run_options();
  plain.steps = done;
  const RunResult whole = run(again, Numbers(), plain);
  CHECK(result.steps.back().loss == whole.steps.back().loss);
  for (std::size_t r = 0; r < 4; ++r) CHECK(result.ranks[r].backend.gemm_flops == whole.ranks[r].backend.gemm_flops);
}

TEST_CASE("An evaluation due where a run was cut comes first when it is resumed") {
  const Plan plan = SmallPlan{}.plan();
  GraphCache graphs(plan);
  const Numbers data;
  RunOptions o = tests::run_options();
  o.steps = 6;
  o.evaluation = {2, 1};
  o.evaluation_data = &data;
  o.state_every = 2;
  MemoryKeeper keeper;
  o.keeper = &keeper;
  const RunResult whole = run(graphs, data, o);
  const std::vector<WholeState> states = std::move(keeper.states);
  o.resume = &states[1];
  const RunResult rest = run(graphs, data, o);
  REQUIRE(rest.evaluations.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(rest.evaluations[i].step == whole.evaluations[1 + i].step);
    CHECK(rest.evaluations[i].loss == whole.evaluations[1 + i].loss);
  }
}
