// Published outcomes: what ran and what ended for lack of memory, near the end of a device.

#include <algorithm>
#include <string>

#include "sim/result/simulate.hpp"
#include "tests/catch.hpp"
#include "topology/plan_reader.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

Prediction predict(const std::string& text) {
  const Plan plan = parse_plan(text, "published.json");
  return simulate(plan, lower(plan), *make_topology(plan.cluster));
}

/// Trials of BLOOM's layout on A100 of 80 GB (bigscience-workshop/bigscience: train/tr11-176B-ml/chronicles-prequel.md), with fewer
/// micro-batches, which need as much.
Prediction bloom(int tensor, int pipeline, int data, bool expandable = false) {
  const auto n = [](int value) { return std::to_string(value); };
  return predict(R"({"model": {"family": "gpt", "num_layers": 72, "hidden_size": 14336, "num_attention_heads": 64, "vocab_size": 250880},
    "parallel": {"tensor": )" + n(tensor) + R"(, "pipeline": )" + n(pipeline) + R"(, "data": )" + n(data) + R"(, "zero_stage": 1},
    "training": {"seq_length": 2048, "micro_batch_size": 1, "global_batch_size": 384, "precision": "fp16", "recompute": "full",
                 "flash_attention": false, "launch_blocking": true, "expandable_segments": )" + (expandable ? "true" : "false") + R"(},
    "cluster": {"devices": )" + n(tensor * pipeline * data) + R"(, "preset": "jean-zay-a100"}, "stack": "megatron-deepspeed"})");
}

/// Nemotron-4 340B in bf16 as DGX Cloud's recipe has it (NVIDIA/dgxc-benchmarking v24.11.1, nemotron), with these states.
Prediction nemotron(const std::string& states) {
  return predict(R"({"model": {"family": "gpt", "num_layers": 96, "hidden_size": 18432, "num_attention_heads": 96, "num_kv_heads": 8,
                               "ffn_hidden_size": 73728, "vocab_size": 256000, "activation": "squared_relu", "position_embedding": "rope",
                               "tie_embeddings": false, "linear_bias": false},
    "parallel": {"tensor": 8, "pipeline": 8, "data": 2, "schedule": "interleaved", "virtual_pipeline": 12, "sequence_parallel": true,
                 "zero_stage": 1, "overlap_grad_reduce": true, "overlap_param_gather": true, "tensor_overlap": true},
    "training": {"seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 32, "precision": "bf16", "recompute": "selective",
                 "flash_attention": true, "dtypes": {"master": ")" + states + R"(", "optimizer_state": ")" + states + R"("}},
    "cluster": {"devices": 128, "preset": "dgx-h100"}, "stack": "megatron-core"})");
}

}  // namespace

TEST_CASE("a trial that ended for lack of memory does not fit by what lies free beside tensors, and a layout that ran fits") {
  const Prediction trial = bloom(2, 6, 32);
  CHECK_FALSE(trial.fits);
  for (const RolePrediction& r : trial.roles)
    CHECK(r.live_peak_bytes + r.memory_bytes[static_cast<std::size_t>(MemoryKind::runtime)] < trial.device_memory);
  CHECK(bloom(2, 6, 32, true).fits);
  CHECK(bloom(4, 12, 8).fits);
}

TEST_CASE("a run with bf16 states fits, which with fp32 ones it would not have") {
  CHECK(nemotron("bf16").fits);
  CHECK_FALSE(nemotron("fp32").fits);
}

TEST_CASE("a stack whose ranks have one arena needs all of it, another what is alive") {
  const auto under = [](const std::string& stack) {
    return predict(R"({"model": {"preset": "gpt2-345m"}, "parallel": {"data": 2, "zero_stage": 1}, "stack": ")" + stack + R"(",
      "training": {"seq_length": 512, "micro_batch_size": 2, "global_batch_size": 8, "precision": "bf16"},
      "cluster": {"preset": "dgx-h100", "devices": 2}})");
  };
  const Prediction own = under("tandem"), others = under("megatron-core");
  for (const RolePrediction& r : own.roles) CHECK(r.needed_bytes == r.peak_memory_bytes);
  for (const RolePrediction& r : others.roles) {
    CHECK(r.needed_bytes < r.peak_memory_bytes);
    CHECK(r.needed_bytes - r.live_peak_bytes == r.peak_memory_bytes - r.arena_bytes);
  }
}
