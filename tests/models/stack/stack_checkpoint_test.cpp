// Sizes of checkpoints against published ones, and against bytes a parameter where none was published.

#include "models/stack/stack_checkpoint.hpp"

#include <nlohmann/json.hpp>

#include "models/base/presets.hpp"
#include "models/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/odd_stack.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::test;
using nlohmann::json;

namespace {

constexpr double kTB = 1e12, kTiB = 1099511627776.0, kGiB = 1073741824.0;

struct Case {
  json model, parallel, training = json::object();
  std::string preset, stack;

  Plan plan() const {
    json p{{"model", model}, {"parallel", parallel}, {"training", training}, {"stack", stack}, {"cluster", {{"preset", preset}}}};
    p["training"].update({{"seq_length", 2048}, {"micro_batch_size", 1}, {"global_batch_size", 1024}});
    return parse_plan(p.dump(), "plan.json");
  }
  double per_parameter() const {
    const Plan p = plan();
    return checkpoint_bytes(p) / static_cast<double>(count_parameters(p.model, p.model.vocab_size).total);
  }
};

const json kPlain{{"data", 8}}, kSmall{{"preset", "gpt2-345m"}, {"max_position_embeddings", 2048}};

}  // namespace

// The sources give two digits. A model's tensors that tensor ranks hold alike are in each of their files; here they count once.
constexpr double kDigits = 0.03;

TEST_CASE("the 6.7B model of AWS' tutorial saves about 76 GB, as tensors of XLA_USE_BF16 are fp32 on the host") {
  const Case aws{{{"preset", "gpt-6.7b"}}, {{"tensor", 8}, {"data", 4}}, {{"precision", "bf16"}}, "trn1.32xlarge", "neuron-megatron"};
  CHECK(checkpoint_bytes(aws.plan()) / kGiB == Approx(76).epsilon(kDigits));
  CHECK(aws.per_parameter() == 12);
  Case later = aws;
  later.stack = "neuronx";
  CHECK(later.per_parameter() == 12);
  later.parallel["zero_stage"] = 1;  // a master copy in fp32
  CHECK(later.per_parameter() == 14);
}

TEST_CASE("BLOOM saves 2.3 TB, of which 329 GB are weights in bf16 (BigScience's page of the 176B model)") {
  const Case bloom{{{"family", "bloom"}, {"num_layers", 70}, {"hidden_size", 14336}, {"num_attention_heads", 112}, {"vocab_size", 250880}},
                   {{"tensor", 4}, {"pipeline", 12}, {"data", 8}, {"zero_stage", 1}, {"pipeline_split", {5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}}},
                   {{"precision", "bf16"}}, "jean-zay-a100", "megatron-deepspeed"};
  CHECK(checkpoint_bytes(bloom.plan()) / kTiB == Approx(2.3).epsilon(kDigits));
  CHECK(checkpoint_bytes(bloom.plan()) / 7 / kGiB == Approx(329).epsilon(kDigits));
}

TEST_CASE("Megatron-LM's model of a trillion parameters saves 13.8 TB (arXiv 2104.04473, section 5.10)") {
  const Case megatron{{{"preset", "megatron-1t"}}, {{"tensor", 8}, {"pipeline", 64}, {"data", 1}}, {{"precision", "fp16"}}, "dgx-a100-80gb",
                      "megatron-core@2021-08"};
  CHECK(checkpoint_bytes(megatron.plan()) / kTB == Approx(13.8).epsilon(kDigits));
}

TEST_CASE("weights in 16 bits are not saved where only the wide ones are kept in shards") {
  Case c{kSmall, {{"data", 8}, {"zero_stage", 3}}, {{"precision", "bf16"}}, "dgx-a100-80gb", "pytorch-fsdp"};
  CHECK(c.per_parameter() == 12);
  c.stack = "megatron-deepspeed";
  CHECK(c.per_parameter() == 12);
  c.parallel["zero_stage"] = 2;
  CHECK(c.per_parameter() == 14);
}

TEST_CASE("of SGD there is one moment, and of fp32 no master copy") {
  const Case c{kSmall, kPlain, {{"precision", "fp32"}, {"optimizer", "sgd"}, {"momentum", 0.9}}, "dgx-a100-80gb", "tandem"};
  CHECK(c.per_parameter() == 8);
}

TEST_CASE("an entry for checkpoints says a type or whether narrow weights are written") {
  using tandem::tests::with_odd_stack;
  const auto read = [] {
    Plan plan;
    plan.stack.name = "odd";
    return std::string(stack_checkpoint(plan).narrow_weights ? "both" : "wide");
  };
  const auto said = [&](const std::string& entry) { return with_odd_stack("checkpoints", "[{" + entry + R"("source": "s", "verified": true}])", read); };
  CHECK(said(R"("narrow_weights": false, )") == "wide");
  CHECK(said(R"("floats": "fp32", )") == "both");
  CHECK(said("") == "an entry needs floats or narrow_weights");
  CHECK(said(R"("floats": "float", )") == "floats is no type");
  CHECK(said(R"("narrow_weights": 1, )") == "narrow_weights is neither true nor false");
}
