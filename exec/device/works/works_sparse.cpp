// Works of sparse attention to chosen keys, and of the indexer that chooses them.
#include <algorithm>
#include <bit>

#include "exec/data/sequence_map.hpp"
#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {
namespace {

constexpr std::int64_t kProductBytes = std::int64_t{256} << 20;  // of an indexer's products at a time

const std::int32_t* integers(const Typed& t) { return as<const std::int32_t>(t); }
std::byte* moved(const Typed& t, std::int64_t elements) { return t.address + bytes_of(t.type, elements).count(); }

ChosenLayout layout_of(const AttentionDims& d) {
  return {d.heads, d.seq, d.per_group(), d.head_dim, d.value_width(),
          d.q_packed ? d.qkv_width() : d.q_width(), d.q_packed ? d.group_width() : d.per_group() * d.head_dim,
          d.kv_packed ? d.qkv_width() : d.kv_width(), d.kv_packed ? d.group_width() : d.pair_width(), d.key_column(0),
          {d.batch, d.key_count(), d.row_shards}, d.score_factor()};
}

/// The queries of a sequence that this rank computes.
struct OwnQueries {
  SequenceMap map;
  std::int64_t rank;

  std::int64_t visible(std::int64_t query) const { return map.position(rank, query) + 1; }
  /// Visible pairs of queries [first, end), at most `most` per query.
  std::int64_t pairs(std::int64_t first, std::int64_t end, std::int64_t most) const {
    std::int64_t sum = 0;
    for (std::int64_t i = first; i < end; ++i) sum += std::min(visible(i), most);
    return sum;
  }
};

OwnQueries own_queries(std::int64_t seq, bool shared, const KernelContext& c) {
  return {SequenceMap(shared ? c.context_size : 1, seq), shared ? c.context_rank : 0};
}
OwnQueries own_queries(const AttentionDims& d, const Operands& at) {
  return own_queries(d.seq, d.share == AttentionShare::queries, at.context());
}
OwnQueries own_queries(const IndexDims& d, const Operands& at) { return own_queries(d.seq, d.keys > 0, at.context()); }

std::int64_t chosen_pairs(const AttentionDims& d, const Operands& at) {
  return d.batch * own_queries(d, at).pairs(0, d.seq, d.listed_keys());
}

/// Row-major rows in cuBLAS's terms.
Stored stored(std::int64_t rows, std::int64_t cols, std::int64_t ld, bool transposed) { return {cols, rows, ld, 0, transposed}; }

/// Scratch memory of IndexTopK for some queries at a time: products, scores and ties.
struct IndexScratch {
  std::int64_t queries, products, scores, ties;  ///< `queries` is a count, the others are bytes

  IndexScratch(const IndexDims& d, DType compute) {
    const DType number = number_of(compute);
    const std::int64_t of_query = bytes_of(number, d.heads * d.key_count()).count();
    queries = std::clamp<std::int64_t>(kProductBytes / of_query, 1, std::max<std::int64_t>(d.seq, 1));
    products = padded_bytes(number, queries * d.heads * d.key_count());
    scores = padded_bytes(number, queries * d.key_count());
    ties = padded_bytes(DType::int32, queries * d.key_count());
  }
};

/// Number of keys to multiply so that the first `n` are included. Rounded, because each number needs its own planned product.
std::int64_t width_for(std::int64_t n, const IndexDims& d) {
  return std::min(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n))), d.key_count());
}

/// Products of some queries, all heads, with a sequence's keys.
struct IndexProducts {
  const IndexDims& d;
  Typed q, k, out;
  DType compute;
  KeyOrder keys;

  /// `n`: keys needed. `pairs`: visible pairs among them.
  void add(Works& all, std::int64_t sequence, std::int64_t first, std::int64_t queries, std::int64_t n, std::int64_t pairs) const {
    const std::int64_t m = queries * d.heads, row = sequence * d.seq + first;
    for (std::int64_t shard = 0; shard < keys.shards; ++shard) {
      const std::int64_t here = keys.shards == 1 ? n : keys.local();
      const GemmShape shape{stored(here, d.head_dim, d.head_dim, true), stored(m, d.head_dim, d.head_dim, false),
                            stored(m, here, n, false), 1, compute, out.type};
      Product product{shape, moved(k, (shard * d.batch + sequence) * keys.local() * d.head_dim),
                      moved(q, row * d.heads * d.head_dim), moved(out, shard * keys.local())};
      product.counted = shard == 0 ? 2 * pairs * d.heads * d.head_dim : 0;
      all.push_back(product);
    }
  }
};

