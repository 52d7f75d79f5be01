// Training in bf16 and fp16: within the bound of rounding of one rank and of fp32, bit for bit where that is promised, scaled where
// fp16 needs it. bitwise_test.cpp has bf16 in the cases of every promise.

#include <map>
#include <set>

#include "tests/agree/closeness.hpp"
#include "tests/agree/features.hpp"
#include "tests/agree/fixture.hpp"
#include "tests/agree/layouts.hpp"
#include "exec/checkpoint/file_keeper.hpp"
#include "exec/checkpoint/resumable.hpp"
#include "exec/process/world.hpp"
#include "tests/catch.hpp"
#include "tests/exec/state/kept_files.hpp"
#include "tests/temporary_folder.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using exec::RunResult;
using tests::check_equal;
using tests::kBf16;
using tests::kFp16;
using tests::share_of_bound;

namespace {

using Patches = std::vector<std::string>;

Plan small(const Patches& patches, int micro_batches) { return parse_plan(tests::small_json(patches, micro_batches), "narrow"); }

std::string precision(const std::string& name) { return R"({"training": {"precision": ")" + name + R"("}})"; }

/// fp16 from a scale at which the first step is finite.
Patches fp16(double scale = 1024) {
  return {precision("fp16"), R"({"training": {"loss_scale": {"initial": )" + std::to_string(scale) + "}}}"};
}

Patches with(Patches all, const Patches& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("every layout trains in bf16 like one rank, within Megatron's bound", "[emulated]") {
  tests::SmallPlan plain = tests::layouts().front();
  plain.precision = "bf16";
  const RunResult one = tests::train(plain, 2);
  for (tests::SmallPlan p : tests::layouts()) {
    p.precision = "bf16";
    const RunResult run = tests::train(p, 2);
    INFO(p.label());
    CHECK(share_of_bound(run, one, p.layers, kBf16) <= 1);
    CHECK(tests::loss_error(run, one) <= kBf16);
  }
}

TEST_CASE("models trained in bf16 and fp16 have fp32's gradients and losses within the bound of rounding") {
  // Not ReLU's models, whose gradient jumps where rounding takes an input to the other side of 0.
  for (const char* kind : {"gpt", "llama", "bloom", "bert", "t5-learned"}) {
    Patches model;
    for (const tests::Value& v : tests::features().front().values)
      if (v.label == kind) model.emplace_back(v.patch);
    const RunResult wide = tests::train(small(with(model, {precision("fp32")}), 3), 2);
    const RunResult bf16 = tests::train(small(with(model, {precision("bf16")}), 3), 2);
    const RunResult half = tests::train(small(with(model, fp16()), 3), 2);
    INFO(kind);
    CHECK(share_of_bound(bf16, wide, 4, kBf16) <= 1);
    CHECK(share_of_bound(half, wide, 4, kFp16) <= 1);
    CHECK(tests::loss_error(bf16, wide) <= kBf16);
    CHECK(tests::loss_error(half, wide) <= kFp16);
    CHECK(share_of_bound(bf16, wide, 4, 1e-4) > 1);  // it is another type that computed
  }
}

TEST_CASE("n data ranks are n micro-batches bit for bit in fp16 too, under every stage of ZeRO", "[emulated]") {
  const int n = GENERATE(3, 4);
  const RunResult one = tests::train(small(fp16(), n), 2);
  for (const char* zero : {"0", "1", "2", "3"})
    check_equal(tests::train(small(with(fp16(), {R"({"parallel": {"zero_stage": )" + std::string(zero) + "}}",
                                                 R"({"parallel": {"data": )" + std::to_string(n) + "}}"}),
                                   1),
                             2),
                one);
}

TEST_CASE("an optimizer without a master rounds at random, and every layout that shards its states alike", "[emulated]") {
  const std::string narrow = R"({"training": {"dtypes": {"master": "bf16", "optimizer_state": "bf16"}}})";
  for (const char* optimizer : {"adamw", "sgd", "lamb", "lans"}) {
    const Patches base{precision("bf16"), narrow,
                       R"({"training": {"momentum": 0.9, "optimizer": ")" + std::string(optimizer) + R"("}})"};
    const RunResult one = tests::train(small(base, 4), 3);
    INFO(optimizer);
    check_equal(tests::train(small(with(base, {R"({"parallel": {"pipeline": 2, "data": 4, "zero_stage": 1}})"}), 1), 3), one);
    check_equal(tests::train(small(with(base, {R"({"parallel": {"data": 4, "zero_stage": 3}})"}), 1), 3), one);
    const RunResult nearest =
        tests::train(small(with(base, {R"({"training": {"stochastic_rounding": false}})"}), 4), 3);
    CHECK(nearest.weights.front().values != one.weights.front().values);
    const RunResult seeded = tests::train(small(with(base, {R"({"training": {"dropout": {"hidden": 0, "attention": 0}, "seed": 5}})"}), 4), 1);
    CHECK(std::isfinite(seeded.steps.front().loss));
  }
}

TEST_CASE("fp16 gradients that overflow are skipped by all of eight ranks alike, and the scale halves until they do not", "[emulated]") {
  const Patches base{R"({"training": {"precision": "fp16", "loss_scale": {"initial": 1073741824, "hysteresis": 1}}})"};
  const RunResult one = tests::train(small(base, 8), 24);
  std::size_t skipped = 0;
  double scale = 1073741824;
  for (const exec::StepResult& s : one.steps) {
    CHECK(s.loss_scale == scale);
    if (!s.skipped()) continue;
    ++skipped;
    scale /= 2;
  }
  CHECK(skipped > 2);
  CHECK(skipped < one.steps.size());
  CHECK_FALSE(one.steps.back().skipped());
  for (const char* layout : {R"({"parallel": {"data": 8}})", R"({"parallel": {"data": 8, "zero_stage": 2}})",
                             R"({"parallel": {"pipeline": 2, "data": 4, "zero_stage": 1}})",
                             R"({"parallel": {"pipeline": 4, "data": 2}})"}) {
    INFO(layout);
    Patches patches = with(base, {layout});
    const Plan one_micro_batch = small(patches, 1);
    const RunResult run = tests::train(small(patches, static_cast<int>(8 / one_micro_batch.parallel.data)), 24);
    for (std::size_t s = 0; s < one.steps.size(); ++s) {
      CHECK(run.steps[s].loss_scale == one.steps[s].loss_scale);
      CHECK(run.steps[s].skipped() == one.steps[s].skipped());
    }
    if (one_micro_batch.parallel.data == 8) {
      REQUIRE(run.weights.size() == one.weights.size());
      for (std::size_t t = 0; t < one.weights.size(); ++t) CHECK((run.weights[t].values == one.weights[t].values));
    }
  }
}

TEST_CASE("a skipped step leaves weights and moments, and Adam's count of updates, as they were") {
  const auto scaled = [](const std::string& initial) {
    return Patches{R"({"training": {"precision": "fp16", "dropout": {"hidden": 0, "attention": 0},
                       "loss_scale": {"initial": )" + initial + R"(, "hysteresis": 1}}})"};
  };
  // Every sequence is the same one, so that a step's number does not decide what it sees.
  class OneSequence : public exec::TokenSource {
   public:
    std::int64_t vocab_size() const override { return 37; }
    void sequence(std::int64_t, std::span<std::int32_t> tokens) const override { tests::HashTokens(37).sequence(7, tokens); }
  };
  const auto train = [](const Plan& plan, std::int64_t steps) {
    exec::RunOptions options;
    options.steps = steps;
    options.gather_weights = true;
    return exec::run(plan, lower(plan), OneSequence(), options);
  };
  const RunResult high = train(small(scaled("1073741824"), 2), 20);
  const auto skipped = std::count_if(high.steps.begin(), high.steps.end(), [](const auto& s) { return s.skipped(); });
  REQUIRE(skipped > 0);
  const RunResult low = train(small(scaled(std::to_string(std::int64_t{1073741824} >> skipped)), 2), 20 - skipped);
  for (std::size_t t = 0; t < low.weights.size(); ++t) CHECK((high.weights[t].values == low.weights[t].values));
}

