#pragma once
// What a rank's losses say of each sequence of an evaluation.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "exec/backend/queue.hpp"
#include "exec/run/run_result.hpp"
#include "models/ops/op.hpp"

namespace tandem::exec {

/// Keeps the rows' sums that losses read: log(sum of exponentials) - target logit, both relative to the largest logit, is a row's
/// loss; a target logit of 0 is the largest one.
class LossRows {
 public:
  /// One loss of a micro-batch.
  struct Source {
    std::int64_t first_sequence = 0;  ///< of the micro-batch, in the data
    std::int64_t sequences = 0;       ///< of the micro-batch
    bool labels = false;              ///< the loss of sentence pairs
  };

  /// Copies the rows of a loss that `queue` has performed; `in`: its operands. A loss in one kernel keeps no sums and is refused.
  void copy(const CrossEntropy& op, std::span<const Tensor> in, const Source& source, Queue& queue);
  /// The scores of all sequences, ascending. Call it after the queue has finished.
  std::vector<SequenceScore> scores() const;
  void clear() { kept_.clear(); }

 private:
  struct Kept {
    Source source;
    DType type;
    std::vector<std::byte> sums;
    std::vector<std::int32_t> targets;
  };
  std::deque<Kept> kept_;  ///< a queue may still write to them
};

}  // namespace tandem::exec
