// What the canonical arithmetic promises bit for bit (docs/architecture.md): losses, norms, gradients and weights, with
// clipping and dropout on, over three, four and eight data ranks.

#include <nlohmann/json.hpp>

#include "models/schedule/pass_work.hpp"
#include "tests/agree/closeness.hpp"
#include "tests/agree/features.hpp"
#include "tests/agree/layouts.hpp"
#include "tests/agree/ledger.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using exec::RunResult;
using tests::check_equal;

namespace {

using Patches = std::vector<std::string>;

constexpr int kSteps = 2;

std::string patch(const std::string& section, const std::string& field, const std::string& value) {
  return "{\"" + section + "\": {\"" + field + "\": " + value + "}}";
}
std::string parallel(const std::string& field, int value) { return patch("parallel", field, std::to_string(value)); }
std::string parallel(const std::string& field, const std::string& name) {
  return patch("parallel", field, "\"" + name + "\"");
}
std::string training(const std::string& field, const std::string& name) {
  return patch("training", field, "\"" + name + "\"");
}
std::string patch_of(tests::Dim dim, std::string_view label) {
  for (const tests::Value& v : tests::features()[static_cast<std::size_t>(dim)].values)
    if (v.label == label) return std::string(v.patch);
  throw ContractError("no such value of a feature");
}
bool has_indexer(std::string_view label) { return label.find('+') != label.npos; }
/// "latent", or "latent+3 keys" with an indexer.
std::string model(std::string_view label) {
  const std::string plain = patch_of(tests::Dim::model, label.substr(0, label.find('+')));
  if (!has_indexer(label)) return plain;
  nlohmann::json both = nlohmann::json::parse(plain);
  both.merge_patch(nlohmann::json::parse(patch_of(tests::Dim::indexer, label.substr(label.find('+') + 1))));
  return both.dump();
}

Patches with(Patches all, const Patches& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string text(const Patches& patches) {
  std::string t;
  for (const std::string& p : patches) t += p + "\n";
  return t;
}

/// Trains the small plan with `patches`; clipping must be at work, or half of what is promised was not tried.
RunResult trained(const Patches& patches, int micro_batches) {
  const Plan plan = parse_plan(tests::small_json(patches, micro_batches), "bitwise");
  RunResult run = tests::train(plan, kSteps);
  CHECK(run.steps.front().grad_norm > plan.training.clip_grad);
  CHECK((plan.training.dropout.attention > 0) == (plan.model.indexer.heads == 0));
  return run;
}

void check_all_equal(const Patches& base, const std::vector<Patches>& variants, int micro_batches) {
  const RunResult plain = trained(base, micro_batches);
  for (const Patches& v : variants) {
    INFO(text(with(base, v)));
    check_equal(trained(with(base, v), micro_batches), plain);
  }
}

/// Every way of running the layers on `stages` stages; eight layers are two chunks each on four.
std::vector<Patches> schedules(int stages) {
  std::vector<Patches> all;
  for (const char* kind : {"1f1b", "gpipe", "zb-h1", "zb-h2"})
    all.push_back({parallel("pipeline", stages), parallel("schedule", kind)});
  if (stages > 1) {
    all.push_back({parallel("pipeline", stages), parallel("schedule", "interleaved"), parallel("virtual_pipeline", 2)});
    all.push_back({parallel("pipeline", stages), parallel("schedule", "zb-v")});
  }
  return all;
}

std::vector<Patches> recomputations(bool experts) {
  std::vector<Patches> all{{training("recompute", "full")},
                           {training("recompute", "full"), patch("training", "recompute_layers", "1")}};
  std::vector<std::string> modules{"core_attention", "norm", "mlp", "operations"};
  if (experts) modules.insert(modules.end(), {"moe", "moe_activation"});
  for (const std::string& m : modules)
    all.push_back({training("recompute", "selective"), patch("training", "recompute_modules", "[\"" + m + "\"]")});
  all.push_back({training("recompute", "selective"), patch("training", "recompute_modules", "[\"operations\"]"),
                 patch("training", "recompute_products", "true")});
  all.push_back({training("recompute", "selective"), patch("training", "recompute_modules", R"(["operations", "core_attention"])"),
                 patch("training", "recompute_products", "true")});
  return all;
}

}  // namespace

TEST_CASE("ZeRO 1 is ZeRO 0 and ZeRO 3 is ZeRO 2 bit for bit") {
  const int data = GENERATE(3, 4, 8);
  const Patches base{parallel("data", data), training("precision", GENERATE("fp32", "fp64", "bf16")),
                     training("optimizer", GENERATE("adamw", "lamb", "lans"))};
  check_all_equal(base, {{parallel("zero_stage", 1)}}, 3);
  check_all_equal(with(base, {parallel("zero_stage", 2)}),
                  {{parallel("zero_stage", 3)}, {parallel("zero_stage", 3), parallel("prefetch_layers", 0)}}, 3);
}

TEST_CASE("Muon's states on owners of whole parameters are ZeRO 0 bit for bit") {
  const Patches base{parallel("data", GENERATE(2, 3, 4)), training("precision", GENERATE("fp32", "fp64", "bf16")), training("optimizer", "muon"),
                     model(GENERATE("gpt", "llama", "gemma4", "delta", "latent", "mtp", "moe-top2"))};
  const Patches owned = with(base, {parallel("zero_stage", 1)});
  check_all_equal(base, {{parallel("zero_stage", 1)}, {parallel("zero_stage", 1), patch("parallel", "overlap_param_gather", "true")}}, 3);
  check_all_equal(owned, {{parallel("pipeline", 2)}, {parallel("pipeline", 2), patch("parallel", "bucket_bytes", "1")}}, 3);
}

TEST_CASE("Muon's owners change no bit beside tensor ranks, expert ranks and groups of data ranks") {
  const Patches more = GENERATE(values<Patches>({
      {model("llama"), parallel("tensor", 2), parallel("data", 3)},
      {model("llama"), parallel("data", 4), parallel("zero_group", 2)},
      {model("moe-top2"), parallel("data", 4), parallel("expert", 2)},
      {model("moe-top2"), parallel("data", 2), parallel("expert", 2)},
      {model("moe-deepseek"), parallel("data", 4), parallel("expert", 2), parallel("pipeline", 2)},
  }));
  const Patches base = with(more, {training("precision", GENERATE("fp32", "bf16")), training("optimizer", "muon")});
  check_all_equal(base, {{parallel("zero_stage", 1)}}, 3);
}

TEST_CASE("weights that stay gathered for their next use change no bit") {
  const std::string precision = GENERATE("fp32", "fp64", "bf16");
  const Patches base{parallel("data", GENERATE(3, 4)), parallel("zero_stage", 3), training("precision", precision),
                     model(GENERATE("gpt", "llama", "t5", "moe-top2")), training("recompute", GENERATE("none", "full"))};
  std::vector<Patches> variants{{parallel("reuse_distance", 3'000)},
                                {parallel("reuse_distance", 1'000'000'000)},
                                {parallel("reuse_distance", 10'000), parallel("prefetch_layers", 0)}};
  if (precision != "bf16") variants.push_back({parallel("reuse_distance", 1'000'000'000), parallel("unit_copies", "flat")});
  check_all_equal(base, variants, 3);
}

// Gradients of units that are copied have the weights' type until they are, as FSDP has them: narrow ones are rounded there.
TEST_CASE("copies around the units of ZeRO 3 change no bit where weights are as wide as gradients") {
  const Patches base{parallel("data", GENERATE(3, 4)), parallel("zero_stage", 3), training("precision", GENERATE("fp32", "fp64")),
                     model(GENERATE("gpt", "llama", "moe-top2"))};
  const char* overlap = GENERATE("true", "false");
  check_all_equal(with(base, {patch("parallel", "overlap_grad_reduce", overlap)}),
                  {{parallel("unit_copies", "flat")},
                   {parallel("unit_copies", "per_parameter")},
                   {patch("parallel", "root_unit", "true")},
                   {parallel("unit_copies", "flat"), patch("parallel", "root_unit", "true")}},
                  3);
}

TEST_CASE("ranks that get whole sums of gradients keep the bits of their shares") {
  const Patches base{parallel("data", GENERATE(2, 3)), parallel("zero_stage", GENERATE(1, 2)), model(GENERATE("gpt", "moe-top2")),
                     training("precision", GENERATE("fp32", "bf16")), patch("parallel", "overlap_grad_reduce", GENERATE("true", "false"))};
  const char* reduced_in = GENERATE("fp32", "bf16");
  const std::string types = std::string(R"({"training": {"dtypes": {"gradient_reduce": ")") + reduced_in + R"("}}})";
  check_all_equal(with(base, {types}), {{patch("parallel", "reduce_scatter", "false")}}, 3);
}

TEST_CASE("with weights and gradients whole between micro-batches ZeRO 2 and 3 are ZeRO 0 bit for bit") {
  const char* schedule = GENERATE("1f1b", "gpipe", "zb-h1", "interleaved", "zb-v");
  const Patches base{"{\"stack\": \"pytorch-fsdp\"}", parallel("pipeline", 2), parallel("data", GENERATE(3, 4)),
                     training("precision", "fp32"), model(GENERATE("gpt", "llama")), parallel("schedule", schedule)};
  const Patches chunks = schedule == std::string("interleaved") ? with(base, {parallel("virtual_pipeline", 2)}) : base;
  check_all_equal(chunks, {{parallel("zero_stage", 2)}, {parallel("zero_stage", 3)}}, 3);
}

// Each parameter's gradients are still added micro-batch by micro-batch.
TEST_CASE("two passes at once beside the exchange of experts change no bit") {
  const Patches base{parallel("data", 2),
                     parallel("expert", 2),
                     parallel("zero_stage", GENERATE(0, 1)),
                     training("precision", GENERATE("fp32", "fp64", "bf16")),
                     model(GENERATE("moe-top2", "moe-dropless", "moe-shared", "moe-deepseek", "moe-mtp")),
                     patch("model", "num_layers", "8")};
  const std::string overlap = patch("parallel", "overlap_experts", "true");
  check_all_equal(base, {{overlap}, {overlap, training("recompute", "full")}}, 4);
  for (const int stages : {2, 4}) {
    const Patches staged = with(base, {parallel("pipeline", stages)});
    check_all_equal(staged, {{overlap}}, 4);
    const Patches chunks = with(staged, {parallel("schedule", "interleaved"), parallel("virtual_pipeline", 2)});
    check_all_equal(chunks, {{overlap}, {overlap, patch("parallel", "overlap_p2p", "false")}}, 4);
    const Patches folded{parallel("pipeline", stages), parallel("schedule", "dualpipe-v"), overlap};
    check_all_equal(base, {folded, with(folded, {training("recompute", "full")})}, 2 * stages + 1);
  }
}

TEST_CASE("two passes at once do exactly what was simulated") {
  const char* schedule = GENERATE("1f1b", "dualpipe-v");
  const int stages = GENERATE(1, 2);
  if (stages == 1 && schedule != std::string("1f1b")) return;
  const Patches plan_of{parallel("data", 2), parallel("expert", 2), parallel("pipeline", stages), parallel("schedule", schedule),
                        patch("parallel", "overlap_experts", "true"), model(GENERATE("moe-top2", "moe-shared")),
                        training("precision", "fp32")};
  const Plan plan = parse_plan(tests::small_json(plan_of, 4), "pairs");
  const TaskGraph graph = lower(plan);
  graph.check();
  const RunResult run = tests::train(plan, graph, kSteps);
  tests::check_same_books(plan, tests::executed_ledgers(run), tests::simulated_ledgers(plan, graph, kSteps));
}

TEST_CASE("with one micro-batch all stages of ZeRO are equal bit for bit") {
  const Patches base{parallel("data", GENERATE(3, 4, 8)), training("precision", GENERATE("fp32", "fp64", "bf16")),
                     model(GENERATE("gpt", "llama", "bert", "t5", "moe-top2"))};
  check_all_equal(base, {{parallel("zero_stage", 1)}, {parallel("zero_stage", 2)}, {parallel("zero_stage", 3)}}, 1);
}

TEST_CASE("schedules and the number of stages change no bit") {
  const Patches base{parallel("data", GENERATE(3, 4, 8)), training("precision", GENERATE("fp32", "fp64", "bf16")),
                     patch("model", "num_layers", "8"), patch("model", "tie_embeddings", GENERATE("true", "false"))};
  for (const int stages : {1, 2, 4}) check_all_equal(base, schedules(stages), 4);
}

TEST_CASE("schedules and the number of stages change no bit of any model under ZeRO") {
  const Patches base{parallel("data", 3), training("precision", "fp32"), patch("model", "num_layers", "8"),
                     parallel("zero_stage", GENERATE(1, 2, 3)),
                     model(GENERATE("llama", "bert", "bert-post-add", "bloom", "gemma", "moe-top2", "moe-shared", "moe-gpt-oss", "moe-deepseek",
                                    "latent", "mtp", "mtp-alibi", "moe-mtp", "latent+3 keys", "moe-mtp+3 keys"))};
  for (const int stages : {2, 4}) check_all_equal(base, schedules(stages), 5);
}

TEST_CASE("schedules and the number of stages change no bit of an optimizer that scales by norms of tensors") {
  // 37 words are padded to 128.
  const Patches base{parallel("data", 3), training("precision", GENERATE("fp32", "fp64", "bf16")), patch("model", "num_layers", "8"),
                     patch("model", "pad_vocab_to", "128"), patch("model", "tie_embeddings", GENERATE("true", "false")),
                     model(GENERATE("gpt", "bert")), training("optimizer", GENERATE("lamb", "lans")),
                     parallel("zero_stage", GENERATE(0, 3))};
  for (const int stages : {2, 4}) check_all_equal(base, {{parallel("pipeline", stages)}}, 4);
}

TEST_CASE("schedules and the number of stages change no bit of Muon, whose matrices are whole on their stages") {
  const Patches base{parallel("data", 2), training("precision", GENERATE("fp32", "fp64", "bf16")), patch("model", "num_layers", "8"),
                     model(GENERATE("gpt", "llama", "gemma4", "delta", "latent", "mtp", "moe-deepseek")), training("optimizer", "muon")};
  for (const int stages : {2, 4}) check_all_equal(base, {{parallel("pipeline", stages)}}, 4);
}

TEST_CASE("DualPipeV changes no bit of any model, whatever is tied, sharded, made again or waited for") {
  const Patches base{parallel("data", GENERATE(1, 3)), training("precision", GENERATE("fp32", "bf16")), patch("model", "num_layers", "8"),
                     patch("model", "tie_embeddings", GENERATE("true", "false")), parallel("zero_stage", GENERATE(0, 1)),
                     model(GENERATE("gpt", "llama", "bert", "moe-top2", "moe-deepseek", "moe-mtp"))};
  const Patches two{parallel("pipeline", 2), parallel("schedule", "dualpipe-v")};
  check_all_equal(base, {two, with(two, {patch("parallel", "overlap_p2p", "false")}), with(two, {training("recompute", "full")}),
                         with(two, {patch("parallel", "overlap_grad_reduce", "true")})}, 5);
  check_all_equal(base, {{parallel("pipeline", 4), parallel("schedule", "dualpipe-v")}}, 9);
}

TEST_CASE("zero-bubble schedules in a V change no bit, whatever is tied, sharded, made again or waited for") {
  const char* schedule = GENERATE("zb-v", "v-half", "v-min");
  const Patches base{parallel("data", 3), training("precision", GENERATE("fp32", "bf16")), patch("model", "num_layers", "8"),
                     patch("model", "tie_embeddings", GENERATE("true", "false")), parallel("zero_stage", GENERATE(0, 1, 3)),
                     model(GENERATE("gpt", "moe-deepseek"))};
  const Patches two{parallel("pipeline", 2), parallel("schedule", schedule)};
  const int few = 2, enough = 5;
  check_all_equal(base, {two, with(two, {patch("parallel", "overlap_p2p", "false")}), with(two, {training("recompute", "full")}),
                         with(two, {patch("parallel", "overlap_grad_reduce", "true")})}, enough);
  check_all_equal(base, {two, {parallel("pipeline", 4), parallel("schedule", schedule)}}, few);
}

TEST_CASE("an order of passes that is made for their costs changes no bit") {
  // Scores of 64 positions are much work that has no weights.
  const Patches base{patch("training", "seq_length", "64"), patch("model", "num_layers", "8"),
                     training("precision", GENERATE("fp32", "fp64", "bf16"))};
  const Patches automatic = with(base, {parallel("pipeline", 4), parallel("schedule", "zb-h2")});
  constexpr int kMicroBatches = 9;
  const ScheduleShape shape = schedule_shape(parse_plan(tests::small_json(automatic, kMicroBatches), "automatic"));
  CHECK(make_orders(ScheduleKind::zb_h2, shape) != make_orders(ScheduleKind::zb_h2, {shape.stages, shape.micro_batches}));
  check_equal(trained(automatic, kMicroBatches), trained(base, kMicroBatches));
}

// The shared tables of an encoder-decoder are used by several layers; their sums are added stage by stage, so its
// degrees of pipelining are equal to rounding only (models/lowering/README.md).
TEST_CASE("schedules change no bit of an encoder-decoder") {
  const Patches base{parallel("data", GENERATE(3, 4, 8)), training("precision", GENERATE("fp32", "fp64", "bf16")), model("t5"),
                     parallel("zero_stage", GENERATE(0, 2, 3)), parallel("pipeline", GENERATE(2, 4))};
  check_all_equal(base, {{parallel("schedule", "gpipe")}}, 4);
}

TEST_CASE("recomputation changes no bit") {
  const std::string kind = GENERATE("gpt", "t5", "moe-top2", "latent+3 keys");
  const bool one_way = kind == "t5" || has_indexer(kind);
  const Patches base{parallel("data", GENERATE(3, 4, 8)), training("precision", GENERATE("fp32", "fp64", "bf16")), model(kind),
                     patch("training", "flash_attention", one_way ? (kind == "t5" ? "false" : "true") : GENERATE("false", "true"))};
  check_all_equal(base, recomputations(kind == "moe-top2"), 2);
}

TEST_CASE("recomputation changes no bit on tensor ranks and stages", "[tsan]") {
  const Patches base{parallel("tensor", GENERATE(1, 2)), parallel("pipeline", GENERATE(1, 2)),
                     training("precision", "fp32")};
  check_all_equal(base, recomputations(false), 3);
}

TEST_CASE("recomputation that stops early changes no bit") {
  const std::string kind = GENERATE("gpt", "neox-chunks", "gemma", "falcon", "bert", "t5", "moe-top2", "moe-shared", "moe-gpt-oss", "moe-deepseek",
                                    "latent", "moe-mtp", "latent+3 keys");
  const std::string schedule = kind == "t5" ? "1f1b" : GENERATE("1f1b", "zb-h1");
  const int tensor = GENERATE(1, 2), zero = tensor == 1 ? GENERATE(0, 3) : 0;
  const Patches base{parallel("tensor", tensor), parallel("pipeline", 2), parallel("data", zero == 0 ? 1 : 2),
                     parallel("zero_stage", zero), parallel("schedule", schedule), model(kind),
                     training("precision", "fp32"),
                     patch("training", "dropout", GENERATE(R"({"hidden": 0})", R"({"hidden": 0.1})"))};
  const Patches full{training("recompute", "full"), patch("training", "recompute_early_stop", "true")};
  const Patches whole{training("recompute", "full"), patch("training", "recompute_early_stop", "false")};
  check_all_equal(base, {full, whole, with(full, {patch("training", "recompute_layers", "1")})}, 3);
}

TEST_CASE("recomputed modules that run to their end change no bit") {
  const std::string kind = GENERATE("gpt", "moe-top2", "moe-shared", "moe-gpt-oss", "moe-deepseek", "moe-dropless");
  const Patches base{parallel("tensor", GENERATE(1, 2)), parallel("pipeline", 2), parallel("schedule", GENERATE("1f1b", "zb-h1")), model(kind),
                     training("precision", GENERATE("fp32", "bf16"))};
  std::vector<Patches> variants;
  for (const std::string modules : {R"(["mlp"])", R"(["shared_experts"])", R"(["moe"])", R"(["mlp", "moe", "norm"])"})
    if (kind.starts_with("moe") || modules == R"(["mlp"])")
      variants.push_back({training("recompute", "selective"), patch("training", "recompute_modules", modules),
                          patch("training", "recompute_early_stop", "false")});
  check_all_equal(base, variants, 3);
}

TEST_CASE("recomputation changes no bit where a weight pass has no weights") {
  const std::string kind = GENERATE("gpt", "gemma", "neox-chunks", "falcon", "bloom", "moe-top2", "moe-shared", "moe-gpt-oss", "moe-deepseek",
                                    "latent", "mtp", "latent+3 keys");
  const Patches base{parallel("data", 2), parallel("pipeline", 2), parallel("zero_stage", 3), training("precision", "fp32"),
                     training("fusion", GENERATE("reference", "megatron")), model(kind)};
  std::vector<Patches> variants = recomputations(kind.starts_with("moe"));
  for (Patches& v : variants) v.push_back(parallel("schedule", v.size() % 2 ? "zb-h1" : "zb-h2"));
  check_all_equal(base, variants, 3);
}

TEST_CASE("n data ranks with one micro-batch each are n micro-batches on one rank, bit for bit", "[emulated]") {
  const int n = GENERATE(3, 4, 8);
  const std::string kind = GENERATE("gpt", "llama", "bert", "t5", "moe-top2", "moe-dropless", "mtp", "latent+3 keys");
  const Patches base{training("precision", GENERATE("fp32", "fp64", "bf16")), model(kind)};
  for (const int stages : {1, 2}) {
    const Patches piped = with(base, {parallel("pipeline", stages)});
    const RunResult one = trained(kind == "t5" ? piped : base, n);
    for (int zero = 0; zero < 4; ++zero) {
      const Patches layout = with(piped, {parallel("data", n), parallel("zero_stage", zero)});
      INFO(text(layout));
      check_equal(trained(layout, 1), one);
    }
  }
}

TEST_CASE("n data ranks are n micro-batches bit for bit also where products accumulate, and as where they do not") {
  const int n = GENERATE(3, 4);
  const Patches base{training("precision", GENERATE("fp32", "fp64", "bf16")), model(GENERATE("gpt", "llama", "moe-dropless"))};
  const RunResult plain = trained(base, n);
  for (const std::string set : {"transformer-engine", "llm.c"}) {
    const Patches fused = with(base, {training("fusion", set)});
    INFO(text(fused));
    const RunResult one = trained(fused, n);
    if (set == "llm.c") check_equal(one, plain);
    for (int zero = 0; zero < 4; ++zero)
      check_equal(trained(with(fused, {parallel("data", n), parallel("zero_stage", zero)}), 1), one);
  }
}

TEST_CASE("recomputation changes no bit of any fusion set") {
  const Patches base{training("precision", "fp64"), model(GENERATE("gpt", "llama", "t5", "moe-top2")), parallel("data", 3),
                     training("fusion", GENERATE("eager", "megatron", "compiled"))};
  check_all_equal(base, recomputations(false), 2);
}

TEST_CASE("buckets and overlap change no bit", "[tsan]") {
  const Patches base{parallel("data", 3), parallel("pipeline", 2), training("precision", "fp32"),
                     parallel("zero_stage", GENERATE(0, 1, 2, 3))};
  std::vector<Patches> variants;
  for (const int bytes : {1, 5000, 100000000})
    variants.push_back({patch("parallel", "overlap_grad_reduce", "true"), parallel("bucket_bytes", bytes)});
  variants.push_back({patch("parallel", "overlap_param_gather", "true")});
  check_all_equal(base, variants, 3);
}

TEST_CASE("deterministic mode changes no bit, tensors filled with NaN or not: the runtime always is, and reads nothing unwritten") {
  const Patches fixed{patch("training", "deterministic", "true")};
  const Patches filled = with(fixed, {patch("training", "fill_uninitialized_memory", "true")});
  const std::string fp64 = training("precision", "fp64");
  const Patches base{fp64, parallel("tensor", 2), parallel("pipeline", 2)};
  check_all_equal(base, {fixed, filled}, 3);
  check_all_equal(with(base, {training("fusion", "eager")}), {with(filled, {training("recompute", "full")})}, 3);
  check_all_equal({fp64, model("moe-dropless"), parallel("data", 2), parallel("expert", 2)}, {filled}, 3);
}

TEST_CASE("graphs of launches change no bit") {
  for (const char* graphs : {"layers", "iteration"})
    check_all_equal({training("precision", "fp64"), parallel("pipeline", 2), parallel("data", 2)}, {{training("cuda_graphs", graphs)}}, 3);
}

TEST_CASE("the same plan twice gives the same bits", "[tsan]") {
  const Patches base{parallel("tensor", 2),
                     patch("parallel", "sequence_parallel", "true"),
                     parallel("data", GENERATE(3, 4, 8)),
                     parallel("zero_stage", GENERATE(0, 2, 3)),
                     training("precision", GENERATE("fp32", "fp64", "bf16")),
                     model(GENERATE("gpt", "moe-top2")),
                     patch("parallel", "overlap_grad_reduce", "true")};
  check_all_equal(base, {{}}, 2);
}
