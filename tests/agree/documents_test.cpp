// Targets that are masked and documents that are kept apart, against PyTorch, which trained each document alone
// (tests/fixtures/documents_pytorch.py); and what all layouts have in common.

#include "tests/agree/closeness.hpp"
#include "tests/agree/fixture.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/backends.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

constexpr double kDouble = 1e-9, kSingle = 2e-4;  // as in pytorch_test.cpp

/// The fixture's documents, one behind the other.
class Documents final : public FixtureData {
 public:
  explicit Documents(const json& fixture) : FixtureData(fixture) {}
  exec::Example next_example(std::int64_t index, std::int64_t) const override {
    using Ids = std::vector<std::int32_t>;
    exec::Example e{of("tokens", index).get<Ids>(), of("targets", index).get<Ids>(), {}};
    e.documents = of("documents", index).get<Ids>();
    return e;
  }
  std::int64_t targets(std::int64_t index, std::int64_t length) const override {
    const auto targets = next_example(index, length).targets;
    return std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; });
  }
};

void check(const std::string& name, FixtureLayout layout, bool flash) {
  json f = read_fixture("documents/" + name);
  f["training"]["flash_attention"] = flash;
  const Documents data(f);
  INFO(name << (flash ? " flash" : ""));
  check_fixture(f, layout, data, kDouble);
  layout.precision = "fp32";
  check_fixture(f, layout, data, kSingle);
}

const std::vector<FixtureLayout>& layouts_of_pytorch() {
  static const std::vector<FixtureLayout> all{{}, spread(1, 2, 1, 0), spread(2, 1, 1, 0), spread(1, 1, 2, 3), spread(2, 2, 2, 2)};
  return all;
}

/// Random tokens; the targets of a sequence whose index leaves 1 or 2 divided by 5 are masked, of others about half.
class Masked final : public HashTokens {
 public:
  explicit Masked(std::int64_t vocab, std::int64_t first = 0) : HashTokens(vocab), first_(first) {}
  exec::Example next_example(std::int64_t index, std::int64_t length) const override {
    exec::Example e = HashTokens::next_example(first_ + index, length);
    const bool silent = (first_ + index) % 5 == 1 || (first_ + index) % 5 == 2;
    for (std::int32_t& t : e.targets)
      if (silent || t % 2 == 0) t = -1;
    return e;
  }
  std::int64_t targets(std::int64_t index, std::int64_t length) const override {
    const auto targets = next_example(index, length).targets;
    return std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; });
  }

 private:
  std::int64_t first_;
};

/// Documents of one to five tokens; the last of each has no target.
class Separate final : public HashTokens {
 public:
  using HashTokens::HashTokens;
  exec::Example next_example(std::int64_t index, std::int64_t length) const override {
    exec::Example e = HashTokens::next_example(index, length);
    for (std::int64_t at = 0, next = 0; at < length; ++at) {
      if (at == next) next += 1 + e.tokens[static_cast<std::size_t>(at)] % 5;
      const bool begins = at == 0 || e.targets[static_cast<std::size_t>(at) - 1] < 0;
      e.documents.push_back(begins ? static_cast<std::int32_t>(at) : e.documents.back());
      if (at + 1 == next) e.targets[static_cast<std::size_t>(at)] = -1;
    }
    return e;
  }
  std::int64_t targets(std::int64_t index, std::int64_t length) const override {
    const auto targets = next_example(index, length).targets;
    return std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; });
  }
};

exec::RunResult train_on(const Plan& plan, const exec::TokenSource& data) {
  exec::RunOptions options = run_options();
  options.steps = 2;
  options.gather_gradients = options.gather_weights = true;
  return exec::run(plan, lower(plan), data, options);
}

exec::RunResult train_masked(const SmallPlan& small) {
  const Plan plan = small.plan();
  return train_on(plan, Masked(plan.model.vocab_size));
}

