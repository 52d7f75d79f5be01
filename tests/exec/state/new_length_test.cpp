// Trainings that go on with sequences of another length.

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "exec/checkpoint/resumable.hpp"
#include "exec/data/started_at.hpp"
#include "exec/run/run.hpp"
#include "models/base/error.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "tests/exec/state/whole_state.hpp"
#include "tests/patched_plan.hpp"

using namespace tandem;
using namespace tandem::exec;
using test::MemoryKeeper;
using test::WholeState;
using tests::patched_plan;
using tests::SmallPlan;

namespace {

/// One endless text, from token `first` on, in sequences that follow each other.
class EndlessText final : public TokenSource {
 public:
  explicit EndlessText(std::uint64_t first = 0) : first_(first) {}
  std::int64_t vocab_size() const override { return 36; }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    std::uint64_t at = first_ + static_cast<std::uint64_t>(index) * (tokens.size() - 1);
    for (std::int32_t& t : tokens) {
      std::uint64_t x = ++at * 0x9e3779b97f4a7c15ull;
      x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
      t = static_cast<std::int32_t>((x >> 20) % 36);
    }
  }

 private:
  std::uint64_t first_;
};

/// A training on an endless text in sequences of `length` tokens; 3 micro-batches of 128 tokens a step.
Plan plan_of(int length, const std::string& patch) {
  SmallPlan p;
  p.seq = length, p.micro_batch = 128 / length, p.dropout = 0;
  auto all = nlohmann::json::parse(R"({"training": {"learning_rate_unit": "tokens", "learning_rate": 0.01, "warmup": 768,
                                                    "learning_rate_decay": "cosine", "decay_over": 2304}})");
  all.merge_patch(nlohmann::json::parse(patch));
  return patched_plan(p, all.dump());
}

RunResult train(const Plan& plan, const TokenSource& data, const RunOptions& options) {
  GraphCache graphs(plan);
  return run(graphs, data, options);
}

std::string refusal(const Checkpoint& saved, const Plan& plan) {
  try {
    require_resumable(saved, plan);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

Checkpoint checkpoint_of(const Plan& plan) {
  Checkpoint saved;
  saved.state = std::make_unique<WholeState>();
  saved.run.plan_json = to_json(plan);
  return saved;
}

}  // namespace

TEST_CASE("A run that goes on with longer sequences is the one that did not, if attention ends at the shorter ones' ends, bit for bit",
          "[host]") {
  // Chunked windows of 64 keys and no positions: a sequence of 128 tokens is computed as two of 64. Kernels work on blocks of 64.
  const std::string patch = std::string(R"({"model": {"position_embedding": "none", "window": {"size": 64, "chunked": true}},
                                            "training": {"flash_attention": true}, "parallel": {"zero_stage": )") + GENERATE("0", "1") + "}}";
  const Plan shorter = plan_of(64, patch), longer = plan_of(128, patch);
  REQUIRE(shorter.global_batch_tokens() == longer.global_batch_tokens());
  MemoryKeeper keeper;
  RunOptions options = tests::run_options();
  options.steps = 6, options.state_every = 3, options.keeper = &keeper, options.gather_weights = true;
  const RunResult whole = train(shorter, EndlessText(), options);
  REQUIRE(keeper.states.size() == 2);
  const WholeState begun = keeper.states[0];
  CHECK(begun.facts().samples == 18);
  CHECK(begun.facts().tokens == 1152);
  options.resume = &begun;
  const auto rest = std::unique_ptr<TokenSource>(started_at(std::make_unique<EndlessText>(1152), 18));
  const RunResult gone_on = train(longer, *rest, options);
  REQUIRE(gone_on.steps.size() == 3);
  for (std::size_t s = 0; s < 3; ++s) {
    CHECK(gone_on.steps[s].loss == whole.steps[3 + s].loss);
    CHECK(gone_on.steps[s].grad_norm == whole.steps[3 + s].grad_norm);
    CHECK(gone_on.steps[s].learning_rate == whole.steps[3 + s].learning_rate);
  }
  CHECK(whole.steps[5].learning_rate < whole.steps[3].learning_rate);
  CHECK(keeper.states.back().facts().samples == 27);
  CHECK(keeper.states.back().facts().tokens == 2304);
  REQUIRE(gone_on.weights.size() == whole.weights.size());
  for (std::size_t t = 0; t < whole.weights.size(); ++t) CHECK(gone_on.weights[t].values == whole.weights[t].values);
}

