// Lists that plans are looked up by tell apart what differs, and only that.

#include <functional>

#include "models/plan/plan_words.hpp"
#include "tests/catch.hpp"

using namespace tandem;

namespace {

std::vector<std::int64_t> words_of(const Plan& plan) {
  std::vector<std::int64_t> words;
  append_words(words, plan.model);
  append_words(words, plan.parallel);
  append_words(words, plan.training);
  append_words(words, plan.stack);
  return words;
}

}  // namespace

TEST_CASE("plans that differ in a field have other words") {
  const std::vector<std::function<void(Plan&)>> changes{
      [](Plan& p) { p.model.vocab_size = 7; },
      [](Plan& p) { p.model.norm_epsilon = 1e-6; },
      [](Plan& p) { p.model.moe.rows_bound = 3; },
      [](Plan& p) { p.model.indexer.heads = 1; },
      [](Plan& p) { p.model.indexer.head_dim = 7; },
      [](Plan& p) { p.model.indexer.topk = 7; },
      [](Plan& p) { p.model.indexer.block_size = 7; },
      [](Plan& p) { p.model.indexer.layers = "if"; },
      [](Plan& p) { p.model.mtp.num_layers = 1; },
      [](Plan& p) { p.model.mtp.loss_scale = 0.3; },
      [](Plan& p) { p.model.rope_scaling.type = "yarn"; },
      [](Plan& p) { p.parallel.overlap_p2p = false; },
      [](Plan& p) { p.parallel.overlap_experts = true; },
      [](Plan& p) { p.parallel.token_dispatcher = TokenDispatcher::deepep; },
      [](Plan& p) { p.training.dtypes.dispatch = DType::fp8; },
      [](Plan& p) { p.parallel.bucket_bytes = Bytes(1); },
      [](Plan& p) { p.parallel.pipeline_split = {1, 2}; },
      [](Plan& p) { p.parallel.offload.ratio = 0.5; },
      [](Plan& p) { p.training.dtypes.master = DType::bf16; },
      [](Plan& p) { p.training.fp8_activation_inputs = true; },
      [](Plan& p) { p.training.recompute_modules = {"mlp"}; },
      [](Plan& p) { p.training.optimizer.learning_rate.power = 2; },
      [](Plan& p) { p.training.fusion.name = "megatron"; },
      [](Plan& p) { p.training.seed = 1; },
      [](Plan& p) { p.stack.name = "nemo"; },
      [](Plan& p) { p.stack.as_of = {2024, 7}; },
  };
  std::vector<std::vector<std::int64_t>> seen{words_of(Plan())};
  for (const auto& change : changes) {
    Plan plan;
    change(plan);
    for (const auto& other : seen) CHECK(words_of(plan) != other);
    seen.push_back(words_of(plan));
  }
}

TEST_CASE("names and notes are no words of a plan") {
  Plan plan;
  plan.model.name = plan.parallel.notes = plan.training.name = "other";
  CHECK(words_of(plan) == words_of(Plan()));
  CHECK(WordsHash()(words_of(plan)) == WordsHash()(words_of(Plan())));
}
