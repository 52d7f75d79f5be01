#pragma once
// Dropout masks by global index, and the global tokens of a rank's rows.

#include "exec/backend/step_table.hpp"
#include "exec/data/sequence_map.hpp"
#include "exec/device/wide.hpp"
#include "exec/shared/hd.hpp"
#include "exec/shared/philox.hpp"

namespace tandem::exec::device {

/// One dropout site in one layer. The step comes from the table.
struct Dropout {
  std::uint64_t seed = 0;
  std::uint32_t threshold = 0;  ///< elements whose 32 random bits are below this are dropped
  double scale = 1;             ///< 1 / (1 - rate)
  DropoutSite site = DropoutSite::embedding;
  std::int32_t layer = -1;
  const StepTable* table = nullptr;

  /// The factor of a global index: 0 or 1/(1 - rate).
  template <class A>
  TANDEM_HD A factor(std::uint64_t index) const {
    if (threshold == 0) return A{1};
    return of_bits<A>(random_bits(seed, name(), index));
  }
  /// The factors of N consecutive indices, the first a multiple of N. Four indices share a block of random words.
  template <class A, int N>
  TANDEM_HD Wide<A, N> factors(std::uint64_t index) const {
    Wide<A, N> all;
    if constexpr (N % 4 == 0) {
      TANDEM_UNROLL
      for (int l = 0; l < N; l += 4) {
        const PhiloxWords words = philox_words(seed, name(), (index + static_cast<std::uint64_t>(l)) / 4);
        all[l] = of_bits<A>(words.w0), all[l + 1] = of_bits<A>(words.w1);
        all[l + 2] = of_bits<A>(words.w2), all[l + 3] = of_bits<A>(words.w3);
      }
    } else {
      TANDEM_UNROLL
      for (int l = 0; l < N; ++l) all[l] = factor<A>(index + static_cast<std::uint64_t>(l));
    }
    return all;
  }

 private:
  TANDEM_HD RandomName name() const { return dropout_name(site, table->step, layer); }
  template <class A>
  TANDEM_HD A of_bits(std::uint32_t bits) const {
    return bits < threshold ? A{0} : static_cast<A>(scale);
  }
};

/// A rank's rows of hidden states, ordered (sequence, local position), or its shard of them under sequence parallelism.
struct HiddenRows {
  SequenceMap map{1, 1};
  std::int64_t first_row = 0;       ///< of this shard
  std::int64_t first_sequence = 0;  ///< of the micro-batch, relative to the table's first sample
  std::int32_t context_rank = 0;

  /// A row's sequence, in the micro-batch.
  TANDEM_HD std::int64_t sequence(std::int64_t row) const { return (first_row + row) / map.local_seq; }
  TANDEM_HD std::int64_t position(std::int64_t row) const {
    return map.position(context_rank, (first_row + row) % map.local_seq);
  }
  /// Global index of a row's token.
  TANDEM_HD std::int64_t token(std::int64_t row, const StepTable& table) const {
    return (table.first_sample + first_sequence + sequence(row)) * map.length() + position(row);
  }
};

}  // namespace tandem::exec::device
