// Step times of runs on one node that were published outside of the measurements that constants were fitted to.

#include "sim/simulate.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

struct Run {
  const char* name;
  int layers, hidden, heads, seq, micro_batch, global_batch;
  const char *preset, *stack, *fusion;
  double seconds;
};

double predicted(const Run& r) {
  const auto n = [](int v) { return std::to_string(v); };
  const Plan plan = parse_plan(
      R"({"model": {"family": "gpt", "num_layers": )" + n(r.layers) + R"(, "hidden_size": )" + n(r.hidden) +
          R"(, "num_attention_heads": )" + n(r.heads) + R"(, "ffn_hidden_size": )" + n(4 * r.hidden) +
          R"(, "vocab_size": 50257, "pad_vocab_to": 128}, "parallel": {"data": 8, "zero_stage": 1}, "training": {"seq_length": )" +
          n(r.seq) + R"(, "micro_batch_size": )" + n(r.micro_batch) + R"(, "global_batch_size": )" + n(r.global_batch) +
          R"(, "precision": "bf16", "flash_attention": true, "fusion": ")" + r.fusion + R"("}, "cluster": {"preset": ")" + r.preset +
          R"(", "devices": 8}, "stack": ")" + r.stack + R"("})",
      "run.json");
  return simulate(plan, lower(plan), *make_topology(plan.cluster)).step_time.seconds();
}

/// By the rule 6 N + 12 L h s FLOPs a token, N with the vocabulary.
double seconds_at(double tflops, const Run& r) {
  const double l = r.layers, h = r.hidden, s = r.seq;
  const double parameters = 12 * l * h * h + 50304 * h;
  return (6 * parameters + 12 * l * h * s) * s * r.global_batch / 8 / (tflops * 1e12);
}

}  // namespace

TEST_CASE("runs on one node take about as long as was published") {
  // T. Dao, FlashAttention-2, 2023-07-17: 225 TFLOP/s a device for GPT-3 2.7B with 8,192 tokens on eight A100 (arXiv 2307.08691, table 1)
  Run flash{"GPT-3 2.7B", 32, 2560, 32, 8192, 1, 64, "dgx-a100-80gb", "tandem", "megatron", 0};
  flash.seconds = seconds_at(225, flash);
  // karpathy/llm.c: GPT-2 124M, 10e9 tokens in about 90 minutes (discussion 481); 350M, 30e9 in 14 hours; 1558M, 32,000 steps of 2^20
  // tokens in 24 hours (discussion 677)
  const Run runs[] = {flash,
                      {"GPT-2 124M", 12, 768, 12, 1024, 64, 512, "dgx-a100-80gb", "llm.c", "llm.c", 90 * 60 * 524288.0 / 10e9},
                      {"GPT-2 350M", 24, 1024, 16, 1024, 64, 512, "dgx-a100-80gb", "llm.c", "llm.c", 14 * 3600 * 524288.0 / 30e9},
                      {"GPT-2 1558M", 48, 1600, 25, 1024, 16, 1024, "dgx-h100", "llm.c", "llm.c", 24 * 3600 / 32000.0}};
  for (const Run& r : runs) {
    INFO(r.name);
    CHECK(predicted(r) / r.seconds == Approx(1).margin(0.2));
  }
}
