#pragma once
// Attention probabilities from scores, and their gradient. One block per (sequence, head, query).

#include <limits>

#include "exec/data/sequence_map.hpp"
#include "exec/device/chunk.hpp"
#include "exec/device/documents.hpp"
#include "exec/device/dropout.hpp"
#include "exec/device/typed.hpp"
#include "exec/shared/alibi.hpp"
#include "exec/shared/relative_bucket.hpp"
#include "exec/shared/vector_math.hpp"
#include "models/ops/attention.hpp"
#include "models/ops/window.hpp"

namespace tandem::exec::device {

/// The queries and keys of an attention within all heads, sequences and context ranks of the run. Indices grow with positions;
/// without context parallelism they are positions.
struct AttentionPlace {
  std::int64_t batch, heads, seq, keys, head_dim;
  std::int64_t first_head, all_heads;  ///< first_head: this rank's first one among all heads
  std::int64_t first_sequence;         ///< of the micro-batch, relative to the table's first sample
  bool causal, alibi;
  Dropout dropout;
  std::int64_t window = 0;  ///< largest number of keys that a query sees; 0: all before it
  bool chunked = false;
  double scale = 1;         ///< of scores
  double soft_cap = 0;      ///< on scores, before bias and mask; 0: none
  SequenceMap queries_of{1, 0}, keys_of{1, 0};  ///< positions of a rank that has only part of a sequence
  std::int64_t query_rank = 0, key_rank = 0;    ///< the context ranks of these queries and keys
  Documents documents{};                        ///< causal: a query sees only its own, and windows count from its beginning

  TANDEM_HD std::int64_t position(std::int64_t query) const { return queries_of.position(query_rank, query); }
  TANDEM_HD std::int64_t key_position(std::int64_t key) const { return keys_of.position(key_rank, key); }
  /// Number of leading keys before a position of the sequence.
  TANDEM_HD std::int64_t keys_before(std::int64_t end) const {
    const std::int64_t piece = keys_of.context_size == 1 ? keys : keys_of.piece();
    std::int64_t all = 0;
    for (std::int64_t from = 0; from < keys; from += piece) {
      const std::int64_t before = end - key_position(from);
      all += before < 0 ? 0 : before < piece ? before : piece;
    }
    return all;
  }
  /// Number of leading keys that end with the last one query `i` sees.
  TANDEM_HD std::int64_t visible(std::int64_t i) const { return causal ? keys_before(position(i) + 1) : keys; }
  /// The first key that query `i` of a sequence sees. It grows with `i`.
  TANDEM_HD std::int64_t first(std::int64_t sequence, std::int64_t i) const {
    const std::int64_t at = position(i), start = documents.start(sequence, at);
    const std::int64_t seen = start + first_key_seen(at - start, window, chunked);
    return keys_of.context_size == 1 || seen == 0 ? seen : keys_before(seen);
  }
  /// True if query `i` of a sequence sees `key`.
  TANDEM_HD bool sees(std::int64_t sequence, std::int64_t i, std::int64_t key) const {
    return key < visible(i) && key >= first(sequence, i);
  }
  /// Key position minus query position.
  template <class A>
  TANDEM_HD A distance(std::int64_t query, std::int64_t key) const {
    return static_cast<A>(static_cast<int>(key_position(key) - position(query)));
  }
  /// ALiBi's term in a score per position of distance; 0 without ALiBi.
  template <class A>
  TANDEM_HD A slope(std::int64_t head) const {
    return alibi ? static_cast<A>(alibi_slope(first_head + head, all_heads)) : A{0};
  }
  /// Dropout-mask index of the key at position 0.
  TANDEM_HD std::uint64_t mask_index(std::int64_t sequence, std::int64_t head, std::int64_t query) const {
    const std::int64_t row = (dropout.table->first_sample + first_sequence + sequence) * all_heads + first_head + head;
    return static_cast<std::uint64_t>((row * queries_of.context_size * seq + position(query)) * keys_of.context_size * keys);
  }
  template <class A>
  TANDEM_HD A mask(std::int64_t sequence, std::int64_t head, std::int64_t query, std::int64_t key) const {
    if (dropout.threshold == 0) return A{1};
    return dropout.factor<A>(mask_index(sequence, head, query) + static_cast<std::uint64_t>(key_position(key)));
  }
};

/// A row of scores: its offset, its query, and its visible keys.
struct ScoreRow {
  std::int64_t at, sequence, head, query, first, visible;

  TANDEM_HD ScoreRow(const AttentionPlace& p, std::int64_t row)
      : at(row * p.keys), sequence(row / p.seq / p.heads), head(row / p.seq % p.heads), query(row % p.seq),
        first(p.first(sequence, row % p.seq)), visible(p.visible(row % p.seq)) {}

  TANDEM_HD bool sees(std::int64_t key) const { return key >= first && key < visible; }
};

/// The bucket of every distance (key position - query position), from 1 - queries to keys - 1.
struct BucketsKernel {
  Form form;
  std::int32_t* to;
  std::int64_t queries, keys, buckets;
  bool causal;

  std::int64_t distances() const { return queries + keys - 1; }
  Grid grid() const { return chunks(distances()); }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    each_in_chunk(block, queries + keys - 1, [&](std::int64_t i) {
      to[i] = static_cast<std::int32_t>(relative_bucket(i - queries + 1, buckets, causal));
    });
  }
};

