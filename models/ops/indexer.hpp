#pragma once
// The indexer of sparse attention. It chooses for each query single keys (DeepSeek-V3.2, arXiv 2512.02556 section 2.1;
// deepseek-ai/DeepSeek-V3.2-Exp: inference/model.py, Indexer) or blocks of keys (MiniMax Sparse Attention, arXiv 2606.13392 section
// 3; MiniMax-AI/MSA: README.en.md section 1.1, training operators); no backend runs the latter. Conventions: models/ops/op.hpp.

#include <algorithm>
#include <cstdint>

#include "models/ops/attention.hpp"
#include "models/ops/window.hpp"

namespace tandem {

/// Sizes of an indexer. Its heads share one key per position. A query chooses from its own and earlier keys.
struct IndexDims {
  std::int64_t batch, heads, seq, head_dim;  ///< seq: queries of a sequence that this rank computes
  std::int64_t topk = 0;                     ///< most keys that a query chooses
  std::int64_t keys = 0;                     ///< keys of a sequence; 0: seq
  std::int64_t block = 0;                    ///< keys per block, chosen by each head separately; 0: single keys for all heads

  std::int64_t key_count() const { return keys > 0 ? keys : seq; }
  std::int64_t rows() const { return batch * seq; }
  std::int64_t query_elements() const { return rows() * heads * head_dim; }
  std::int64_t key_elements() const { return batch * key_count() * head_dim; }
  std::int64_t most_keys() const { return std::min(topk, key_count()); }
  /// Length of a query's list: the chosen keys, or the chosen blocks of all heads.
  std::int64_t listed() const { return block == 0 ? most_keys() : heads * ((most_keys() + block - 1) / block); }
  /// Sum of `each` over pairs of a query and an earlier key or its own, and
  /// over pairs of a query and a chosen key. Context ranks count an even share.
  std::int64_t over_pairs(std::int64_t each) const { return share(each * pairs_seen(key_count(), 0, false)); }
  std::int64_t over_chosen(std::int64_t each) const {
    return share(each * (block == 0 ? pairs_seen(key_count(), most_keys(), false) : pairs_in_blocks(key_count(), topk, block)));
  }

 private:
  std::int64_t share(std::int64_t of_sequence) const {
    return key_count() == 0 ? 0 : share_of(batch * of_sequence, seq, key_count());
  }
};

/// Chooses the `listed` keys with the best scores sum_heads w relu(q k) / sqrt(heads head_dim); the lower position wins a tie.
/// A list has positions of keys in the sequence, ascending, then -1 for missing ones. No score matrix is written.
/// in: q[rows, heads*head_dim], k[batch*keys, head_dim], w[rows, heads]; out: chosen[rows, listed] of int32
/// Rows of q are this context rank's. Rows of k are ordered (context rank, sequence, position) if `keys` is not 0.
struct IndexTopK { IndexDims dims; };

/// Training target of the indexer: attention's probabilities of the chosen keys, summed over this rank's heads and recomputed
/// from attention's statistics. in: q, kv, stats, chosen[batch*seq, listed_keys]; out: target[batch*seq, listed_keys]
struct IndexTarget { AttentionDims dims; };

/// Gradients of the mean over the global batch's queries of sum_keys p log(p / r). p: target / its sum; r: softmax of
/// the chosen keys' scores, recomputed. in: target, q, k, w, chosen; out: dq, dk (to be summed over context ranks), dw
struct IndexTopKBackward { IndexDims dims; std::int64_t global_queries = 1; };

/// Chooses for each head the blocks with the best scores: the largest q k of a block. A query's own block is always chosen.
/// stats[rows, heads]: log of the sum of exponentials of the chosen keys' scores.
/// in: q[rows, heads*head_dim], k[batch*keys, head_dim]; out: chosen[rows, listed] of int32, stats
struct IndexBlocks { IndexDims dims; };

/// Gradients of the divergence between the softmax of the chosen keys' scores and the mean probability that the attention heads
/// of one key head give them (arXiv 2606.13392 section 3.2, eqs. 9 and 10). One kernel recomputes both from their statistics.
/// in: q, kv, stats (of attention), index q, index k, chosen, index stats; out: index dq, index dk
struct IndexBlocksBackward {
  AttentionDims attention;
  std::int64_t index_heads, index_dim;
  IndexDims index() const {
    const AttentionDims& a = attention;
    return {a.batch, index_heads, a.seq, index_dim, a.window > 0 ? a.window : a.key_count(), a.keys, a.block};
  }
};

}  // namespace tandem
