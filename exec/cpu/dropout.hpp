#pragma once
// Dropout masks. They are never stored, but drawn again wherever they are needed.

#include <algorithm>
#include <array>
#include <cstdint>

#include "exec/cpu/lanes.hpp"
#include "exec/cpu/step.hpp"
#include "exec/data/random.hpp"
#include "exec/data/sequence_map.hpp"

namespace tandem::exec::cpu {

/// The dropout factors, 0 or 1/(1 - rate), of one site in one layer and step.
template <class T>
class Dropout {
 public:
  Dropout(const KernelContext& context, DropoutSite site, double rate)
      : stream_(RandomStream::dropout(context.seed, site, step_table(context).step, context.layer)),
        threshold_(drop_threshold(rate)),
        scale_(static_cast<T>(1 / (1 - rate))) {}

  /// Calls body(i, factor) for i in [0, n), with the factor of global index first + i.
  template <class F>
  void each(std::uint64_t first, std::int64_t n, F body) const {
    if (threshold_ == 0) return cpu::each(n, [&](std::int64_t i) { body(i, T{1}); });
    for (std::int64_t begin = 0; begin < n; begin += kChunk) {
      const std::int64_t count = std::min(kChunk, n - begin);
      each_drawn(first + static_cast<std::uint64_t>(begin), count,
                 [&](std::int64_t i, T factor) { body(begin + i, factor); });
    }
  }

 private:
  static constexpr std::int64_t kChunk = 512;

  template <class F>
  void each_drawn(std::uint64_t first, std::int64_t n, F body) const {
    std::array<std::uint32_t, kChunk> bits;
    stream_.fill_bits(first, {bits.data(), static_cast<std::size_t>(n)});
    cpu::each(n, [&, t = threshold_, s = scale_](std::int64_t i) { body(i, bits[i] < t ? T{0} : s); });
  }

  RandomStream stream_;
  std::uint32_t threshold_;
  T scale_;
};

/// This rank's rows of hidden states, ordered (sequence, local position), or its shard of them under sequence parallelism. Gives
/// each row's place in the run, by which dropout masks are indexed.
class HiddenRows {
 public:
  /// `local_seq`: number of positions of a sequence on this context rank.
  HiddenRows(const KernelContext& context, std::int64_t local_seq, std::int64_t rows, bool shard)
      : context_(context), map_(context.context_size, local_seq), rows_(rows), first_(shard ? context.tensor_rank * rows : 0) {}

  /// Calls body(first row, count, sequence in the micro-batch, position in the sequence) for each run of rows that are contiguous
  /// in a sequence.
  template <class F>
  void each_run(F body) const {
    for (std::int64_t row = 0, count = 0; row < rows_; row += count) {
      const std::int64_t index = (first_ + row) % map_.local_seq;
      count = std::min(rows_ - row, map_.piece() - index % map_.piece());
      body(row, count, (first_ + row) / map_.local_seq, map_.position(context_.context_rank, index));
    }
  }

  /// Global index of the token at a position.
  std::int64_t token(std::int64_t sequence, std::int64_t position) const {
    return (first_sequence(context_) + sequence) * map_.length() + position;
  }

 private:
  const KernelContext& context_;
  SequenceMap map_;
  std::int64_t rows_, first_;
};

}  // namespace tandem::exec::cpu
