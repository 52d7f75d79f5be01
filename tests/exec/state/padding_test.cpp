// Rows that pad a vocabulary: they are in no state, and what earlier versions kept of them has no effect.

#include <cmath>
#include <set>

#include "exec/run/run.hpp"
#include "models/base/error.hpp"
#include "tests/patched_plan.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "tests/exec/cpu/numbers.hpp"
#include "tests/exec/state/whole_state.hpp"

using namespace tandem;
using namespace tandem::exec;
using test::MemoryKeeper;
using test::Numbers;
using test::WholeState;
using test::WholeTensor;
using tests::SmallPlan;

namespace {

constexpr std::int64_t kWords = 37;

/// Twelve sequences a step, whatever the layout; nothing that depends on it.
Plan plan_of(int tensor, int pipeline, int data, const std::vector<std::string>& patches) {
  SmallPlan p;
  p.tensor = tensor, p.pipeline = pipeline, p.data = data;
  p.micro_batches = 6 / data;
  p.dropout = 0;
  nlohmann::json all = {{"training", {{"epsilon", 1e-4}, {"learning_rate", 0.01}}}};
  for (const std::string& patch : patches) all.merge_patch(nlohmann::json::parse(patch));
  return tests::patched_plan(p, all.dump());
}

std::string padded_to(int rows) { return R"({"model": {"pad_vocab_to": )" + std::to_string(rows) + "}}"; }

std::pair<RunResult, WholeState> train(const Plan& plan, std::int64_t steps, const WholeState* resume = nullptr) {
  GraphCache graphs(plan);
  MemoryKeeper keeper;
  RunOptions o = tests::run_options();
  o.steps = steps;
  o.resume = resume;
  o.gather_weights = true;
  o.keeper = &keeper;
  RunResult result = run(graphs, Numbers(), o);
  return {std::move(result), std::move(keeper.states.back())};
}

bool of_words(const std::string& name) {
  return name == "embedding.word.weight" || name == "output.weight" || name == "head.output_bias";
}

/// `state` with `rows` rows in every tensor of the vocabulary, all behind its words of `value`.
WholeState with_padding(const WholeState& state, std::int64_t rows, double value) {
  return state.bent([&](WholeTensor& t) {
    if (!of_words(t.is.name)) return true;
    t.is.rows = rows;
    t.values.resize(static_cast<std::size_t>(kWords * t.is.cols));
    t.values.resize(static_cast<std::size_t>(rows * t.is.cols), value);
    return true;
  });
}

double worst(const RunResult& a, const RunResult& b, std::size_t from) {
  double most = 0;
  for (std::size_t s = 0; s < a.steps.size(); ++s) {
    const StepResult &x = a.steps[s], &y = b.steps[from + s];
    for (const double e : {std::abs(x.loss / y.loss - 1), std::abs(x.grad_norm / y.grad_norm - 1)})
      most = e <= most ? most : e;  // keeps what is not a number
  }
  return most;
}

const std::string kModels[] = {R"({"model": {"tie_embeddings": true}})", R"({"model": {"tie_embeddings": false}})",
                               R"({"model": {"family": "bert", "token_types": 2}})"};

std::string optimizer(const std::string& name) { return R"({"training": {"optimizer": ")" + name + "\"}}"; }

}  // namespace

TEST_CASE("a state has a row for each word, however the vocabulary is padded", "[host]") {
  const std::string& model = kModels[GENERATE(0, 1, 2)];
  const int tensor = GENERATE(1, 2), zero = GENERATE(0, 3), rows = GENERATE(16, 64);
  const Plan plan = plan_of(tensor, 1, 2, {model, padded_to(rows), optimizer("lamb"),
                                           R"({"parallel": {"zero_stage": )" + std::to_string(zero) + "}}"});
  REQUIRE(plan.padded_vocab_size() > kWords);
  const WholeState state = train(plan, 2).second;
  REQUIRE(state.buffers().size() == 3);
  int seen = 0;
  for (const WholeTensor& t : state.all()) {
    if (!of_words(t.is.name)) continue;
    INFO(t.is.buffer << "." << t.is.name);
    ++seen;
    CHECK(t.is.rows == kWords);
    CHECK(std::all_of(t.values.begin(), t.values.end(), [](double v) { return std::isfinite(v); }));
  }
  CHECK(seen == 3 * (&model == kModels ? 1 : 2));
}