KeyOrder key_order(const IndexDims& d, const Operands& at) {
  const std::int64_t shards = d.keys > 0 ? at.context().context_size : 1;
  require(d.key_count() == shards * d.seq, "an indexer's keys are those of all context ranks");
  return {d.batch, d.key_count(), shards};
}

}  // namespace

std::int64_t index_scratch(const IndexTopK& op, DType compute) {
  const IndexScratch scratch(op.dims, compute);
  return scratch.products + scratch.scores + scratch.ties;
}

std::int64_t index_scratch(const IndexTopKBackward& op, DType compute) {
  return padded_bytes(number_of(compute), op.dims.rows() * op.dims.listed());
}

Works chosen_works(const FlashAttention& op, const Operands& at) {
  const AttentionDims& d = op.dims;
  const Typed q = at.in(0), kv = at.in(1), context = at.out(0);
  const std::int64_t flops = 2 * chosen_pairs(d, at) * d.heads * (d.head_dim + d.value_width());
  return {ChosenAttentionKernel{at.form({q, kv, context}), q, kv, context, at.out(1), {integers(at.in(2)), d.listed_keys()},
                                layout_of(d), flops}};
}

// Recomputes scores; then the probabilities' gradient and three gradients.
Works chosen_works(const FlashAttentionBackward& op, const Operands& at) {
  const AttentionDims& d = op.dims;
  const KeyLists lists{integers(at.in(5)), d.listed_keys()};
  const ChosenPairs pairs{at.in(0), at.in(1), at.in(2), at.in(3), at.in(4), lists, layout_of(d)};
  const Typed dq = at.out(0), dkv = at.out(1);
  const Form form = at.form({pairs.dcontext, pairs.q, pairs.kv, pairs.context, dq, dkv});
  const std::int64_t flops = 2 * chosen_pairs(d, at) * d.heads * (3 * d.head_dim + 2 * d.value_width());
  return {ChosenQueryGradKernel{form, pairs, dq, flops}, ChosenKeyGradKernel{form, pairs, dkv}};
}

Works works(const IndexTarget& op, const Operands& at) {
  const AttentionDims& d = op.dims;
  const Typed q = at.in(0), kv = at.in(1), target = at.out(0);
  return {IndexTargetKernel{at.form({q, kv, target}), q, kv, at.in(2), target, {integers(at.in(3)), d.listed_keys()}, layout_of(d),
                            2 * chosen_pairs(d, at) * d.heads * d.head_dim}};
}

// Multiplies some queries at a time, so that little scratch memory is needed.
Works works(const IndexTopK& op, const Operands& at) {
  const IndexDims& d = op.dims;
  const IndexScratch scratch(d, at.compute());
  const KeyOrder keys = key_order(d, at);
  const OwnQueries own = own_queries(d, at);
  std::byte* const begin = at.around().scratch;
  const DType number = number_of(at.compute());
  const Typed products{begin, number}, scores{begin + scratch.products, number};
  auto* ties = reinterpret_cast<std::int32_t*>(begin + scratch.products + scratch.scores);
  const IndexProducts all_products{d, at.in(0), at.in(1), products, at.compute(), keys};
  const Form form = number == DType::fp64 ? Form::doubles : Form::floats;
  Works all;
  for (std::int64_t s = 0; s < d.batch; ++s)
    for (std::int64_t first = 0; first < d.seq; first += scratch.queries) {
      const std::int64_t n = std::min(scratch.queries, d.seq - first);
      const std::int64_t width = keys.shards == 1 ? width_for(first + n, d) : d.key_count();
      all_products.add(all, s, first, n, width, own.pairs(first, first + n, d.key_count()));
      all.push_back(ChooseKeysKernel{form, products, at.in(2), scores, ties, as<std::int32_t>(at.out(0)), keys, d.heads, d.listed(),
                                     width, s * d.seq + first, n, first, d.seq, keys.shards, own.rank});
    }
  return all;
}

Works works(const IndexTopKBackward& op, const Operands& at) {
  const IndexDims& d = op.dims;
  const Typed ds{at.around().scratch, number_of(at.compute())}, dq = at.out(0), dk = at.out(1);
  const IndexPairs pairs{at.in(0), at.in(1), at.in(2), at.in(3), ds, {integers(at.in(4)), d.listed()}, key_order(d, at),
                         d.heads, d.seq, d.head_dim};
  const std::int64_t flops = 6 * d.batch * own_queries(d, at).pairs(0, d.seq, d.listed()) * d.heads * d.head_dim;
  const Form form = at.form({pairs.target, pairs.q, pairs.k, dq, dk, at.out(2)});
  return {IndexQueryGradKernel{form, pairs, dq, at.out(2), at.table(), static_cast<double>(op.global_queries), flops},
          IndexKeyGradKernel{form, pairs, dk}};
}

}  // namespace tandem::exec::device