TEST_CASE("the loss scale doubles behind so many finite steps, and halves once hysteresis is used up") {
  const Patches base{R"({"training": {"precision": "fp16", "loss_scale": {"initial": 256, "window": 3, "hysteresis": 2}}})"};
  const RunResult run = tests::train(small(base, 1), 8);
  const std::vector<double> expected{256, 256, 256, 512, 512, 512, 1024, 1024};
  for (std::size_t s = 0; s < expected.size(); ++s) CHECK(run.steps[s].loss_scale == expected[s]);
  const Patches high{R"({"training": {"precision": "fp16", "loss_scale": {"initial": 1073741824, "hysteresis": 3}}})"};
  const RunResult falling = tests::train(small(high, 1), 5);
  const std::vector<double> held{0x1p30, 0x1p30, 0x1p30, 0x1p29, 0x1p28};
  for (std::size_t s = 0; s < held.size(); ++s) CHECK(falling.steps[s].loss_scale == held[s]);
}

TEST_CASE("a run resumed from its file is the uninterrupted one bit for bit, loss scale and masters included") {
  const std::string types = GENERATE(R"({"training": {"precision": "bf16"}})", R"({"training": {"precision": "bf16", "dtypes": {"master": "bf16"}}})",
                                     R"({"training": {"precision": "fp16", "loss_scale": {"initial": 1073741824, "window": 4}}})");
  const Plan plan = small({types, R"({"parallel": {"data": 2, "zero_stage": 1}})"}, 2);
  const TaskGraph graph = lower(plan);
  const tests::HashTokens data(37);
  const tests::TemporaryFolder folder;
  const std::string path = (folder.path() / "state").string();
  exec::RunOptions options;
  options.steps = 24;
  options.gather_weights = true;
  const RunResult whole = exec::run(plan, graph, data, options);
  options.steps = 13;
  exec::World world;
  const auto keeper = exec::make_file_keeper(exec::test::always(path, {to_json(plan), 1}), world);
  options.keeper = keeper.get();
  exec::run(plan, graph, data, options);
  const exec::Checkpoint kept = exec::load_checkpoint(path);
  CHECK_NOTHROW(exec::require_resumable(kept, plan));
  options.steps = 24;
  options.keeper = nullptr;
  options.resume = kept.state.get();
  const RunResult rest = exec::run(plan, graph, data, options);
  REQUIRE(rest.steps.size() == 11);
  for (std::size_t s = 0; s < rest.steps.size(); ++s) {
    CHECK(rest.steps[s].loss == whole.steps[s + 13].loss);
    CHECK(rest.steps[s].loss_scale == whole.steps[s + 13].loss_scale);
  }
  for (std::size_t t = 0; t < whole.weights.size(); ++t) CHECK((rest.weights[t].values == whole.weights[t].values));
  // The file keeps types: two bytes a weight, and no wider copy where there is none.
  std::set<std::string> buffers;
  for (const exec::SavedTensor& t : kept.state->tensors()) {
    CHECK(t.type == (t.buffer == "weights" ? plan.training.dtypes.weights : DType::fp32));
    buffers.insert(t.buffer);
  }
  CHECK(buffers.size() == (plan.training.dtypes.master == DType::fp32 ? 4U : 3U));
}

