#pragma once
// The indexer of sparse attention, which chooses the keys that a query sees (DeepSeek-V3.2, arXiv 2512.02556 section 2.1;
// deepseek-ai/DeepSeek-V3.2-Exp: inference/model.py, Indexer), or blocks of keys (MiniMax Sparse Attention, arXiv 2606.13392 section 3;
// MiniMax-AI/MSA: README.en.md section 1.1, training operators). Conventions: models/ops/op.hpp. Only the simulator knows those of blocks.

#include <algorithm>
#include <cstdint>

#include "models/ops/attention.hpp"
#include "models/ops/window.hpp"

namespace tandem {

/// All heads of an indexer share one key of a position. A query chooses among its own key and those before it.
struct IndexDims {
  std::int64_t batch, heads, seq, head_dim;  ///< seq: queries of a sequence that this rank computes
  std::int64_t topk = 0;                     ///< keys that a query chooses at most
  std::int64_t keys = 0;                     ///< of a sequence; 0: seq
  std::int64_t block = 0;                    ///< neighbouring keys that are chosen together, by each head apart; 0: single keys, by all heads

  std::int64_t key_count() const { return keys > 0 ? keys : seq; }
  std::int64_t rows() const { return batch * seq; }
  std::int64_t query_elements() const { return rows() * heads * head_dim; }
  std::int64_t key_elements() const { return batch * key_count() * head_dim; }
  std::int64_t most_keys() const { return std::min(topk, key_count()); }
  /// Places in a query's list: of keys, or of blocks that each head chose.
  std::int64_t listed() const { return block == 0 ? most_keys() : heads * ((most_keys() + block - 1) / block); }
  /// `each` for every pair of a query and a key up to its position, and of a query and a key that it chose. Of queries that context
  /// ranks share: an even share.
  std::int64_t over_pairs(std::int64_t each) const { return share(each * pairs_seen(key_count(), 0, false)); }
  std::int64_t over_chosen(std::int64_t each) const {
    return share(each * (block == 0 ? pairs_seen(key_count(), most_keys(), false) : pairs_in_blocks(key_count(), topk, block)));
  }

 private:
  std::int64_t share(std::int64_t of_sequence) const {
    return key_count() == 0 ? 0 : share_of(batch * of_sequence, seq, key_count());
  }
};

/// The `listed` keys of the best scores sum_heads w relu(q k) / sqrt(heads head_dim); of equal scores that of the lower position. A list
/// has the positions of keys in a sequence, ascending, and -1 behind them where fewer keys are seen. No score matrix is written.
/// in: q[rows, heads*head_dim], k[batch*keys, head_dim], w[rows, heads]; out: chosen[rows, listed] of int32
/// Rows of q are of this context rank; those of k are ordered (context rank, sequence, position) where `keys` is not 0.
struct IndexTopK { IndexDims dims; };

/// What the indexer learns: the probabilities that attention gives the chosen keys, summed over this rank's heads, made again from
/// attention's statistics. in: q, kv, stats, chosen[batch*seq, listed_keys]; out: target[batch*seq, listed_keys]
struct IndexTarget { AttentionDims dims; };

/// Gradients of sum_keys p log(p / r), p the target divided by its sum and r the softmax of the chosen keys' scores, which are made again;
/// of its mean over the queries of the global batch. in: target, q, k, w, chosen; out: dq, dk (a part of the sum over context ranks), dw
struct IndexTopKBackward { IndexDims dims; std::int64_t global_queries = 1; };

/// For each head the blocks of the best scores. A block's score is the largest q k of its keys; a query's own block is always chosen.
/// stats[rows, heads]: log of the sum of exponentials of the chosen keys' scores.
/// in: q[rows, heads*head_dim], k[batch*keys, head_dim]; out: chosen[rows, listed] of int32, stats
struct IndexBlocks { IndexDims dims; };

/// Gradients of the divergence of the softmax of the chosen keys' scores from the mean of the probabilities that attention's heads of one
/// key head give these keys (arXiv 2606.13392 section 3.2, equations 9 and 10). Both are made again from their statistics, in one kernel.
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
