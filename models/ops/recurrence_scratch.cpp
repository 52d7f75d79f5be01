#include "models/ops/recurrence_scratch.hpp"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{512} << 20;  // of a pass, unless one lane needs more
constexpr std::int64_t kAlignment = 256;                      // of a part's begin

constexpr std::int64_t parts(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

/// Number of slabs into which kernels cut the rows of a matrix to sum its columns (exec/device/columns.hpp, whose works refuse another).
constexpr std::int64_t slabs_of(std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kBlocks = 1056, kLeastRows = 32, kStrip = 256;
  return std::max<std::int64_t>(1, std::min(kBlocks / parts(cols, kStrip), parts(rows, kLeastRows)));
}

/// Adds up parts of numbers of one type.
class Sum {
 public:
  explicit Sum(DType compute) : number_(compute == DType::fp64 ? DType::fp64 : DType::fp32) {}
  void add(std::int64_t elements, std::int64_t times = 1) {
    bytes_ += times * parts(bytes_of(number_, elements).count(), kAlignment) * kAlignment;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  DType number_;
  std::int64_t bytes_ = 0;
};

std::int64_t length_of(const RecurrenceDims& d) { return std::min(d.chunk(), d.seq); }
std::int64_t lanes_of(const RecurrenceDims& d) { return d.batch * d.key_heads; }

}  // namespace

std::int64_t scan_slice_bytes(const RecurrenceDims& d, std::int64_t lanes, bool backward, DType compute) {
  const bool delta = d.rule == RecurrenceRule::gated_delta;
  const std::int64_t n = length_of(d), chunks = lanes * parts(d.seq, n), keys = chunks * n, rows = keys * d.per_key();
  const std::int64_t states = chunks * d.per_key() * d.key_dim * d.value_dim;
  Sum sum(compute);
  sum.add(keys * d.key_dim, 2);           // q, k
  sum.add(keys * n);                      // Q K^T
  sum.add(rows, 2);                       // log-decays and amounts
  sum.add(rows * d.value_dim, 2);         // delta or values, y
  sum.add(rows * d.key_dim);              // exp(G) Q
  sum.add(rows * n);                      // scores
  sum.add(states);
  if (delta) {
    sum.add(2 * keys);                    // lengths of q and k
    sum.add(keys * n);                    // K K^T
    sum.add(rows);                        // what is learnt
    sum.add(rows * n);                    // the inverse
    sum.add(rows * d.key_dim, 2);         // keys, reads
    sum.add(rows * d.value_dim);          // values
  }
  if (!backward) return sum.bytes();
  sum.add(rows * d.value_dim, 2);         // gradients of y and delta
  sum.add(rows * n);                      // of scores
  sum.add(states);                        // of states
  sum.add(rows * d.key_dim);              // of what chunks add
  sum.add(keys * n);                      // of Q K^T
  sum.add(keys * d.key_dim, 2);           // of q and k
  if (delta) sum.add(rows * n), sum.add(keys * n);  // of the inverse, of K K^T
  return sum.bytes();
}

std::int64_t scan_lanes_at_once(const RecurrenceDims& d, bool backward, DType compute) {
  const std::int64_t all = lanes_of(d);
  const std::int64_t most = std::clamp<std::int64_t>(kMostBytes / scan_slice_bytes(d, 1, backward, compute), 1, all);
  return parts(all, parts(all, most));
}

std::int64_t scratch_bytes(const Recurrence& op, DType compute) {
  return scan_slice_bytes(op.dims, scan_lanes_at_once(op.dims, false, compute), false, compute);
}

std::int64_t scratch_bytes(const RecurrenceBackward& op, DType compute) {
  const RecurrenceDims& d = op.dims;
  Sum terms(compute);
  terms.add(3 * d.heads * d.batch * parts(d.seq, length_of(d)));  // of decay, step and skip
  return scan_slice_bytes(d, scan_lanes_at_once(d, true, compute), true, compute) + terms.bytes();
}

std::int64_t scratch_bytes(const ShortConvBackward& op, DType compute) {
  const std::int64_t rows = op.dims.rows(), cols = op.dims.mixed(), sums = slabs_of(rows, cols) * cols;
  Sum sum(compute);
  sum.add(rows * cols);
  sum.add(sums * op.taps);
  sum.add(sums);
  return sum.bytes();
}

std::int64_t scratch_bytes(const GatedNormBackward& op, DType) {
  const std::int64_t rows = op.same_weights ? op.rows * op.parts : op.rows;
  return slabs_of(rows, op.weights()) * op.weights() * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace tandem
