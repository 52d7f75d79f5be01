#pragma once
// Positions of an attention's queries and keys: in the sequence, in the operands and among all heads.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "exec/cpu/step.hpp"
#include "exec/data/sequence_map.hpp"

namespace tandem::exec::cpu {

/// Order of an operand's rows: (sequence, index), or, for rows of several context ranks, (context rank, sequence, local index). In
/// the latter case an index is a position in the sequence.
struct RowOrder {
  SequenceMap map;
  std::int64_t batch;

  RowOrder(std::int64_t batch_size, std::int64_t rows_of_sequence, std::int64_t shards)
      : map(shards, rows_of_sequence / shards), batch(batch_size) {}

  bool straight() const { return map.context_size == 1; }
  std::int64_t row(std::int64_t sequence, std::int64_t index) const {
    const SequenceMap::Place at = map.place(index);
    return (at.rank * batch + sequence) * map.local_seq + at.index;
  }
};

/// A head's columns of an operand, for one sequence.
struct HeadRows {
  RowOrder order;
  std::int64_t sequence, count, stride, column;

  std::int64_t at(std::int64_t index) const { return order.row(sequence, index) * stride + column; }
};

/// Consecutive keys that also have consecutive positions.
struct KeyRun {
  std::int64_t first, count, position;
};

class AttentionPlaces {
 public:
  AttentionPlaces(const AttentionDims& dims, const KernelContext& context, int ring_step = -1)
      : dims_(dims), context_(context), queries_(dims.batch, dims.seq, dims.query_shards()),
        keys_(dims.batch, dims.key_count(), dims.row_shards), head_parts_(dims.query_shards()),
        head_part_(context.context_rank % head_parts_), sequence_rank_(context.context_rank / head_parts_) {
    const std::int64_t ranks = context.context_size, sequence_ranks = ranks / head_parts_;
    require(shares_rows(ranks, ring_step), "rows of other ranks in an attention that does not share its work with them");
    require(dims.window == 0 || (dims.causal && ring_step < 0), "a window of keys in a ring, or where all keys are seen");
    require(!dims.documents || (dims.causal && context.documents != nullptr), "documents that nobody named, or where all keys are seen");
    if (dims.share == AttentionShare::queries) own_ = SequenceMap(sequence_ranks, dims.seq);
    if (ring_step < 0)
      key_runs_ = {{0, dims.key_count(), 0}};
    else
      set_ring_keys({sequence_ranks, dims.key_count()},
                    (sequence_rank_ + sequence_ranks - ring_step % sequence_ranks) % sequence_ranks);
  }

  std::int64_t heads() const { return context_.tensor_size * head_parts_ * dims_.heads; }
  /// Index of a local head among all heads.
  std::int64_t head(std::int64_t local) const {
    return (context_.tensor_rank * head_parts_ + head_part_) * dims_.heads + local;
  }

  /// Index of a local head among the tensor rank's heads.
  std::int64_t rank_head(std::int64_t local) const { return head_part_ * dims_.heads + local; }
  std::int64_t rank_heads() const { return head_parts_ * dims_.heads; }

  /// Position of query `i` of a sequence.
  std::int64_t position(std::int64_t i) const { return own_.position(sequence_rank_, i); }
  /// The keys of this operation, in runs of ascending position.
  const std::vector<KeyRun>& key_runs() const { return key_runs_; }
  /// Number of leading keys that end with the last one query `i` sees.
  std::int64_t visible(std::int64_t i) const {
    return dims_.causal ? keys_before(position(i) + 1) : dims_.key_count();
  }
  /// Number of leading keys that query `i` of a sequence does not see, as they lie before its window or its document.
  std::int64_t first_visible(std::int64_t sequence, std::int64_t i) const {
    const std::int64_t at = position(i), begin = document(sequence, at), first = begin + dims_.first_key(at - begin);
    return first == 0 ? 0 : keys_before(first);
  }
  /// Dropout-mask index of the key at position 0.
  std::uint64_t mask_index(std::int64_t sequence, std::int64_t local_head, std::int64_t i) const {
    const std::int64_t row = (first_sequence(context_) + sequence) * heads() + head(local_head);
    return static_cast<std::uint64_t>((row * all_queries() + position(i)) * all_keys());
  }

  /// Number of queries of a whole sequence, on all ranks that share it.
  std::int64_t all_queries() const { return own_.context_size * dims_.seq; }
  std::int64_t queries_of_group() const { return dims_.per_group(); }
  HeadRows query(std::int64_t sequence, std::int64_t local_head) const {
    if (!dims_.q_packed) return {queries_, sequence, dims_.seq, dims_.q_width(), local_head * dims_.head_dim};
    return {queries_, sequence, dims_.seq, dims_.qkv_width(), dims_.query_column(local_head)};
  }
  HeadRows key(std::int64_t sequence, std::int64_t group) const { return key_part(sequence, dims_.key_column(group)); }
  HeadRows value(std::int64_t sequence, std::int64_t group) const {
    return key_part(sequence, dims_.key_column(group) + dims_.head_dim);
  }
  HeadRows context(std::int64_t sequence, std::int64_t local_head) const {
    return {queries_, sequence, dims_.seq, dims_.context_width(), local_head * dims_.value_width()};
  }

 private:
  /// Whether the operands' rows are those of this rank, of the ranks that divide its heads, or of all context ranks.
  bool shares_rows(std::int64_t ranks, int ring_step) const {
    if (dims_.share == AttentionShare::whole) return dims_.row_shards == 1;
    if (dims_.share == AttentionShare::heads) return dims_.row_shards == ranks && ring_step < 0;
    const bool own = dims_.row_shards == 1 && head_parts_ == 1;
    return ranks % head_parts_ == 0 && (own || dims_.row_shards == (ring_step >= 0 ? head_parts_ : ranks));
  }
  /// The first position of the document at a position.
  std::int64_t document(std::int64_t sequence, std::int64_t position) const {
    return dims_.documents ? context_.documents[sequence * context_.seq_length + position] : 0;
  }
  /// Number of keys of this operation before a position of the sequence.
  std::int64_t keys_before(std::int64_t position) const {
    std::int64_t n = 0;
    for (const KeyRun& run : key_runs_) n += std::clamp<std::int64_t>(position - run.position, 0, run.count);
    return n;
  }
  void set_ring_keys(const SequenceMap& map, std::int64_t owner) {
    ring_keys_ = map.length();
    for (std::int64_t first = 0; first < map.local_seq; first += map.piece())
      key_runs_.push_back({first, map.piece(), map.position(owner, first)});
  }
  HeadRows key_part(std::int64_t sequence, std::int64_t column) const {
    return {keys_, sequence, dims_.key_count(), dims_.kv_packed ? dims_.qkv_width() : dims_.kv_width(), column};
  }
  /// Number of keys of a whole sequence.
  std::int64_t all_keys() const { return ring_keys_ > 0 ? ring_keys_ : dims_.key_count(); }

  const AttentionDims& dims_;
  const KernelContext& context_;
  RowOrder queries_, keys_;
  std::int64_t head_parts_, head_part_;  ///< ranks that divide the heads, and this one's place
  std::int64_t sequence_rank_;           ///< place among the ranks, or groups of ranks, that divide the sequence
  SequenceMap own_{1, 0};
  std::vector<KeyRun> key_runs_;
  std::int64_t ring_keys_ = 0;
};

template <class T>
T score_scale(const AttentionDims& dims) {
  return static_cast<T>(dims.score_factor());
}

}  // namespace tandem::exec::cpu
