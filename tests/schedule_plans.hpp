#pragma once
// Pipelines of the smallest model there is, as a user would write them.

#include <numeric>
#include <string>
#include <vector>

#include "models/plan/plan.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::tests {

/// One rank a stage; micro-batches of one sequence. No two matrices of a block have as many rows.
struct PipelinePlan {
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::int64_t stages = 1, micro_batches = 1, chunks = 1;
  std::vector<std::int64_t> split;  ///< layers by chunk, in the order a micro-batch passes them; empty: one each
  std::int64_t hidden = 4, ffn = 5, vocab = 7, seq = 2;
  std::string recompute = "none";
  std::int64_t zero_stage = 0;

  std::int64_t qkv() const { return 3 * hidden; }

  Plan plan() const {
    const auto n = [](std::int64_t v) { return std::to_string(v); };
    std::vector<std::int64_t> layers = split;
    if (layers.empty()) layers.assign(static_cast<std::size_t>(stages * chunks), 1);
    std::string list;
    for (const std::int64_t l : layers) list += (list.empty() ? "" : ", ") + n(l);
    const std::string total = n(std::accumulate(layers.begin(), layers.end(), std::int64_t{0}));
    const std::string model = R"({"num_layers": )" + total + R"(, "hidden_size": )" + n(hidden) +
                              R"(, "num_attention_heads": 2, "ffn_hidden_size": )" + n(ffn) + R"(, "vocab_size": )" + n(vocab) +
                              R"(, "pad_vocab_to": )" + n(vocab) + R"(, "tie_embeddings": false})";
    const std::string parallel = R"({"pipeline": )" + n(stages) + R"(, "virtual_pipeline": )" + n(chunks) +
                                 R"(, "schedule": ")" + std::string(name(schedule)) + R"(", "pipeline_split": [)" + list +
                                 R"(], "zero_stage": )" + n(zero_stage) + "}";
    const std::string training = R"({"seq_length": )" + n(seq) + R"(, "micro_batch_size": 1, "global_batch_size": )" +
                                 n(micro_batches) + R"(, "precision": "fp32", "recompute": ")" + recompute + R"("})";
    return parse_plan(R"({"model": )" + model + R"(, "parallel": )" + parallel + R"(, "training": )" + training +
                          R"(, "cluster": {"preset": "cpu-host", "devices": )" + n(stages) + "}}",
                      "pipeline.json");
  }
};

}  // namespace tandem::tests
