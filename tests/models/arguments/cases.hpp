#pragma once
// Arguments of tests, and what is made of them.

#include <string>

#include "models/arguments/imported_plan.hpp"

namespace tandem::tests {

/// A small model on 8 devices, and `more` options.
inline std::string some_options(const std::string& more = "") {
  return "torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 "
         "--seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 --micro-batch-size 1 --global-batch-size 64 --bf16 " + more;
}

inline arguments::ImportedPlan imported(const std::string& options, std::int64_t devices = 0) {
  return arguments::import_arguments(options, "run.args", arguments::read_table("megatron-core"), {"dgx-h100", devices});
}

}  // namespace tandem::tests