TEST_CASE("powers of two as loss scales change no bit of a step that does not overflow") {
  const RunResult a = tests::train(small(fp16(1024), 3), 1), b = tests::train(small(fp16(2048), 3), 1);
  // Subnormal numbers of fp16 have fewer digits, so that only what is far from them is the same.
  CHECK(a.steps.front().loss == b.steps.front().loss);
  CHECK(std::abs(a.steps.front().grad_norm - b.steps.front().grad_norm) <= kFp16 * a.steps.front().grad_norm);
}

TEST_CASE("two-layer models in bf16 keep to PyTorch's fp64 losses over 20 AdamW steps, within bf16's rounding") {
  for (const char* name : {"gpt", "llama", "bloom", "bert/post", "bert/pre"}) {
    const tests::json f = tests::read_fixture(name);
    const tests::FixtureData data(f);
    tests::FixtureLayout layout;
    layout.precision = "bf16";
    for (const int tensor : {1, 2}) {
      layout.tensor = tensor;
      const tests::Trained t = tests::train(f, layout, data);
      INFO(name << " " << layout.label());
      CHECK(tests::worst_logits(f, t, f["logits"], false) < 4 * kBf16);
      for (std::size_t s = 0; s < t.result.steps.size(); ++s) {
        const double loss = f["losses"][s];
        // Updates divide by the gradient's own size, so from the second step on rounding moves weights by whole learning rates.
        CHECK(std::abs(t.result.steps[s].loss - loss) < (s == 0 ? kBf16 : 4 * kBf16) * loss);
      }
    }
  }
}
