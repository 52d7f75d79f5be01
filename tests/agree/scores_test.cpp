// What an evaluation says of each sequence, against the logits of PyTorch (tests/fixtures), in any layout.

#include <algorithm>
#include <cmath>

#include "exec/data/read_once.hpp"
#include "models/planfile/plan_trained.hpp"
#include "tests/agree/fixture.hpp"
#include "tests/backends.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

constexpr double kDouble = 1e-9, kSingle = 2e-4;  // as in pytorch_test.cpp

using Scores = std::vector<exec::SequenceScore>;

/// The loss of a target under a row of logits, and whether no other token is more probable.
struct Row {
  double loss = 0;
  bool hit = false;
};
Row row(const double* logits, std::int64_t columns, std::int32_t target) {
  const double top = *std::max_element(logits, logits + columns);
  double sum = 0;
  for (std::int64_t c = 0; c < columns; ++c) sum += std::exp(logits[c] - top);
  return {std::log(sum) + top - logits[target], logits[target] == top};
}

/// The scores of a fixture's first batch.
Scores expected(const json& f, const FixtureData& data) {
  const bool bert = f["model"]["family"] == "bert";
  const auto vocab = f["model"]["vocab_size"].get<std::int64_t>(), length = f["training"]["seq_length"].get<std::int64_t>();
  const auto logits = f["logits"].get<std::vector<double>>();
  Scores all;
  for (std::int64_t s = 0; s < f["training"]["global_batch_size"].get<std::int64_t>(); ++s) {
    exec::SequenceScore score{s};
    const exec::Example e = bert ? data.masked_example(s, {}) : data.next_example(s, length);
    for (std::int64_t p = 0; p < length; ++p) {
      const std::int32_t target = e.targets[static_cast<std::size_t>(p)];
      if (target < 0) continue;
      const Row r = row(logits.data() + (s * length + p) * vocab, vocab, target);
      score.loss += r.loss, score.targets += 1, score.hits += r.hit ? 1 : 0;
    }
    if (bert) {
      const auto pairs = f["nsp_logits"].get<std::vector<double>>();
      const Row r = row(pairs.data() + s * 2, 2, e.label);
      score.label_loss = r.loss, score.labels = 1, score.label_hits = r.hit ? 1 : 0;
    }
    all.push_back(score);
  }
  return all;
}

/// The first batch, once, and sequences without targets.
class FirstBatch final : public FixtureData {
 public:
  explicit FirstBatch(const json& f) : FixtureData(f), sequences_(f["training"]["global_batch_size"]) {}
  std::int64_t sequences() const override { return sequences_; }

 private:
  std::int64_t sequences_;
};

/// Evaluates two batches; the second one has no targets.
Scores evaluate(const json& f, const FixtureLayout& layout) {
  Plan plan = plan_of(f, layout);
  settle_for_evaluation(plan);
  const auto data = exec::read_once(std::make_unique<FirstBatch>(f));
  exec::RunOptions options = run_options();
  options.steps = 0;
  options.only_evaluate = 2;
  options.evaluation_data = data.get();
  options.initialise = [&](const std::string& name, std::vector<double>& full) {
    for (const json& p : f["initial"])
      if (p["name"] == name) full = p["values"].get<std::vector<double>>();
  };
  Scores all;
  options.on_scores = [&](const Scores& batch) { all.insert(all.end(), batch.begin(), batch.end()); };
  GraphCache graphs(plan, StatesKept::weights);
  const exec::RunResult result = exec::run(graphs, *data, options);
  CHECK(result.steps.empty());
  return all;
}

void check(const std::string& name, const FixtureLayout& layout) {
  INFO(name << " " << layout.label());
  const json f = read_fixture(name);
  const FixtureData data(f);
  const Scores wanted = expected(f, data), found = evaluate(f, layout);
  const double tolerance = layout.precision == "fp64" ? kDouble : kSingle;
  REQUIRE(found.size() == 2 * wanted.size());
  for (std::size_t s = 0; s < found.size(); ++s) {
    CHECK(found[s].sequence == static_cast<std::int64_t>(s));
    const exec::SequenceScore want = s < wanted.size() ? wanted[s] : exec::SequenceScore{};
    CHECK(found[s].targets == want.targets);
    CHECK(found[s].labels == want.labels);
    CHECK(found[s].hits == want.hits);
    CHECK(found[s].label_hits == want.label_hits);
    CHECK(std::abs(found[s].loss - want.loss) <= tolerance * (1 + want.loss));
    CHECK(std::abs(found[s].label_loss - want.label_loss) <= tolerance * (1 + want.label_loss));
  }
}

}  // namespace

TEST_CASE("The scores of sequences are those of PyTorch's logits in every layout", "[emulated]") {
  const FixtureLayout layouts[] = {{}, spread(2, 1, 1, 0), spread(1, 2, 1, 0), spread(1, 1, 2, 3), spread(2, 2, 2, 1)};
  for (const char* name : {"gpt", "llama", "bert/post", "bert/pre"})
    for (const FixtureLayout& layout : layouts) {
      check(name, layout);
      FixtureLayout single = layout;
      single.precision = "fp32";
      check(name, single);
    }
}

TEST_CASE("Experts on several ranks give the same scores") {
  FixtureLayout experts = spread(1, 1, 2, 0);
  experts.expert = 2;
  check("moe/mixtral", {});
  check("moe/mixtral", experts);
}

TEST_CASE("An evaluation that trains nothing holds no gradients and no states of the optimizer") {
  const json f = read_fixture("gpt");
  const TaskGraph whole = lower_evaluation(plan_of(f, {})), weights = lower_evaluation(plan_of(f, {}), StatesKept::weights);
  REQUIRE_NOTHROW(weights.check());
  for (const Allocation& a : weights.programs[0].memory.allocations) {
    CHECK(a.kind != MemoryKind::gradients);
    CHECK(a.kind != MemoryKind::optimizer);
  }
  // gradients and two moments in fp64, as the weights
  CHECK(weights.programs[0].memory.arena_bytes.count() < whole.programs[0].memory.arena_bytes.count() / 2);
}