/// Relative position bias: a learned number per head and bucket. `buckets`: written by BucketsKernel for this number of `queries`.
struct RelativeBias {
  Typed table;  ///< [heads, count]
  std::int64_t count = 0, queries = 0;
  const std::int32_t* buckets = nullptr;

  template <class A>
  TANDEM_HD A of(std::int64_t head, std::int64_t position, std::int64_t key) const {
    return load<A>(table, head * count + buckets[key - position + queries - 1]);
  }
};

/// AttentionSoftmax. `dropped`: output of the dropout, if softmax and dropout run together.
struct SoftmaxKernel {
  Form form;
  Typed scores, probs, dropped;
  AttentionPlace place;
  SoftmaxPart part;
  RelativeBias relative;

  Grid grid() const { return {place.batch * place.heads * place.seq}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const ScoreRow row(place, block.index());
    const A none = -std::numeric_limits<A>::infinity();
    if (part == SoftmaxPart::dropout) return drop<S>(block, row);
    const bool biased = part != SoftmaxPart::softmax;
    const A slope = biased ? place.slope<A>(row.head) : A{0};
    const auto x = [&](std::int64_t k) {
      const A score = S::get(scores, row.at + k);
      if (biased && relative.table.here()) return score + relative.of<A>(row.head, place.position(row.query), k);
      return biased ? score + slope * place.distance<A>(row.query, k) : score;
    };
    if (part == SoftmaxPart::mask) {
      block.each(place.keys, [&](std::int64_t k) { S::put(probs, row.at + k, row.sees(k) ? x(k) : none); });
      return;
    }
    const auto seen_x = [&](std::int64_t k) { return x(row.first + k); };
    const A top = block.template max<A>(row.visible - row.first, none, seen_x);
    const auto term = [&](std::int64_t k) { return exp_saturating(seen_x(k) - top); };
    const A inverse = A{1} / block.template sum<A>(row.visible - row.first, term);
    block.each(place.keys, [&](std::int64_t k) {
      const A p = row.sees(k) ? exp_saturating(x(k) - top) * inverse : A{0};
      S::put(probs, row.at + k, p);
      if (!dropped.here()) return;
      S::put(dropped, row.at + k, row.sees(k) ? place.mask<A>(row.sequence, row.head, row.query, k) * p : A{0});
    });
  }

 private:
  template <class S, class Block>
  TANDEM_HD void drop(Block& block, const ScoreRow& row) const {
    using A = typename S::Number;
    block.each(place.keys, [&](std::int64_t k) {
      const A p = row.sees(k) ? place.mask<A>(row.sequence, row.head, row.query, k) * S::get(scores, row.at + k) : A{0};
      S::put(probs, row.at + k, p);
    });
  }
};

/// Gradient of a RelativeBias table: the sum of its scores' gradients. One block per head and bucket.
struct BucketGradKernel {
  Form form;
  Typed dscores, dtable;
  AttentionPlace place;
  std::int64_t count;

  Grid grid() const { return {place.heads * count}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const std::int64_t head = block.index() / count, bucket = block.index() % count, half = place.causal ? count : count / 2;
    const bool behind = bucket >= half;  // positive distances, in the upper half
    const std::int64_t within = behind ? bucket - half : bucket;
    const std::int64_t nearest = first_distance(within, half), farthest = first_distance(within + 1, half) - 1;
    const A sum = block.template sum<A>(place.batch * place.seq, [&](std::int64_t i) {
      const ScoreRow row(place, (i / place.seq * place.heads + head) * place.seq + i % place.seq);
      const std::int64_t position = place.position(row.query);
      std::int64_t from = behind ? position + (nearest > 0 ? nearest : 1) : position - farthest;
      std::int64_t end = 1 + (behind ? position + farthest : position - nearest);
      if (from < row.first) from = row.first;
      if (end > row.visible) end = row.visible;
      A added = A{0};
      for (std::int64_t k = from; k < end; ++k) added += S::get(dscores, row.at + k);
      return added;
    });
    block.each(1, [&](std::int64_t) { store(dtable, block.index(), sum); });
  }

 private:
  /// The smallest distance whose bucket is at least `bucket`; past the largest distance if there is none.
  TANDEM_HD std::int64_t first_distance(std::int64_t bucket, std::int64_t buckets) const {
    std::int64_t from = 0, end = place.keys + place.queries_of.context_size * place.seq;
    while (from < end) {
      const std::int64_t middle = (from + end) / 2;
      if (distance_bucket(middle, buckets) < bucket) from = middle + 1;
      else end = middle;
    }
    return from;
  }
};

/// dscores = p (g - sum g p) with g = mask dprobs; 0 for invisible keys.
struct SoftmaxGradKernel {
  Form form;
  Typed dprobs, probs, dscores;
  AttentionPlace place;

  Grid grid() const { return {place.batch * place.heads * place.seq}; }
  template <class S, class Block>
  TANDEM_HD void run(Block& block) const {
    using A = typename S::Number;
    const ScoreRow row(place, block.index());
    const auto g = [&](std::int64_t k) {
      return place.mask<A>(row.sequence, row.head, row.query, k) * S::get(dprobs, row.at + k);
    };
    const A dot = block.template sum<A>(row.visible - row.first, [&](std::int64_t k) {
      return g(row.first + k) * S::get(probs, row.at + row.first + k);
    });
    block.each(place.keys, [&](std::int64_t k) {
      S::put(dscores, row.at + k, row.sees(k) ? S::get(probs, row.at + k) * (g(k) - dot) : A{0});
    });
  }
};

}  // namespace tandem::exec::device
