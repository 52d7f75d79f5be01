#pragma once
// Plans whose steps use much of the CUDA backend's host code, as patches of a small plan.

#include <string>
#include <vector>

#include "tests/agree/features.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::tests {

inline const std::vector<std::string>& host_plans() {
  static const std::vector<std::string> all{
      R"({"parallel": {"pipeline": 2, "data": 2, "zero_stage": 1, "overlap_grad_reduce": true, "bucket_bytes": 2000}})",
      R"({"model": {"family": "llama", "num_kv_heads": 2}, "training": {"flash_attention": true, "recompute": "full"},
          "parallel": {"data": 2, "zero_stage": 3, "overlap_param_gather": true}})",
      R"({"parallel": {"tensor": 2, "sequence_parallel": true, "tensor_overlap": true, "pipeline": 2}})",
      R"({"parallel": {"pipeline": 2, "virtual_pipeline": 2, "schedule": "interleaved", "offload": {"activations": ["all"]}}})",
      R"({"parallel": {"data": 2, "zero_stage": 2, "offload": {"optimizer": true}}})",
      R"({"model": {"hidden_size": 128, "ffn_hidden_size": 256}, "training": {"lora": {"rank": 3, "alpha": 6, "base": "nf4"}},
          "parallel": {"data": 2}})",
      R"({"model": {"family": "llama", "num_kv_heads": 1, "qk_norm": "head", "attention_gate": true,
                    "recurrence": {"heads": 8, "key_heads": 4, "key_dim": 3, "value_dim": 5, "conv_width": 3, "layers": "ra"}},
          "parallel": {"tensor": 2}})",
      R"({"model": {"family": "llama", "head_dim": 10, "value_dim": 7, "latent": {"kv_rank": 5, "query_rank": 9, "rotary_dim": 4},
                    "indexer": {"heads": 3, "head_dim": 6, "topk": 3}},
          "training": {"dropout": {"attention": 0}}})",
      R"({"model": {"moe": {"num_experts": 4, "experts_per_token": 2, "ffn_hidden_size": 16, "num_shared_experts": 1, "rows_bound": 4,
                            "aux_loss": 0.02}},
          "parallel": {"data": 2, "expert": 2, "overlap_experts": true}})",
      R"({"model": {"family": "llama", "num_kv_heads": 2}, "training": {"flash_attention": true},
          "parallel": {"context": 2, "context_mode": "ring"}})",
  };
  return all;
}

inline Plan host_plan(const std::string& patch, const std::string& precision) {
  return parse_plan(small_json({patch, R"({"training": {"precision": ")" + precision + R"("}})"}, 4), "hostcuda.json");
}

}  // namespace tandem::tests
