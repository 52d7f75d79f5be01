#pragma once
// The layouts that simulation and execution must agree on, and that must train alike.

#include <vector>

#include "exec/run/run.hpp"
#include "tests/backends.hpp"
#include "tests/plans.hpp"

namespace tandem::tests {

inline SmallPlan layout(int tensor, int pipeline, int data, int micro_batches) {
  SmallPlan p;
  p.tensor = tensor;
  p.pipeline = pipeline;
  p.data = data;
  p.micro_batches = micro_batches;
  return p;
}

/// Tensor, pipeline and data up to four each on at most eight ranks; every global batch is twelve micro-batches, so that one
/// rank is the reference of all.
inline std::vector<SmallPlan> layouts() {
  std::vector<SmallPlan> all{layout(1, 1, 1, 12), layout(2, 1, 1, 12), layout(4, 1, 1, 12), layout(1, 2, 1, 12),
                             layout(1, 4, 1, 12), layout(1, 1, 2, 6),  layout(1, 1, 3, 4),  layout(1, 1, 4, 3),
                             layout(2, 2, 2, 6),  layout(2, 1, 4, 3),  layout(4, 2, 1, 12), layout(2, 4, 1, 12),
                             layout(1, 4, 2, 6),  layout(1, 2, 4, 3),  layout(1, 3, 2, 6),  layout(2, 2, 1, 12)};
  // Six micro-batches over four stages; four layers over three stages are uneven, and here by hand as well.
  all.back().split = "[1, 3]";
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].overlap = i % 2 == 1;
    all[i].recompute = i % 3 == 1 ? "full" : "none";
    all[i].tensor_overlap = i % 4 == 3;
    all[i].bucket_bytes = i % 5 == 0 ? 1 : 20000;
  }
  return all;
}

/// Tokens that are a function of the sequence's index: every layout reads the same ones.
class HashTokens : public exec::TokenSource {
 public:
  explicit HashTokens(std::int64_t vocab) : vocab_(vocab) {}
  std::int64_t vocab_size() const override { return vocab_; }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    std::uint64_t x = static_cast<std::uint64_t>(index) * 0x9e3779b97f4a7c15ull + 1;
    for (std::int32_t& t : tokens) {
      x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
      t = static_cast<std::int32_t>((x >> 20) % static_cast<std::uint64_t>(vocab_));
    }
  }

 private:
  std::int64_t vocab_;
};

/// Trains `steps` and keeps every step's gradients and the final weights.
inline exec::RunResult train(const Plan& plan, const TaskGraph& graph, std::int64_t steps) {
  exec::RunOptions options = tests::run_options();
  options.steps = steps;
  options.gather_gradients = options.gather_weights = true;
  // bert's vocabulary has the mask beside the text's tokens.
  return exec::run(plan, graph, HashTokens(plan.model.vocab_size - (plan.model.family == Family::bert ? 1 : 0)), options);
}
inline exec::RunResult train(const Plan& plan, std::int64_t steps) { return train(plan, lower(plan), steps); }
inline exec::RunResult train(const SmallPlan& p, std::int64_t steps) { return train(p.plan(), steps); }

}  // namespace tandem::tests
