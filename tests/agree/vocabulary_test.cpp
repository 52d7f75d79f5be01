// Vocabularies that layouts pad differently, with every optimizer: padding is no part of the model.

#include <map>
#include <nlohmann/json.hpp>

#include "tests/agree/closeness.hpp"
#include "tests/agree/covering.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using exec::RunResult;
using nlohmann::json;
using tests::Case;
using tests::Dim;

namespace {

constexpr int kSteps = 3;  ///< an update shows in the next step's loss; the second one has moments of two gradients
constexpr std::size_t kParts = 3, kSlice = 30, kNightly = 300;
// fp64 rounds at 1e-16. Sums of some thousand terms in another order, divided by small norms over three updates, stay below 1e-9.
// Padded rows inside the norms of LAMB change the second step's loss by 1e-4.
constexpr double kTolerance = 1e-9;
// Optimizers divide a gradient by its own size and epsilon. LANS first divides it by its tensor's norm, which may be 1e-6 of the
// largest: then 2e-12 of it is rounding. Where an element is near zero, the default of 1e-8 made 1e-9 of weights from that.
constexpr double kEpsilon = 0.01;
constexpr double kLearningRate = 0.02;  ///< so large that a wrong norm of one tensor is far above the tolerance
constexpr std::uint64_t kSeed = 257;

constexpr std::array kVocabularies{257, 260, 30'522};
/// What layouts pad to: the default follows the tensor degree. Four tensor ranks can share the others.
constexpr std::array kPaddings{"null", "4", "100"};

struct Words {
  int vocabulary;
  const char* padding;
};

/// Optimizers, vocabularies and paddings take turns at different lengths, so each meets each.
Words words_of(std::size_t i) {
  return {kVocabularies[i / 5 % kVocabularies.size()], kPaddings[(i + i / 15) % kPaddings.size()]};
}

Plan plan_with(const std::string& plan, const Words& words) {
  json patched = json::parse(plan);
  patched.merge_patch({{"model", {{"vocab_size", words.vocabulary}, {"pad_vocab_to", json::parse(words.padding)}}},
                       {"training", {{"learning_rate", kLearningRate}, {"epsilon", kEpsilon}}}});
  return parse_plan(patched.dump(), "vocabulary");
}

/// One rank without any padding, trained once for all cases that share it.
const RunResult& reference(const Case& c, int vocabulary) {
  static std::map<std::string, RunResult> known;
  const Plan plan = plan_with(tests::reference_json(c, "fp64"), {vocabulary, "1"});
  REQUIRE(plan.padded_vocab_size() == vocabulary);
  const std::string key = to_json(plan);
  const auto it = known.find(key);
  return it != known.end() ? it->second : known[key] = tests::train(plan, kSteps);
}

double norm_error(const RunResult& run, const RunResult& one) {
  double worst = 0;
  for (std::size_t s = 0; s < one.steps.size(); ++s)
    worst = tests::larger(worst, std::abs(run.steps[s].grad_norm - one.steps[s].grad_norm) / one.steps[s].grad_norm);
  return worst;
}

/// Largest ||w - w1|| / ||w1|| over tensors. Some tensors of zeros stay zeros: these are compared with all weights.
double weight_error(const RunResult& run, const RunResult& one) {
  double worst = 0;
  REQUIRE(run.weights.size() == one.weights.size());
  const double all = tests::norm_of_all(one.weights);
  for (std::size_t t = 0; t < one.weights.size(); ++t) {
    INFO(one.weights[t].name);
    REQUIRE(run.weights[t].name == one.weights[t].name);
    const double scale = std::max(tests::norm(one.weights[t].values), 1e-3 * all);
    worst = tests::larger(worst, tests::distance(run.weights[t].values, one.weights[t].values) / scale);
  }
  return worst;
}

void check_case(const Case& c, const Words& words) {
  const Plan plan = plan_with(tests::plan_json(c, "fp64"), words);
  const RunResult run = tests::train(plan, kSteps), &one = reference(c, words.vocabulary);
  CHECK(tests::loss_error(run, one) <= kTolerance);
  CHECK(norm_error(run, one) <= kTolerance);
  CHECK(tests::gradient_error(run, one) <= kTolerance);
  CHECK(weight_error(run, one) <= kTolerance);
}

/// Random legal plans; the optimizers take turns where they are legal.
std::vector<Case> cases(std::size_t number) {
  std::vector<Case> all = tests::random_cases(number, kSeed);
  const auto at = static_cast<std::size_t>(Dim::optimizer), optimizers = tests::features()[at].values.size();
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < optimizers; ++k) {
      all[i][at] = static_cast<std::uint8_t>((i + k) % optimizers);
      if (!tests::pointless(all[i]) && tests::reasons_against(all[i]).empty()) break;
    }
  return all;
}

void check_part(std::size_t number, std::size_t part) {
  const std::vector<Case> all = cases(number);
  for (std::size_t i = part; i < all.size(); i += kParts) {
    const Words words = words_of(i);
    INFO("case " << i << ": " << tests::text(all[i]) << ", " << words.vocabulary << " words padded to " << words.padding);
    CHECK_NOTHROW(check_case(all[i], words));
  }
}

}  // namespace

TEST_CASE("part 1 of 3 of padded vocabularies trains like one rank without padding") { check_part(kSlice, 0); }
TEST_CASE("part 2 of 3 of padded vocabularies trains like one rank without padding") { check_part(kSlice, 1); }
TEST_CASE("part 3 of 3 of padded vocabularies trains like one rank without padding") { check_part(kSlice, 2); }

TEST_CASE("part 1 of 3 of 300 padded vocabularies trains like one rank without padding", "[.nightly]") { check_part(kNightly, 0); }
TEST_CASE("part 2 of 3 of 300 padded vocabularies trains like one rank without padding", "[.nightly]") { check_part(kNightly, 1); }
TEST_CASE("part 3 of 3 of 300 padded vocabularies trains like one rank without padding", "[.nightly]") { check_part(kNightly, 2); }

// Adam divides the first moment by the second one's root: without an epsilon, rows without a gradient would be 0 / 0, and a row
// that is not a number spoils what goes back through the logits. A vocabulary's gradient is nowhere zero where the matrix is the output's.
TEST_CASE("without epsilon padded rows stay numbers") {
  const auto losses = [](const char* padding) {
    const std::string plan = tests::small_json(
        {R"({"model": {"family": "llama"}, "training": {"precision": "fp64", "epsilon": 0, "dropout": {"hidden": 0, "attention": 0}}})",
         std::string(R"({"model": {"tie_embeddings": true, "pad_vocab_to": )") + padding + "}}"},
        2);
    std::vector<double> all;
    for (const exec::StepResult& s : tests::train(parse_plan(plan, "epsilon"), 4).steps) all.push_back(s.loss);
    return all;
  };
  const std::vector<double> bare = losses("1"), padded = losses("64");
  for (std::size_t s = 0; s < bare.size(); ++s) {
    INFO("step " << s);
    CHECK(std::abs(padded[s] - bare[s]) <= kTolerance * bare[s]);
  }
}
