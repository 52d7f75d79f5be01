// A two-layer GPT and a two-layer LLaMA against PyTorch: tests/fixtures/gpt_pytorch.py wrote what it computed in fp64.

#include <cmath>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "exec/run.hpp"
#include "models/plan.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

json read_fixture(const std::string& family) {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/fixtures/" + family + "_pytorch.json");
  return json::parse(file);
}

Plan plan_of(const json& f, const std::string& precision, int pipeline) {
  const json plan = {
      {"model",
       {{"family", f["family"]}, {"num_layers", f["layers"]}, {"num_kv_heads", f["kv_heads"]}, {"tie_embeddings", f["tied"]},
        {"norm_epsilon", 1e-5}, {"hidden_size", f["hidden"]}, {"num_attention_heads", f["heads"]},
        {"ffn_hidden_size", f["ffn"]}, {"vocab_size", f["vocab"]}, {"pad_vocab_to", f["vocab"]}}},
      {"parallel", {{"pipeline", pipeline}}},
      {"training",
       {{"seq_length", f["seq"]}, {"micro_batch_size", 2}, {"global_batch_size", f["batch"]}, {"precision", precision},
        {"learning_rate", f["learning_rate"]}, {"beta1", f["beta1"]}, {"beta2", f["beta2"]}, {"epsilon", f["epsilon"]},
        {"weight_decay", f["weight_decay"]}, {"clip_grad", f["clip_grad"]}}},
      {"cluster", {{"preset", "cpu-host"}, {"devices", pipeline}}}};
  return parse_plan(plan.dump(), "fixture");
}

/// The fixture's batches in order.
class FixtureTokens : public exec::TokenSource {
 public:
  explicit FixtureTokens(const json& fixture) : fixture_(fixture) {}
  std::int64_t vocab_size() const override { return fixture_["vocab"]; }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    const json& batches = fixture_["sequences"];
    const auto batch = static_cast<std::int64_t>(fixture_["batch"]);
    const json& s = batches[static_cast<std::size_t>(index / batch)][static_cast<std::size_t>(index % batch)];
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = s[i];
  }

 private:
  const json& fixture_;
};

/// Passes everything on and keeps the logits of the first step as the loss reads them.
class LogitsTap : public exec::Backend {
 public:
  LogitsTap(std::vector<double>& logits, std::mutex& mutex)
      : inner_(exec::make_cpu_backend()), logits_(logits), mutex_(mutex) {}
  bool supports(const Op& op, DType t) const override { return inner_->supports(op, t); }
  std::unique_ptr<exec::Memory> allocate(std::size_t n) override { return inner_->allocate(n); }
  exec::BackendCounters counters() const override { return inner_->counters(); }
  void run(const Op& op, DType t, std::span<const std::byte* const> in, std::span<std::byte* const> out,
           const exec::KernelContext& context) override {
    if (const auto* max = std::get_if<VocabMax>(&op); max && context.step == 0) keep(*max, t, in[0]);
    inner_->run(op, t, in, out, context);
  }

 private:
  void keep(const VocabMax& op, DType t, const std::byte* logits) {
    const std::lock_guard lock(mutex_);
    for (std::int64_t i = 0; i < op.dims.rows * op.dims.cols; ++i)
      logits_.push_back(t == DType::fp64 ? reinterpret_cast<const double*>(logits)[i]
                                         : static_cast<double>(reinterpret_cast<const float*>(logits)[i]));
  }
  std::unique_ptr<exec::Backend> inner_;
  std::vector<double>& logits_;
  std::mutex& mutex_;
};

struct Trained {
  exec::RunResult result;
  std::vector<double> logits;
};

Trained train(const json& f, const std::string& precision, int pipeline) {
  const Plan plan = plan_of(f, precision, pipeline);
  Trained t;
  std::mutex mutex;
  exec::RunOptions options;
  options.steps = static_cast<std::int64_t>(f["losses"].size());
  options.gather_gradients = options.gather_weights = true;
  options.make_backend = [&] { return std::make_unique<LogitsTap>(t.logits, mutex); };
  options.initialise = [&](const std::string& name, std::vector<double>& full) {
    for (const json& p : f["initial"])
      if (p["name"] == name) full = p["values"].get<std::vector<double>>();
  };
  t.result = exec::run(plan, lower(plan), FixtureTokens(f), options);
  return t;
}

/// Largest difference, relative to the largest expected value.
double worst(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference = std::max(difference, std::abs(got[i] - expected[i]));
    scale = std::max(scale, std::abs(expected[i]));
  }
  return difference / scale;
}

/// The key's bias shifts all scores of a query alike, so its gradient is zero but for rounding, and AdamW divides that noise
/// by its own size: in single precision those entries wander freely without any effect on the model.
void forget_key_bias(const std::string& name, std::vector<double>& values) {
  if (name.find("qkv.bias") == std::string::npos) return;
  const std::size_t dim = values.size() / 9;  // of the GPT's three heads
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i / dim % 3 == 1) values[i] = 0;
}

double worst(const std::vector<exec::GatheredTensor>& tensors, const json& expected, bool key_bias) {
  auto got = tensors;
  REQUIRE(got.size() == expected.size());
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    REQUIRE(got[i].name == expected[i]["name"]);
    auto values = expected[i]["values"].get<std::vector<double>>();
    if (!key_bias) {
      forget_key_bias(got[i].name, values);
      forget_key_bias(got[i].name, got[i].values);
    }
    most = std::max(most, worst(got[i].values, values));
  }
  return most;
}

void check_against_pytorch(const std::string& precision, double tolerance) {
  const json f = read_fixture(GENERATE("gpt", "llama"));
  const Trained t = train(f, precision, GENERATE(1, 2));
  INFO(f["family"]);
  CHECK(worst(t.logits, f["logits"].get<std::vector<double>>()) < tolerance);
  CHECK(worst(t.result.gradients[0], f["gradients"], true) < tolerance);
  for (std::size_t s = 0; s < t.result.steps.size(); ++s) {
    INFO("step " << s);
    const double loss = f["losses"][s], grad_norm = f["grad_norms"][s];
    CHECK(std::abs(t.result.steps[s].loss - loss) < tolerance * loss);
    CHECK(std::abs(t.result.steps[s].grad_norm - grad_norm) < tolerance * grad_norm);
  }
  CHECK(worst(t.result.weights, f["final"], precision == "fp64") < tolerance);
}

}  // namespace

TEST_CASE("two-layer models give PyTorch's logits, gradients, losses and weights over 20 AdamW steps in fp64") {
  check_against_pytorch("fp64", 1e-9);
}

TEST_CASE("the same in fp32 to single precision") {
  // 1e-4: rounding of 6e-8 amplified over 20 steps whose update divides by sqrt(v).
  check_against_pytorch("fp32", 1e-4);
}