/// A plan whose documents are separate, with `more` in its sections.
exec::RunResult train_separate(const char* more) {
  json plan = json::parse(layout(1, 1, 1, 4).json());
  plan.merge_patch({{"training", {{"seq_length", 8}, {"documents", "separate"}, {"micro_batch_size", 1}, {"global_batch_size", 4}}}});
  plan.merge_patch(json::parse(more));
  std::int64_t ranks = 1;
  for (const char* axis : {"tensor", "pipeline", "data", "context"}) ranks *= plan["parallel"].value(axis, std::int64_t{1});
  plan["cluster"]["devices"] = ranks;
  const Plan made = parse_plan(plan.dump(), "separate.json");
  return train_on(made, Separate(made.model.vocab_size));
}

}  // namespace

TEST_CASE("with masked targets a model gives PyTorch's logits, gradients, losses and weights in every layout", "[emulated]") {
  for (const FixtureLayout& layout : layouts_of_pytorch()) check("masked", layout, false);
}

TEST_CASE("with masked targets data ranks and stages train bit for bit as one rank", "[emulated]") {
  const exec::RunResult one = train_masked(layout(1, 1, 1, 4));
  for (const SmallPlan& other : {layout(1, 1, 4, 1), layout(1, 2, 1, 4), layout(1, 2, 4, 1)}) check_equal(train_masked(other), one);
}

TEST_CASE("an evaluation counts every target equally") {
  const Plan plan = layout(1, 1, 1, 4).plan();
  GraphCache graphs(plan);
  const std::int64_t batch = plan.training.global_batch_size, length = plan.training.seq_length, vocab = plan.model.vocab_size;
  const auto loss = [&](std::int64_t steps, std::int64_t first) {
    const Masked evaluated(vocab, first);
    exec::RunOptions options = run_options();
    options.steps = 1;
    options.evaluation = {1, steps};
    options.evaluation_data = &evaluated;
    return exec::run(graphs, HashTokens(vocab), options).evaluations.back().loss;
  };
  const auto targets = [&](std::int64_t first) {
    std::int64_t all = 0;
    for (std::int64_t s = 0; s < batch; ++s) all += Masked(vocab).targets(first + s, length);
    return static_cast<double>(all);
  };
  const double a = targets(0), b = targets(batch);
  REQUIRE(a != b);
  CHECK(loss(2, 0) == Approx((a * loss(1, 0) + b * loss(1, batch)) / (a + b)).epsilon(1e-6));
}

TEST_CASE("a model gives PyTorch's results of documents that were trained alone", "[emulated]") {
  for (const char* name : {"gpt", "llama", "bloom", "sliding", "chunked"})
    for (const bool flash : {false, true}) check(name, {}, flash);
}

TEST_CASE("so does it in every layout", "[emulated]") {
  for (const FixtureLayout& layout : layouts_of_pytorch())
    for (const char* name : {"gpt", "llama"}) check(name, layout, true);
}

TEST_CASE("context ranks keep documents apart as one rank does", "[emulated]") {
  const char* model = GENERATE("{}", R"({"model": {"family": "llama", "num_kv_heads": 2}})", R"({"model": {"family": "bloom"}})");
  const auto with = [&](json parallel, bool flash) {
    json more = json::parse(model);
    more["parallel"] = std::move(parallel);
    more["training"]["flash_attention"] = flash;
    return train_separate(more.dump().c_str());
  };
  const exec::RunResult one = with(json::object(), true);
  for (const char* mode : {"ring", "all_gather", "ulysses"})
    for (const bool flash : {true, false}) {
      if (!flash && std::string(mode) == "ring") continue;  // a ring keeps no score matrix
      INFO(model << " " << mode << (flash ? " flash" : ""));
      const exec::RunResult two = with({{"context", 2}, {"context_mode", mode}}, flash);
      CHECK(loss_error(two, one) < 1e-9);
      CHECK(gradient_error(two, one) < 1e-9);
    }
}

TEST_CASE("documents that are kept apart train bit for bit over data ranks, stages and recomputation", "[emulated]") {
  const exec::RunResult one = train_separate("{}");
  for (const char* more : {R"({"parallel": {"data": 4}})", R"({"parallel": {"pipeline": 2}, "training": {"recompute": "full"}})"})
    check_equal(train_separate(more), one);
}
