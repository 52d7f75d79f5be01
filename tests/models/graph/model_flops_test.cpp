// FLOPs that a model needs, by hand: they are the same on any number of tensor ranks, although ranks hold copies of some matrices.

#include <nlohmann/json.hpp>

#include "models/graph/stage_flops.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

constexpr std::int64_t kLayers = 2, kHidden = 64, kHeads = 8, kKeyHeads = 2, kHeadDim = 8, kFfn = 96;
constexpr std::int64_t kVocab = 128, kSeq = 16, kBatch = 2;

json plan_of(const json& model, std::int64_t tensor, bool rows_apart = false) {
  json plan = {{"model", {{"family", "llama"}, {"num_layers", kLayers}, {"hidden_size", kHidden}, {"num_attention_heads", kHeads},
                          {"num_kv_heads", kKeyHeads}, {"ffn_hidden_size", kFfn}, {"vocab_size", kVocab}, {"pad_vocab_to", 1}}},
               {"parallel", {{"tensor", tensor}, {"sequence_parallel", rows_apart}}},
               {"training", {{"seq_length", kSeq}, {"micro_batch_size", 1}, {"global_batch_size", kBatch}, {"precision", "bf16"},
                             {"flash_attention", true}}},
               {"cluster", {{"preset", "dgx-a100-80gb"}, {"devices", tensor}}},
               {"stack", "tandem"}};
  plan["model"].merge_patch(model);
  return plan;
}

double flops_of(const json& document) {
  const Plan plan = parse_plan(document.dump(), "flops.json");
  return model_flops_of_step(lower(plan), plan.world_size());
}

/// FLOPs of a step by hand: 6 for each weight and token, and three times those of `pairs` pairs of a query and a key a token.
double by_hand(std::int64_t value_dim, double pairs) {
  const std::int64_t in = kHeads * kHeadDim + kKeyHeads * (kHeadDim + value_dim), out = kHeads * value_dim;
  const std::int64_t weights = kLayers * kHidden * (in + out + 3 * kFfn) + kVocab * kHidden;
  const double attention = static_cast<double>(kLayers * 2 * kHeads * (kHeadDim + value_dim)) * pairs;
  return static_cast<double>(kBatch * kSeq) * (6.0 * static_cast<double>(weights) + 3 * attention);
}

const json kLatent = {{"num_kv_heads", kHeads}, {"latent", {{"kv_rank", 12}, {"query_rank", 20}, {"rotary_dim", 4}}}};

}  // namespace

TEST_CASE("copies of keys' and values' matrices count once") {
  for (const std::int64_t tensor : {1, 2, 4, 8})
    for (const bool rows_apart : {false, true}) {
      if (tensor == 1 && rows_apart) continue;
      CAPTURE(tensor, rows_apart);
      CHECK(flops_of(plan_of(json::object(), tensor, rows_apart)) == Approx(by_hand(kHeadDim, (kSeq + 1) / 2.0)).epsilon(1e-12));
    }
}

TEST_CASE("attention's backward pass is two times its forward pass, whatever its values' width and with scores kept or not") {
  for (const std::int64_t width : {4, 8, 24}) {
    json flash = plan_of({{"value_dim", width}}, 1), kept = flash;
    kept["training"]["flash_attention"] = false;
    CAPTURE(width);
    CHECK(flops_of(flash) == Approx(by_hand(width, (kSeq + 1) / 2.0)).epsilon(1e-12));
    CHECK(flops_of(kept) == Approx(by_hand(width, kSeq)).epsilon(1e-12));  // a score matrix has all pairs
  }
}

TEST_CASE("what tensor ranks do alike counts once: routers, latent attention's way down, indexers, modules, BERT's head, adapters") {
  json experts = {{"moe", {{"num_experts", 4}, {"experts_per_token", 2}, {"ffn_hidden_size", 32}, {"num_shared_experts", 1}}}};
  json indexed = kLatent, modules = experts;
  indexed["indexer"] = {{"heads", 4}, {"head_dim", 8}, {"topk", 6}};
  modules["mtp"] = {{"num_layers", 1}};
  const json bert = {{"family", "bert"}, {"num_kv_heads", kHeads}};
  for (const json& model : {experts, kLatent, indexed, modules, bert}) {
    const double alone = flops_of(plan_of(model, 1));
    for (const bool rows_apart : {false, true}) {
      INFO(model.dump() << rows_apart);
      CHECK(flops_of(plan_of(model, 4, rows_apart)) == Approx(alone).epsilon(1e-9));
    }
  }
  json adapted = plan_of(json::object(), 1), shared = plan_of(json::object(), 4, true);
  for (const json& lora : {json{{"rank", 4}}, json{{"rank", 4}, {"targets", {"q", "k", "v", "gate", "up"}}}}) {
    for (json* plan : {&adapted, &shared}) (*plan)["training"]["lora"] = lora;
    INFO(lora.dump());
    CHECK(flops_of(shared) == Approx(flops_of(adapted)).epsilon(1e-9));
  }
}
