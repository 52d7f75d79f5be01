#pragma once
// Small plans for tests, written as a user would write them.

#include <string>

#include "models/plan/plan.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::tests {

/// A GPT small enough to train in a test; sizes are pairwise different where the layout allows.
struct SmallPlan {
  int tensor = 1, pipeline = 1, data = 1;
  int layers = 4, hidden = 24, heads = 4, ffn = 40, vocab = 37, seq = 6;
  int micro_batch = 2, micro_batches = 3;
  double dropout = 0.1, clip_grad = 0.5;
  bool tied = true, overlap = false, tensor_overlap = false, bloom = false, llama = false;
  int bucket_bytes = 20000;
  std::string recompute = "none", precision = "fp64", split, schedule = "1f1b";

  std::string json() const {
    const auto n = [](auto v) { return std::to_string(v); };
    const auto b = [](bool v) { return std::string(v ? "true" : "false"); };
    std::string model = R"({"family": ")" + std::string(bloom ? "bloom" : llama ? "llama" : "gpt") + R"(", "num_layers": )" + n(layers) +
                        R"(, "hidden_size": )" + n(hidden) + R"(, "num_attention_heads": )" + n(heads) +
                        (llama ? R"(, "num_kv_heads": 2)" : "") + R"(, "ffn_hidden_size": )" + n(ffn) + R"(, "vocab_size": )" + n(vocab) +
                        R"(, "pad_vocab_to": )" + std::string("16") + R"(, "tie_embeddings": )" + b(tied) + "}";
    std::string parallel = R"({"tensor": )" + n(tensor) + R"(, "pipeline": )" + n(pipeline) + R"(, "data": )" + n(data) +
                           R"(, "overlap_grad_reduce": )" + b(overlap) + R"(, "tensor_overlap": )" + b(tensor_overlap) +
                           R"(, "schedule": ")" + schedule + R"(", "bucket_bytes": ")" + n(bucket_bytes) + R"( B")" +
                           (split.empty() ? "" : R"(, "pipeline_split": )" + split) + "}";
    std::string training = R"({"seq_length": )" + n(seq) + R"(, "micro_batch_size": )" + n(micro_batch) +
                           R"(, "global_batch_size": )" + n(micro_batch * micro_batches * data) +
                           R"(, "precision": ")" + precision + R"(", "recompute": ")" + recompute +
                           R"(", "dropout": {"hidden": )" + n(dropout) + R"(, "attention": )" + n(dropout) +
                           R"(}, "clip_grad": )" + n(clip_grad) + "}";
    std::string cluster = R"({"preset": "cpu-host", "devices": )" + n(tensor * pipeline * data) + "}";
    return R"({"model": )" + model + R"(, "parallel": )" + parallel + R"(, "training": )" + training +
           R"(, "cluster": )" + cluster + "}";
  }
  Plan plan() const { return parse_plan(json(), "test.json"); }
  /// "tp2 pp2 dp2 m3 none": for messages.
  std::string label() const {
    return "tp" + std::to_string(tensor) + " pp" + std::to_string(pipeline) + " dp" + std::to_string(data) + " m" +
           std::to_string(micro_batches) + " " + recompute + (overlap ? " overlap" : "") + (tied ? "" : " untied") +
           (bloom ? " bloom" : "") + (llama ? " llama" : "") + (schedule == "1f1b" ? "" : " " + schedule) + (split.empty() ? "" : " split " + split);
  }
};

}  // namespace tandem::tests
