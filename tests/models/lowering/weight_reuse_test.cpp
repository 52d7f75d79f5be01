// What ZeRO 3 keeps gathered for its next use, against the rule played module by module: DeepSpeed keeps a parameter at the end of a use
// when, going through the modules of the forward and backward passes in order, it comes again before `stage3_max_reuse_distance`
// parameters have gone by (deepspeed/runtime/zero/partitioned_param_coordinator.py, __params_to_release).

#include "tests/models/lowering/memory_case.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::tests;

namespace {

constexpr int kWord = -1, kPositions = -2, kNorm = -3, kOutput = -4;  ///< layers are 0 and up

struct Rule {
  std::map<int, std::int64_t> sizes;              ///< elements of a unit
  std::vector<std::vector<int>> forward, backward;
  std::int64_t distance = 0, prefetch = 0;
  bool recompute = false;

  /// Whether what use `at` of the forward pass reads is not released at its end.
  bool stays(std::size_t at, int unit) const {
    std::vector<std::vector<int>> modules(forward.begin() + static_cast<std::ptrdiff_t>(at) + 1, forward.end());
    for (const std::vector<int>& use : backward)
      for (int time = 0; time < (recompute && use.front() >= 0 ? 2 : 1); ++time) modules.push_back(use);
    std::int64_t traversed = 0;
    for (const std::vector<int>& module : modules) {
      const bool again = std::ranges::find(module, unit) != module.end();
      if (again) return traversed < distance || at + 1 == forward.size();
      for (const int other : module) traversed += sizes.at(other);
    }
    return false;
  }

  /// Units gathered while a use computes, and how often one is gathered in both passes.
  struct Played {
    std::vector<std::set<int>> held;
    std::int64_t gathers = 0;
  };
  Played play() const {
    Played played;
    std::multiset<int> kept;
    for (const bool first : {true, false}) {
      const std::vector<std::vector<int>>& uses = first ? forward : backward;
      std::map<int, int> users;
      for (const int unit : kept) ++users[unit];
      std::set<int> waiting(kept.begin(), kept.end());
      for (std::size_t at = 0, asked = 0; at < uses.size(); ++at) {
        for (; asked < uses.size() && asked <= at + static_cast<std::size_t>(prefetch); ++asked)
          for (const int unit : uses[asked]) {
            if (waiting.erase(unit) > 0) continue;
            if (++users[unit] == 1) ++played.gathers;
          }
        std::set<int> held;
        for (const auto& [unit, n] : users)
          if (n > 0) held.insert(unit);
        played.held.push_back(held);
        for (const int unit : uses[at])
          if (!(first && stays(at, unit) && waiting.insert(unit).second)) --users[unit];
      }
      kept = {waiting.begin(), waiting.end()};
    }
    return played;
  }
};

}  // namespace