TEST_CASE("A plan may change the length and what turns with it, and they are named") {
  const std::string rotary = R"("position_embedding": "rope")";
  const Checkpoint saved = checkpoint_of(plan_of(64, R"({"model": {)" + rotary + "}}"));
  const Plan longer = plan_of(128, R"({"model": {)" + rotary + R"(, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2}}})");
  CHECK(refusal(saved, longer).empty());
  std::string changes;
  for (const std::string& change : changed_hyper_parameters(saved, longer)) changes += change + "\n";
  CHECK(changes.find("training.seq_length from 64 to 128\n") != std::string::npos);
  CHECK(changes.find("model.rope_theta from 10000.0 to 500000.0\n") != std::string::npos);
  CHECK(changes.find("model.rope_scaling from ") != std::string::npos);
  CHECK(changes.find("max_position_embeddings") == std::string::npos);  // without a table nothing depends on it
  const std::string table = refusal(checkpoint_of(plan_of(64, "{}")), longer);
  CHECK(table.find("model.position_embedding = \"learned\": the plan has \"rope\"") != std::string::npos);
  CHECK(table.find("max_position_embeddings") == std::string::npos);
  CHECK(refusal(saved, plan_of(128, R"({"model": {"position_embedding": "alibi"}})")).find("model.position_embedding") != std::string::npos);
}

TEST_CASE("A learned position table keeps its rows, and within them the length may change") {
  const auto table = [](int length, const char* rows) {
    return plan_of(length, std::string(R"({"model": {"max_position_embeddings": )") + rows + "}}");
  };
  const Checkpoint saved = checkpoint_of(table(64, "128"));
  CHECK(refusal(saved, table(128, "128")).empty());
  const std::string said = refusal(saved, table(128, "256"));
  CHECK(said.find("model.max_position_embeddings = 128: the plan has 256, and a learned position table keeps its rows") != std::string::npos);
  CHECK(said.find("keep model.max_position_embeddings 128") != std::string::npos);
}

TEST_CASE("An encoder-decoder keeps its lengths") {
  const auto of = [](int encoder, const char* decoder) {
    return plan_of(encoder, std::string(R"({"model": {"family": "t5", "num_layers": 2, "num_decoder_layers": 3},
                                            "training": {"decoder_seq_length": )") + decoder + "}}");
  };
  CHECK(refusal(checkpoint_of(of(6, "4")), of(6, "4")).empty());
  CHECK(refusal(checkpoint_of(of(6, "4")), of(12, "4")).find("training.seq_length") != std::string::npos);
  CHECK(refusal(checkpoint_of(of(6, "4")), of(6, "8")).find("training.decoder_seq_length") != std::string::npos);
}

TEST_CASE("Tokens and the beginning of the data are kept, and a checkpoint without tokens had sequences of its plan's length") {
  const Plan plan = plan_of(64, "{}");
  const StateFacts facts{5, 30, {}, 200};
  nlohmann::json kept(metadata_of("f", facts, {to_json(plan), 7, std::nullopt, 18}));
  CHECK(facts_of(kept, "f").tokens == 200);
  CHECK(run_of(kept).data_since == 18);
  kept.erase("tokens"), kept.erase("data_since");
  CHECK(facts_of(kept, "f").tokens == 30 * 64);
  CHECK(run_of(kept).data_since == 0);
  kept["tokens"] = "-1";
  CHECK_THROWS(facts_of(kept, "f"));
}

TEST_CASE("A source that is begun later gives its own sequences under later numbers") {
  const EndlessText plain;
  const auto later = started_at(std::make_unique<EndlessText>(), 5);
  std::vector<std::int32_t> a(8), b(8);
  for (const std::int64_t i : {0, 1, 40}) {
    plain.sequence(i, a), later->sequence(i + 5, b);
    CHECK(a == b);
    CHECK(plain.next_example(i, 7).targets == later->next_example(i + 5, 7).targets);
    CHECK(plain.masked_example(i, {8, 2, 36}).tokens == later->masked_example(i + 5, {8, 2, 36}).tokens);
    CHECK(plain.prefix_example(i, {4, 3}).decoder_tokens == later->prefix_example(i + 5, {4, 3}).decoder_tokens);
  }
  CHECK_THROWS_AS(later->sequence(4, b), ContractError);
}