TEST_CASE("a training goes on under another padding, with every optimizer", "[host]") {
  const std::string& model = kModels[GENERATE(0, 1, 2)];
  const std::string rule = optimizer(GENERATE("adamw", "sgd", "lamb", "lans"));
  const auto [whole, end] = train(plan_of(1, 1, 1, {model, rule, padded_to(1)}), 5);
  const WholeState cut = train(plan_of(2, 1, 1, {model, rule, padded_to(16)}), 2).second;
  struct Layout {
    int tensor, pipeline, data, zero, rows;
  };
  const auto l = GENERATE(
      values<Layout>({{1, 1, 1, 0, 1}, {4, 1, 1, 0, 64}, {1, 1, 3, 3, 16}, {2, 2, 1, 0, 128}, {1, 2, 2, 1, 64}}));
  const Plan plan = plan_of(l.tensor, l.pipeline, l.data, {model, rule, padded_to(l.rows),
                                                           R"({"parallel": {"zero_stage": )" + std::to_string(l.zero) + "}}"});
  INFO(model << " " << rule << " padded to " << l.rows);
  const RunResult rest = train(plan, 5, &cut).first;
  REQUIRE(rest.steps.size() == 3);
  CHECK(worst(rest, whole, 2) <= 1e-11);  // fp64: sums in another order, through five updates
}

TEST_CASE("what an earlier version kept behind the words is passed over, bit for bit", "[host]") {
  const std::string& model = kModels[GENERATE(0, 1, 2)];
  const std::string rule = optimizer(GENERATE("adamw", "lamb", "lans"));
  const int zero = GENERATE(0, 3);
  const Plan plan = plan_of(1, 1, 2, {model, rule, R"({"parallel": {"zero_stage": )" + std::to_string(zero) + "}}"});
  const WholeState state = train(plan, 2).second;
  const RunResult plain = train(plan, 5, &state).first;
  for (const std::int64_t rows : {kWords, kWords + 1, plan.padded_vocab_size(), 2 * plan.padded_vocab_size()}) {
    const WholeState kept = with_padding(state, rows, 7);
    const RunResult rest = train(plan, 5, &kept).first;
    INFO(model << " " << rule << " " << rows << " rows");
    REQUIRE(rest.weights.size() == plain.weights.size());
    for (std::size_t t = 0; t < plain.weights.size(); ++t) CHECK(rest.weights[t].values == plain.weights[t].values);
  }
}

TEST_CASE("a state with fewer rows than words is refused", "[host]") {
  const Plan plan = plan_of(1, 1, 1, {});
  const WholeState state = train(plan, 1).second.bent([](WholeTensor& t) {
    if (of_words(t.is.name)) t.is.rows = kWords - 1, t.values.resize(static_cast<std::size_t>(t.is.rows * t.is.cols));
    return true;
  });
  try {
    train(plan, 2, &state);
    FAIL("a state of fewer words was taken");
  } catch (const ConfigError& e) {
    const std::string message = e.what();
    CHECK(message.find("embedding.word.weight = 36 x 24") != std::string::npos);
    CHECK(message.find("37 x 24") != std::string::npos);
  }
}

TEST_CASE("whoever replaces initial values is shown a row for each word", "[host]") {
  const Plan plan = plan_of(2, 2, 1, {R"({"model": {"family": "bert", "token_types": 2}})", padded_to(64)});
  GraphCache graphs(plan);
  std::set<std::size_t> sizes;
  RunOptions o = tests::run_options();
  o.steps = 1;
  o.initialise = [&](const std::string& name, std::vector<double>& full) {
    if (of_words(name)) sizes.insert(full.size());
  };
  run(graphs, Numbers(), o);
  CHECK(sizes == std::set<std::size_t>{static_cast<std::size_t>(kWords), static_cast<std::size_t>(kWords * 24)});
}