TEST_CASE("ZeRO 3 keeps what is read again within reuse_distance parameters, and gathers it once") {
  const bool tied = GENERATE(false, true), recompute = GENERATE(false, true);
  const std::int64_t prefetch = GENERATE(0, 1), layers_between = GENERATE(0, 1, 4, 5, 7, 50);
  CAPTURE(tied, recompute, prefetch, layers_between);
  MemoryCase c = odd_sizes();
  c.layers = 5;
  c.data = 2;
  c.model = {{"tie_embeddings", tied}};
  c.training["recompute"] = recompute ? "full" : "none";
  const std::int64_t h = c.hidden, f = c.ffn;
  const auto unit = [&](std::int64_t elements) { return up(up(elements, 64), 128); };
  Rule rule;
  rule.sizes = {{kWord, unit(c.vocab * h)}, {kPositions, unit(c.seq * h)}, {kNorm, unit(2 * h)}, {kOutput, unit(c.vocab * h)}};
  const std::int64_t layer = unit(4 * h + 3 * h * h + 3 * h + h * h + h + f * h + f + f * h + h);
  for (int l = 0; l < c.layers; ++l) rule.sizes[l] = layer;
  const int output = tied ? kWord : kOutput;
  rule.forward = {{kWord, kPositions}, {0}, {1}, {2}, {3}, {4}, {kNorm, output}};
  rule.backward = {{kNorm, output}, {4}, {3}, {2}, {1}, {0}, {kPositions}};
  rule.distance = 2 * (rule.sizes[kNorm] + rule.sizes[kOutput]) + layers_between * layer;
  if (layers_between == 0) rule.distance = 0;
  rule.prefetch = prefetch;
  rule.recompute = recompute;
  c.parallel = {{"zero_stage", 3}, {"prefetch_layers", prefetch}, {"reuse_distance", rule.distance}};
  const TaskGraph graph = lower(c.plan());
  const StageOf stage(graph, 0);
  const Rule::Played played = rule.play();

  std::int64_t gathers = 0;
  for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i) gathers += stage.block(i) == "weight_gather";
  CHECK(gathers == c.micro_batches * played.gathers);
  const auto holds = [&](const char* block, std::int64_t l, std::int64_t mb, Phase phase) {
    return stage.alive(stage.find(block, l, mb, phase), [](const Allocation& a) { return a.name == "unit_weights"; });
  };
  const auto bytes = [&](std::size_t use) {
    std::int64_t sum = 0;
    for (const int u : played.held[use]) sum += aligned(2 * rule.sizes.at(u));
    return sum;
  };
  for (std::int64_t mb = 0; mb < c.micro_batches; ++mb) {
    CHECK(holds("embed_forward", -1, mb, Phase::forward) == bytes(0));
    for (std::int64_t l = 0; l < c.layers; ++l) {
      CHECK(holds("block_forward", l, mb, Phase::forward) == bytes(static_cast<std::size_t>(l) + 1));
      CHECK(holds("block_backward", l, mb, Phase::backward) == bytes(static_cast<std::size_t>(12 - l)));
    }
    CHECK(holds("head_forward", -1, mb, Phase::forward) == bytes(6));
    CHECK(holds("head_backward", -1, mb, Phase::backward) == bytes(7));
    CHECK(holds("embed_backward", -1, mb, Phase::backward) == bytes(13));
  }
}

TEST_CASE("what an encoder and a decoder both read stays no longer than to its last use, however early that asks for it") {
  const std::string positions = GENERATE("learned", "relative");
  const std::int64_t prefetch = GENERATE(0, 1, 2, 50), distance = GENERATE(0, 3000, 8000, 20'000, 1'000'000'000);
  CAPTURE(positions, prefetch, distance);
  const auto gathers = [&](std::int64_t micro_batches) {
    const nlohmann::json p = {
        {"model", {{"family", "t5"}, {"num_layers", 3}, {"num_decoder_layers", 4}, {"hidden_size", 24}, {"num_attention_heads", 4},
                   {"vocab_size", 37}, {"position_embedding", positions}, {"max_position_embeddings", 21}, {"tie_embeddings", true}}},
        {"parallel", {{"data", 2}, {"zero_stage", 3}, {"prefetch_layers", prefetch}, {"reuse_distance", distance}}},
        {"training", {{"seq_length", 16}, {"decoder_seq_length", 8}, {"micro_batch_size", 1}, {"global_batch_size", 2 * micro_batches}}},
        {"cluster", {{"preset", "cpu-host"}, {"devices", 2}}}};
    nlohmann::json without = p;
    if (positions == "relative") without["model"].erase("max_position_embeddings");
    const TaskGraph graph = lower(parse_plan(without.dump(), "t5.json"));
    const StageOf stage(graph, 0);
    const auto end = static_cast<std::uint32_t>(stage.program().instances.size()) - 1;
    CHECK(stage.alive(end, [](const Allocation& a) { return a.name == "unit_weights"; }) == 0);
    std::int64_t sum = 0;
    for (std::uint32_t i = 0; i <= end; ++i) sum += stage.block(i) == "weight_gather";
    return sum;
  };
  CHECK(gathers(2) == 2 * gathers(1));
}

