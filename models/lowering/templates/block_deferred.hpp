#pragma once
// Inputs of the weight-gradient half of a split backward pass beside stored activations: the output
// gradients of all matrix products. With sharded weights this half gathers none, unless it recomputes
// products. So vectors of the block that it reads are copied here. With sharded gradients, a
// micro-batch's gradient units start with the second half. So the first half's gradients wait here, too.

#include "models/lowering/templates/block_frame.hpp"

namespace tandem::lowering {

struct BlockDeferred {
  Value attention, qkv, mlp, fc1;          ///< output gradients of proj, the first product, fc2 and fc1
  Value q_down, q_up, kv_down, kv_up;      ///< output gradients of latent attention's matrices, in place of qkv
  Value index_q, index_k, index_w;         ///< output gradients of an indexer's matrices
  Value expert_rows, expert_fc1, logits;   ///< output gradients of the experts' matrices and the router
  Value shared;                            ///< gradient of the shared experts' output, before their gate or norm
  Value early;                             ///< gradients of norms and of biases added after a sum
  Value again;                             ///< no gradients: copied vectors of the block (again_region)

  /// Lays out the tensors in `slot`. Only read if weight gradients are deferred.
  BlockDeferred(const Shapes& s, std::uint16_t slot, const BlockRegions& regions) {
    SlotLayout at(slot);
    const auto add = [&](std::int64_t n) { return at.add(s.dtypes.compute, n); };
    if (s.sharded_gradients) early = at.add(s.written_gradients(), regions.early.elements());
    if (s.sharded_weights && regions.again.elements() > 0) again = at.add(s.dtypes.weights, regions.again.elements());
    if (s.kind.mixes()) add_mixer(s, add);
    if (!s.kind.feeds()) return;
    mlp = add(s.rows * s.hidden);
    const std::int64_t inner = s.has_experts() ? s.shared_fc1 : s.fc1;
    if (inner > 0) fc1 = add(s.tokens * inner);
    if (!s.has_experts()) return;
    expert_rows = add(s.expert_rows() * s.hidden);
    expert_fc1 = add(s.expert_rows() * s.expert_fc1);
    if (s.shared_gate || s.branch_norms) shared = add(s.rows * s.hidden);
    logits = at.add(s.numerics.router, s.rows * s.experts);
  }

 private:
  void add_mixer(const Shapes& s, const auto& add) {
    attention = add(s.rows * s.hidden);
    s.latent.here() ? add_latent(s, add) : void(qkv = add(s.tokens * s.input_columns()));
    if (s.indexer.here()) add_index(s, add);
  }
  void add_latent(const Shapes& s, const auto& add) {
    if (s.latent.query_rank > 0) q_down = add(s.rows * s.latent.query_rank);
    q_up = add(s.tokens * s.queries());
    kv_down = add(s.rows * (s.latent.kv_rank + s.rotary_dim));
    kv_up = add(s.tokens * s.latent_kv());
  }
  void add_index(const Shapes& s, const auto& add) {
    index_q = add(s.tokens * s.indexer.heads * s.indexer.head_dim);
    index_k = add(s.tokens * s.indexer.head_dim);
    if (!s.indexer.blocks()) index_w = add(s.tokens * s.indexer.heads);
  }
};

}  // namespace tandem::lowering
