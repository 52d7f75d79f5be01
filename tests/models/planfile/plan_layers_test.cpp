// How layers are split over stages when the plan does not say.

#include <algorithm>
#include <numeric>
#include <random>

#include "models/planfile/plan_flops.hpp"
#include "models/planfile/stage_split.hpp"
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

namespace {

/// A plan of a dense llama with modules of multi-token prediction.
Plan with_modules(std::int64_t layers, std::int64_t stages, std::int64_t modules, std::int64_t vocabulary) {
  Plan p;
  ModelSpec& m = p.model;
  m.family = Family::llama;
  m.num_layers = layers;
  m.hidden_size = 512;
  m.num_attention_heads = m.num_kv_heads = 8;
  m.head_dim = m.value_dim = 64;
  m.ffn_hidden_size = 1536;
  m.activation = Activation::swiglu;
  m.vocab_size = vocabulary;
  m.mtp.num_layers = modules;
  p.training.seq_length = 256;
  p.parallel.pipeline = stages;
  return p;
}

/// Multiplications per token, by hand: of a layer 4 h h of attention's matrices, 3 h f of the MLP's and 2 h (s + 1) / 2 of
/// queries with keys and of their weights with values; of a head h v; of a module a layer, 2 h h and a head.
double longest_stage(const Split& s, std::int64_t modules, std::int64_t vocabulary) {
  const double layer = 4 * 512 * 512 + 3 * 512 * 1536 + 2 * 512 * 257 / 2.0, head = 512.0 * static_cast<double>(vocabulary);
  const double ends = head + static_cast<double>(modules) * (layer + 2 * 512 * 512 + head);
  double most = static_cast<double>(s.back()) * layer + ends;
  for (std::size_t k = 0; k + 1 < s.size(); ++k) most = std::max(most, static_cast<double>(s[k]) * layer);
  return most;
}

/// The least that the longest stage can compute: the last stage has any number of layers, the others as equal ones as there are.
double least_longest(std::int64_t layers, std::int64_t stages, std::int64_t modules, std::int64_t vocabulary) {
  double least = 1e300;
  for (std::int64_t last = 1; last <= layers - stages + 1; ++last) {
    Split s(static_cast<std::size_t>(stages), (layers - last) / (stages - 1));
    s[0] += (layers - last) % (stages - 1) > 0 ? 1 : 0;
    s.back() = last;
    least = std::min(least, longest_stage(s, modules, vocabulary));
  }
  return least;
}

}  // namespace

TEST_CASE("with modules of multi-token prediction no other split has a shorter longest stage, if layers do not divide") {
  for (const std::int64_t vocabulary : {256, 8192, 65536})
    for (const std::int64_t modules : {1, 2})
      for (std::int64_t layers = 3; layers <= 40; ++layers)
        for (std::int64_t stages = 2; stages < layers; ++stages) {
          if (layers % stages == 0) continue;
          CAPTURE(vocabulary, modules, layers, stages);
          const Split s = with_modules(layers, stages, modules, vocabulary).layers_per_stage();
          REQUIRE(static_cast<std::int64_t>(s.size()) == stages);
          REQUIRE(std::accumulate(s.begin(), s.end(), std::int64_t{0}) == layers);
          REQUIRE(*std::min_element(s.begin(), s.end()) >= 1);
          REQUIRE(longest_stage(s, modules, vocabulary) == Approx(least_longest(layers, stages, modules, vocabulary)));
        }
}