TEST_CASE("A weight pass gathers nothing unless it computes a product again") {
  struct Again {
    const char* module;  ///< recomputed; "": nothing
    bool product;
  };
  const Again again = GENERATE(Again{"", false}, Again{"norm", false}, Again{"core_attention", false}, Again{"operations", false},
                               Again{"mlp", true});
  const std::string fusion = GENERATE("reference", "megatron"), family = GENERATE("gpt", "llama");
  const std::string schedule = GENERATE("zb-h1", "zb-h2");
  CAPTURE(again.module, fusion, family, schedule);
  MemoryCase c;
  c.layers = 4;
  c.micro_batches = 3;
  c.data = c.pipeline = 2;
  c.model = {{"family", family}};
  c.training["fusion"] = fusion;
  if (*again.module != '\0') {
    c.training["recompute"] = "selective";
    c.training["recompute_modules"] = {again.module};
  }
  const auto lowered = [&](const std::string& order) {
    c.parallel = {{"zero_stage", 3}, {"prefetch_layers", 0}, {"schedule", order}};
    return lower(c.plan());
  };
  const TaskGraph split = lowered(schedule), whole = lowered("1f1b");
  for (std::int64_t s = 0; s < c.pipeline; ++s) {
    const StageOf stage(split, s), like(whole, s);
    const auto gathers = [](const StageOf& of) {
      std::int64_t sum = 0;
      for (std::uint32_t i = 0; i < of.program().instances.size(); ++i) sum += of.block(i) == "weight_gather";
      return sum;
    };
    const std::int64_t layers = c.layers / c.pipeline;
    CHECK(gathers(stage) - gathers(like) == (again.product ? layers * c.micro_batches : 0));
    for (std::int64_t l = s * layers; l < (s + 1) * layers; ++l)
      for (std::int64_t mb = 0; mb < c.micro_batches; ++mb) {
        const auto held = stage.alive(stage.find("block_weights", l, mb, Phase::weight),
                                      [](const Allocation& a) { return a.name == "unit_weights"; });
        CHECK((held > 0) == again.product);
      }
  }
}

TEST_CASE("a breadth-first schedule gathers a chunk's weights once in each direction, whatever its micro-batches, and holds them meanwhile") {
  const std::int64_t prefetch = GENERATE(0, 1, 3), micro_batches = GENERATE(2, 3, 5);
  const bool recompute = GENERATE(false, true);
  CAPTURE(prefetch, micro_batches, recompute);
  MemoryCase c = odd_sizes();
  c.layers = 12;
  c.micro_batches = micro_batches;
  c.data = c.pipeline = 2;
  c.model = {{"tie_embeddings", false}};
  c.training["recompute"] = recompute ? "full" : "none";
  c.parallel = {{"zero_stage", 3}, {"prefetch_layers", prefetch}, {"schedule", "breadth-first"}, {"virtual_pipeline", 2}};
  const TaskGraph graph = lower(c.plan());
  const std::int64_t chunk = 3, h = c.hidden, f = c.ffn;
  const auto bytes = [&](std::int64_t elements) { return aligned(2 * up(up(elements, 64), 128)); };
  const std::int64_t layer = bytes(4 * h + 3 * h * h + 3 * h + h * h + h + f * h + f + f * h + h);
  for (std::int64_t s = 0; s < 2; ++s) {
    const StageOf stage(graph, s);
    std::int64_t gathers = 0;
    for (std::uint32_t i = 0; i < stage.program().instances.size(); ++i) gathers += stage.block(i) == "weight_gather";
    // Word matrix and positions, and positions once more; last norm and output matrix, twice.
    CHECK(gathers == 2 * 2 * chunk + (s == 0 ? 3 : 4));
    const auto layers_held = [&](const char* block, std::int64_t l, std::int64_t mb, Phase phase) {
      std::int64_t n = 0;
      stage.alive(stage.find(block, l, mb, phase), [&](const Allocation& a) {
        n += a.name == "unit_weights" && aligned(a.bytes.count()) == layer;
        return false;
      });
      return n;
    };
    for (std::int64_t v = 0; v < 2; ++v)
      for (std::int64_t mb = 0; mb < micro_batches; ++mb)
        for (std::int64_t k = 0; k < chunk; ++k) {  // of the chunk's layers in the order of a pass
          const std::int64_t first = (2 * v + s) * chunk;
          std::int64_t held = chunk;
          if (mb == 0) held = std::min(k + 1 + prefetch, chunk);
          if (mb == micro_batches - 1) held = chunk - k;
          CAPTURE(s, v, mb, k);
          CHECK(layers_held("block_forward", first + k, mb, Phase::forward) == held);
          CHECK(layers_held("block_backward", first + chunk - 1 - k, mb, Phase::backward) == held);
        }
  }
}
