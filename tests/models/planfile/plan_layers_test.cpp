// How layers are split over stages when the plan does not say.

#include <algorithm>
#include <numeric>

#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using Split = std::vector<std::int64_t>;

namespace {

Split split(std::int64_t layers, std::int64_t pipeline, std::int64_t chunks = 1) {
  Plan p;
  p.model.num_layers = layers;
  p.parallel.pipeline = pipeline;
  p.parallel.virtual_pipeline = chunks;
  return p.layers_per_stage();
}

}  // namespace

TEST_CASE("layers that divide are split evenly") {
  CHECK(split(96, 16) == Split(16, 6));
  CHECK(split(8, 1) == Split{8});
  CHECK(split(12, 2, 3) == Split(6, 2));
}

TEST_CASE("embedding and head count as a layer where layers and 2 divide") {
  // BLOOM-176B on 12 stages: 5 + embedding, ten of 6, 5 + head (bigscience-workshop/bigscience: train/tr11-176B-ml).
  CHECK(split(70, 12) == Split{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5});
  CHECK(split(22, 8) == Split{2, 3, 3, 3, 3, 3, 3, 2});
}

TEST_CASE("InternEvo gives a remainder to the last stages") {
  const auto split_of = [](std::int64_t layers, std::int64_t pipeline, const std::string& stack, const std::string& more = "") {
    const std::string n = std::to_string(pipeline);
    return parse_plan(R"({"model": {"family": "llama", "num_layers": )" + std::to_string(layers) +
                          R"(, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128}, "parallel": {)" + more +
                          R"("pipeline": )" + n + R"(}, "training": {"seq_length": 8, "micro_batch_size": 1, "global_batch_size": 8},
                          "cluster": {"preset": "dgx-a100-80gb", "devices": )" + n + R"(}, "stack": ")" + stack + "\"}",
                      "split.json")
        .layers_per_stage();
  };
  CHECK(split_of(32, 5, "internevo") == Split{6, 6, 6, 7, 7});
  CHECK(split_of(7, 4, "internevo") == Split{1, 2, 2, 2});
  CHECK(split_of(22, 8, "internevo") == Split{2, 2, 3, 3, 3, 3, 3, 3});  // embedding and head count for nothing
  CHECK(split_of(8, 4, "internevo") == Split(4, 2));
  CHECK(split_of(7, 4, "internevo", R"("pipeline_split": [1, 1, 2, 3], )") == Split{1, 1, 2, 3});
  CHECK(split_of(10, 2, "internevo", R"("schedule": "interleaved", "virtual_pipeline": 2, )") == Split{2, 3, 2, 3});
  CHECK(split_of(32, 5, "tandem") == Split{6, 7, 7, 6, 6});
}

TEST_CASE("a remainder goes to the middle stages") {
  CHECK(split(78, 12) == Split{6, 6, 6, 7, 7, 7, 7, 7, 7, 6, 6, 6});
  CHECK(split(7, 4) == Split{2, 2, 2, 1});
  CHECK(split(9, 4) == Split{2, 3, 2, 2});
}

TEST_CASE("with layers + 2 chunks the embedding and the head stand alone") {
  const Split s = split(22, 8, 3);
  CHECK(s.size() == 24);
  CHECK(s.front() == 0);
  CHECK(s.back() == 0);
}

TEST_CASE("every split has all layers, differs by one at most and is heaviest in the middle") {
  for (std::int64_t layers = 1; layers <= 60; ++layers) {
    for (std::int64_t stages = 1; stages <= layers; ++stages) {
      const Split s = split(layers, stages);
      CAPTURE(layers, stages);
      REQUIRE(static_cast<std::int64_t>(s.size()) == stages);
      REQUIRE(std::accumulate(s.begin(), s.end(), std::int64_t{0}) == layers);
      const auto [low, high] = std::minmax_element(s.begin(), s.end());
      REQUIRE(*low >= 1);
      REQUIRE(*high - *low <= 1);
      REQUIRE(s.back() <= s[s.size() / 2]);
    }
  }
}

TEST_CASE("an explicit split is taken as it is") {
  Plan p;
  p.model.num_layers = 12;
  p.parallel.pipeline = 4;
  p.parallel.pipeline_split = {2, 4, 4, 2};
  CHECK(p.layers_per_stage() == Split{2, 4, 4, 2});
}

TEST_CASE("the decoder's layers follow the encoder's") {
  Plan p;
  p.model.family = Family::t5;
  p.model.num_layers = 4;
  p.model.num_decoder_layers = 8;
  p.parallel.pipeline = 4;
  CHECK(p.layers_per_stage() == Split{3, 3, 3, 3});
}