TEST_CASE("layers that divide are split evenly beside modules, too, as Megatron-Core does") {
  CHECK(with_modules(12, 4, 1, 65536).layers_per_stage() == Split(4, 3));
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

namespace {

constexpr StackSplits kAny{StageChoice::any, false}, kAnyOrNone{StageChoice::any, true}, kEnds{StageChoice::ends, false};

/// Calls f with every split of `layers` over `parts` consecutive parts.
template <class F>
void for_every_split(std::int64_t layers, std::int64_t parts, F&& f, Split begun = {}) {
  if (parts == 1) return begun.push_back(layers), f(begun);
  for (std::int64_t n = 0; n <= layers; ++n) {
    Split more = begun;
    more.push_back(n);
    for_every_split(layers - n, parts - 1, f, std::move(more));
  }
}

/// Whether `splits` can say a split; written apart from models/planfile.
bool can_say(const StackSplits& splits, const Split& s) {
  const bool middle = s.size() < 3 || *std::min_element(s.begin() + 1, s.end() - 1) > 0;
  const bool alike = s.size() < 3 || std::all_of(s.begin() + 1, s.end() - 1, [&](std::int64_t n) { return n == s[1]; });
  return middle && (splits.empty_ends || std::min(s.front(), s.back()) > 0) && (splits.choice == StageChoice::any || alike);
}

double longest_of(const Split& s, const LayerCosts& costs) {
  double most = 0;
  std::size_t layer = 0;
  for (std::size_t k = 0; k < s.size(); ++k) {
    double sum = (k == 0 ? costs.first : 0) + (k + 1 == s.size() ? costs.last : 0);
    for (std::int64_t n = 0; n < s[k]; ++n) sum += costs.layers[layer++];
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

TEST_CASE("no split that a stack can say has a shorter longest stage than the one that is named, whatever each layer costs") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> cost(0.5, 4), end(0, 9);
  std::int64_t named = 0;
  for (int i = 0; i < 300; ++i) {
    Plan p;
    p.model.num_layers = 2 + i % 8;
    p.parallel.pipeline = 2 + i % 3;
    if (p.parallel.pipeline > p.model.num_layers) continue;
    LayerCosts costs{{}, end(random) / 9, i % 2 == 0 ? end(random) : 0};
    for (std::int64_t l = 0; l < p.model.num_layers; ++l) costs.layers.push_back(cost(random));
    const double now = longest_of(p.layers_per_stage(), costs);
    for (const StackSplits& splits : {kAny, kAnyOrNone, kEnds}) {
      double least = now;
      for_every_split(p.model.num_layers, p.parallel.pipeline,
                      [&](const Split& s) { if (can_say(splits, s)) least = std::min(least, longest_of(s, costs)); });
      CAPTURE(i, p.model.num_layers, p.parallel.pipeline, now, least);
      const auto found = shorter_split(p, costs, splits);
      REQUIRE(found.has_value() == (least < 0.97 * now));
      if (!found) continue;
      ++named;
      CHECK(can_say(splits, *found));
      CHECK(std::accumulate(found->begin(), found->end(), std::int64_t{0}) == p.model.num_layers);
      CHECK(longest_of(*found, costs) == Approx(least));
    }
    CHECK_FALSE(shorter_split(p, costs, StackSplits{}));
  }
  CHECK(named > 100);
}

TEST_CASE("chunks and a V add to their stages, and the first and last stage of a framework share its chunks evenly") {
  Plan p;
  p.model.num_layers = 12;
  p.parallel.pipeline = 2;
  p.parallel.virtual_pipeline = 2;
  p.parallel.schedule = ScheduleKind::interleaved;
  const LayerCosts costs{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0.5, 4};
  CHECK(costs_of_stages(p, costs, {3, 3, 3, 3}) == std::vector<double>{6.5, 10});
  CHECK(shorter_split(p, costs, kEnds) == Split{4, 2, 4, 2});  // 8.5 and 8
  p.parallel.schedule = ScheduleKind::dualpipe_v;
  CHECK(costs_of_stages(p, costs, {3, 3, 3, 3}) == std::vector<double>{10.5, 6});
}

TEST_CASE("with chunks, the shares of a framework's first and last stage are the best of all") {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> cost(0.5, 4), end(0, 12);
  std::int64_t named = 0;
  for (int i = 0; i < 200; ++i) {
    Plan p;
    const std::int64_t chunks = 1 + i % 3, stages = 2 + i % 4, of_chunk = stages + i % 5;
    p.model.num_layers = chunks * of_chunk;
    p.parallel.pipeline = stages;
    p.parallel.virtual_pipeline = chunks;
    p.parallel.schedule = chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
    LayerCosts costs{{}, end(random) / 9, end(random)};
    for (std::int64_t l = 0; l < p.model.num_layers; ++l) costs.layers.push_back(cost(random));
    const auto longest = [&](const Split& s) {
      const std::vector<double> of = costs_of_stages(p, costs, s);
      return *std::max_element(of.begin(), of.end());
    };
    const double now = longest(p.layers_per_stage());
    double least = now;
    for_every_split(of_chunk, stages, [&](const Split& s) {
      if (!can_say(kEnds, s)) return;
      Split all;
      for (std::int64_t c = 0; c < chunks; ++c) all.insert(all.end(), s.begin(), s.end());
      least = std::min(least, longest(all));
    });
    CAPTURE(i, chunks, stages, of_chunk, now, least);
    const auto found = shorter_split(p, costs, kEnds);
    REQUIRE(found.has_value() == (least < 0.97 * now));
    if (!found) continue;
    ++named;
    CHECK(longest(*found) == Approx(least));
  }
  CHECK(named > 50);
}

TEST_CASE("a split of the largest number of layers is found at once") {
  Plan p;
  p.model.num_layers = 100'000;
  p.parallel.pipeline = 3;
  LayerCosts costs{std::vector<double>(100'000, 1.0), 0, 20'000};
  CHECK(shorter_split(p, costs, kEnds) == Split{40'000, 40'000, 20'000});
}

TEST_CASE("a balanced split is refused where only some layers of a stage compute again") {
  const auto plan_with = [](const std::string& recompute) {
    return parse_plan(R"({"model": {"family": "llama", "num_layers": 16, "hidden_size": 512, "num_attention_heads": 8, "vocab_size": 128000},
                          "parallel": {"pipeline": 4, "pipeline_split": "balanced"}, "cluster": {"preset": "dgx-h100", "devices": 4},
                          "training": {"seq_length": 512, "micro_batch_size": 1, "global_batch_size": 8)" + recompute +
                          R"(}, "stack": "megatron-core"})", "split.json");
  };
  CHECK(plan_with("").layers_per_stage() != Split(4, 4));
  CHECK(plan_with(R"(, "recompute": "full")").layers_per_stage() != Split(4, 4));
  CHECK_THROWS_WITH(plan_with(R"(, "recompute": "full", "recompute_layers": 2)"),
                    Catch::Contains("training.recompute_layers 2 repeats the first ones of each"));
}

TEST_CASE("FLOPs of layers and ends add up to the model's, and a layer that is computed again has a pass more") {
  Plan p = with_modules(6, 2, 1, 8192);
  p.model.moe.num_experts = 8;
  p.model.moe.experts_per_token = 2;
  p.model.moe.ffn_hidden_size = 512;
  p.model.moe.first_dense_layers = 2;
  LayerCosts costs = flops_of_layers(p);
  CHECK(std::accumulate(costs.layers.begin(), costs.layers.end(), costs.last) == Approx(3 * forward_flops(p.model, 256)));
  CHECK(costs.layers[0] == costs.layers[1]);
  CHECK(costs.layers[1] != costs.layers[2]);
  p.training.recompute = Recompute::full;
  CHECK(flops_of_layers(p).layers[5] == Approx(costs.layers[5] * 4 / 3));
  CHECK(flops_of_layers(p).last == Approx(costs.last));
  p.model.family = Family::bert;
  CHECK(flops_of_layers(p).layers.empty());
}

namespace {

/// 61 layers, of which the first three are dense, and a large head.
Plan balanced(const std::string& stack, std::int64_t stages, const std::string& more = "") {
  const std::string n = std::to_string(stages);
  return parse_plan(R"({"model": {"family": "llama", "num_layers": 61, "hidden_size": 1024, "num_attention_heads": 8, "vocab_size": 131072,
                        "ffn_hidden_size": 9216, "moe": {"num_experts": 16, "experts_per_token": 4, "ffn_hidden_size": 1024, "first_dense_layers": 3}},
                        "parallel": {"pipeline_split": "balanced", )" + more + R"("pipeline": )" + n + R"(},
                        "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 32},
                        "cluster": {"preset": "dgx-h100", "devices": )" + n + R"(}, "stack": )" + stack + "}",
                    "balanced.json");
}

}  // namespace

TEST_CASE("a balanced split follows FLOPs as far as the stack's options go, and a stack without such options is told") {
  for (const std::int64_t stages : {4, 8, 16}) {
    CAPTURE(stages);
    const Plan any = balanced(R"("megatron-core")", stages), ends = balanced(R"({"name": "megatron-core", "as_of": "2025-03"})", stages);
    const LayerCosts costs = flops_of_layers(any);
    Plan automatic = any;
    automatic.parallel.pipeline_split.clear();
    const double even = longest_of(automatic.layers_per_stage(), costs);
    CHECK(longest_of(any.layers_per_stage(), costs) < 0.97 * even);
    CHECK(longest_of(any.layers_per_stage(), costs) <= longest_of(ends.layers_per_stage(), costs));
    CHECK(can_say(kEnds, ends.layers_per_stage()));
    CHECK(to_json(any).find("\"balanced\"") == std::string::npos);
  }
  CHECK(balanced(R"("megatron-core")", 1).parallel.pipeline_split.empty());
  CHECK_THROWS_WITH(balanced(R"({"name": "megatron-core", "as_of": "2024-01"})", 4),
                    Catch::Contains("parallel.pipeline_split") &&
                        Catch::Contains("stack megatron-core has no option for the layers of stages at 2024-01"));
  CHECK_THROWS_AS(balanced(R"("internevo")", 4), ConfigError);
}

TEST_CASE("a balanced split is refused for a family whose layers' FLOPs are not known, unless there is one stage") {
  const auto read = [](const std::string& stages) {
    return parse_plan(R"({"model": {"preset": "bert-1.5b"}, "parallel": {"pipeline_split": "balanced", "pipeline": )" + stages + R"(},
                          "training": {"seq_length": 512, "micro_batch_size": 1, "global_batch_size": 32},
                          "cluster": {"preset": "dgx-h100", "devices": )" + stages + R"(}, "stack": "megatron-core"})",
                      "balanced.json");
  };
  CHECK(read("1").parallel.pipeline_split.empty());
  CHECK_THROWS_WITH(read("4"), Catch::Contains("parallel.pipeline_split") && Catch::Contains("which are not known of this model.family"));
}
