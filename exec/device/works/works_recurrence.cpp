// Works of layers with a recurrence: short convolutions, recurrences in chunks, and gates.
#include "exec/device/works/column_works.hpp"
#include "exec/device/works/operands.hpp"
#include "models/base/error.hpp"
#include "models/ops/recurrence_scratch.hpp"

namespace tandem::exec::device {
namespace {

constexpr std::int64_t kMostBatch = 32768;  // matrices per product; a grid's third axis has 65,535 places

constexpr const char* kOtherParts = "a recurrence's scratch memory has other parts than models/ops/recurrence_scratch counts";

/// Operands of products are fp32. TF32 keeps three bits more of them than bf16 has, but none more than fp16. Products that give the
/// delta rule's triangular matrix or multiply by its inverse are fp32 for bf16, too: with slow decay and nearly parallel keys the
/// inverse's terms cancel. Errors in units of the largest result, for 256 positions, heads of 128, keys k + 3 c with a common c, decay
/// 0.999 and learning rates of 0.95: these products in TF32 make 1e-2 of the output and 6e-2 of gradients where tensor cores truncate
/// operands, 3e-3 and 8e-3 where they round. In fp32: 3e-3 and 7e-3, as much as rounding all inputs to bf16 makes (3e-3 and 1e-2).
/// Products of the backward pass are fp32, too: gradients of decays are small differences of large sums, of which TF32 takes 3e-2.
DType product_of(DType compute, bool exact) {
  if (compute == DType::bf16) return exact ? DType::fp32 : DType::tf32;
  return compute == DType::fp16 ? DType::fp32 : compute;
}

/// Parts of scratch memory, one behind the other. Without memory it only counts bytes.
class ScratchAllocator {
 public:
  ScratchAllocator(std::byte* begin, DType number) : begin_(begin), number_(number) {}
  std::byte* take(std::int64_t elements) {
    std::byte* const at = begin_ == nullptr ? nullptr : begin_ + bytes_;
    bytes_ += padded_bytes(number_, elements);
    return at;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* begin_;
  DType number_;
  std::int64_t bytes_ = 0;
};

ScanSizes sizes_of(const RecurrenceDims& d) {
  const std::int64_t length = std::min(d.chunk(), d.seq);
  return {d.seq, d.key_heads, d.per_key(), d.key_dim, d.value_dim, length, parts(d.seq, length), 0, d.batch * d.key_heads,
          d.rule == RecurrenceRule::gated_delta};
}

ScanScratch scan_scratch(const ScanSizes& s, ScratchAllocator& scratch) {
  const std::int64_t n = s.length, keys = s.key_chunks() * n, rows = s.head_chunks() * n;
  const auto take = [&](bool there, std::int64_t elements) { return there ? scratch.take(elements) : nullptr; };
  ScanScratch r{};
  r.q = scratch.take(keys * s.key_dim), r.k = scratch.take(keys * s.key_dim);
  r.lengths = take(s.delta, 2 * keys);
  r.queries_keys = scratch.take(keys * n), r.pairs = take(s.delta, keys * n);
  r.sums = scratch.take(rows), r.amount = scratch.take(rows), r.learn = take(s.delta, rows);
  r.inverse = take(s.delta, rows * n);
  r.keys = take(s.delta, rows * s.key_dim), r.values = take(s.delta, rows * s.value_dim);
  r.reads = take(s.delta, rows * s.key_dim);
  r.added = scratch.take(rows * s.value_dim);
  r.grown = scratch.take(rows * s.key_dim);
  r.scores = scratch.take(rows * n);
  r.states = scratch.take(s.head_chunks() * s.key_dim * s.value_dim);
  r.y = scratch.take(rows * s.value_dim);
  return r;
}

ScanGradScratch grad_scratch(const ScanSizes& s, ScratchAllocator& scratch) {
  const std::int64_t n = s.length, keys = s.key_chunks() * n, rows = s.head_chunks() * n;
  ScanGradScratch r{};
  r.dy = scratch.take(rows * s.value_dim), r.dadded = scratch.take(rows * s.value_dim);
  r.dscores = scratch.take(rows * n);
  r.dinverse = s.delta ? scratch.take(rows * n) : nullptr;
  r.dstates = scratch.take(s.head_chunks() * s.key_dim * s.value_dim);
  r.dends = scratch.take(rows * s.key_dim);
  r.score_sums = scratch.take(keys * n), r.pair_sums = s.delta ? scratch.take(keys * n) : nullptr;
  r.dq = scratch.take(keys * s.key_dim), r.dk = scratch.take(keys * s.key_dim);
  return r;
}

std::int64_t part_elements(const RecurrenceDims& d) {
  return 3 * d.heads * d.batch * parts(d.seq, std::min(d.chunk(), d.seq));
}

/// Batches of row-major matrices in scratch memory, one behind the other.
struct Matrices {
  std::byte* data;
  std::int64_t rows, cols;
  bool transposed = false;

  Matrices across() const { return {data, rows, cols, true}; }
};

/// Adds out = alpha first second (+ out), for all matrices of a slice. Operations count FLOPs as a whole, so products count none.
class SliceProducts {
 public:
  /// `backward`: of the backward pass.
  SliceProducts(Works& works, DType compute, bool backward) : works_(works), compute_(compute), backward_(backward) {}

  void add(std::int64_t batch, const Matrices& first, const Matrices& second, const Matrices& out, double alpha, bool accumulate,
           bool inverse) const {
    const DType number = number_of(compute_);
    GemmShape shape{stored(second), stored(first), stored(out), 0, product_of(compute_, inverse || backward_), number};
    shape.accumulate = accumulate;
    const auto from = [&](const Matrices& m, std::int64_t i) { return m.data + bytes_of(number, i * m.rows * m.cols).count(); };
    for (std::int64_t i = 0; i < batch; i += kMostBatch) {
      shape.batch = std::min(kMostBatch, batch - i);
      Product product{shape, from(second, i), from(first, i), from(out, i), nullptr, alpha};
      product.counted = 0;
      works_.push_back(product);
    }
  }

 private:
  static Stored stored(const Matrices& m) { return {m.cols, m.rows, m.cols, m.rows * m.cols, m.transposed}; }

  Works& works_;
  DType compute_;
  bool backward_;
};

/// What both passes of a recurrence read.
struct ScanInputs {
  Typed x, scalars, decay, step, skip;
};
ScanInputs scan_inputs(const RecurrenceDims& d, const Operands& at, std::size_t first) {
  const bool skips = d.rule == RecurrenceRule::mamba2;
  return {at.in(first), at.in(first + 1), at.in(first + 2), at.in(first + 3), at.in_if(skips, first + 4)};
}

/// The works of some lanes.
class SliceWorks {
 public:
  SliceWorks(Works& works, const ScanSizes& sizes, const Operands& at, Form form, bool backward)
      : works_(works), s_(sizes), compute_(at.compute()), allocator_(at.around().scratch, number_of(at.compute())), form_(form),
        scratch_(scan_scratch(sizes, allocator_)), products_(works, at.compute(), backward) {}

  /// Until y is in scratch memory.
  void forward(const ScanInputs& in, Typed dy = {}) {
    if (dy.here()) grads_ = grad_scratch(s_, allocator_);
    works_.push_back(ScanKeysKernel{form_, in.x, s_, scratch_});
    works_.push_back(ScanGatesKernel{form_, in.scalars, in.decay, in.step, s_, scratch_});
    of_keys(q(), k().across(), square(scratch_.queries_keys));
    if (s_.delta) of_keys(k(), k().across(), square(scratch_.pairs), false, true);
    works_.push_back(ScanFactorsKernel{form_, in.x, dy, s_, scratch_, grads_.dy});
    if (s_.delta) {
      by_inverse(square(scratch_.inverse), by_keys(scratch_.keys), by_keys(scratch_.reads));
      by_inverse(square(scratch_.inverse), by_values(scratch_.values), by_values(scratch_.added));
    }
    works_.push_back(ScanStatesKernel{form_, s_, scratch_});
    of_heads(by_keys(scratch_.grown), state(scratch_.states), by_values(scratch_.y));
    of_heads(square(scratch_.scores), by_values(scratch_.added), by_values(scratch_.y), 1, true);
  }
  void output(const ScanInputs& in, Typed y) { works_.push_back(ScanOutputKernel{form_, in.x, in.skip, y, s_, scratch_}); }

  /// Scratch memory that was taken.
  std::int64_t bytes() const { return allocator_.bytes(); }

  void backward(const ScanInputs& in, Typed dx, Typed dscalars, std::byte* terms, std::int64_t sequences) {
    grads_.parts = terms;
    const Matrices dy = by_values(grads_.dy), added = by_values(scratch_.added), dadded = by_values(grads_.dadded);
    of_heads(dy, added.across(), square(grads_.dscores));
    of_heads(square(scratch_.scores).across(), dy, dadded);
    of_heads(by_keys(scratch_.grown).across(), dy, state(grads_.dstates));
    of_heads(dy, state(scratch_.states).across(), by_keys(scratch_.grown));
    works_.push_back(ScanStateGradKernel{form_, s_, scratch_, grads_});
    of_heads(added, state(grads_.dstates).across(), by_keys(grads_.dends));
    if (s_.delta) from_delta(dadded);
    works_.push_back(ScanPairsKernel{form_, s_, scratch_, grads_});
    const Matrices dk{grads_.dk, s_.length, s_.key_dim};
    of_keys(square(grads_.score_sums), k(), {grads_.dq, s_.length, s_.key_dim});
    of_keys(square(grads_.score_sums).across(), q(), dk);
    if (s_.delta) of_keys(square(grads_.pair_sums), k(), dk, true, true);
    works_.push_back(ScanHeadGradKernel{form_, in.x, in.scalars, in.decay, in.step, in.skip, dx, dscalars, s_, scratch_, grads_,
                                        sequences});
    works_.push_back(ScanKeyGradKernel{form_, dx, s_, scratch_, grads_});
  }

 private:
  // delta = T (b V) - (T keys) S. Gradients of factors take their places when these have been read.
  void from_delta(const Matrices& dadded) const {
    const Matrices inverse = square(scratch_.inverse), dinverse = square(grads_.dinverse), between = square(scratch_.scores);
    const Matrices keys = by_keys(scratch_.keys), dreads = by_keys(scratch_.reads), values = by_values(scratch_.values);
    by_inverse(dadded, state(scratch_.states).across(), dreads, -1);
    by_inverse(dadded, values.across(), dinverse);
    by_inverse(dreads, keys.across(), dinverse, 1, true);
    by_inverse(inverse.across(), dadded, values);
    by_inverse(inverse.across(), dreads, keys);
    by_inverse(inverse.across(), dinverse, between);
    by_inverse(between, inverse.across(), dinverse);
  }

  Matrices q() const { return {scratch_.q, s_.length, s_.key_dim}; }
  Matrices k() const { return {scratch_.k, s_.length, s_.key_dim}; }
  Matrices square(std::byte* data) const { return {data, s_.length, s_.length}; }
  Matrices by_keys(std::byte* data) const { return {data, s_.length, s_.key_dim}; }
  Matrices by_values(std::byte* data) const { return {data, s_.length, s_.value_dim}; }
  Matrices state(std::byte* data) const { return {data, s_.key_dim, s_.value_dim}; }
  void of_keys(const Matrices& first, const Matrices& second, const Matrices& out, bool accumulate = false,
               bool inverse = false) const {
    products_.add(s_.key_chunks(), first, second, out, 1, accumulate, inverse);
  }
  void of_heads(const Matrices& first, const Matrices& second, const Matrices& out, double alpha = 1,
                bool accumulate = false) const {
    products_.add(s_.head_chunks(), first, second, out, alpha, accumulate, false);
  }
  /// Around the delta rule's inverse: see product_of().
  void by_inverse(const Matrices& first, const Matrices& second, const Matrices& out, double alpha = 1,
                  bool accumulate = false) const {
    products_.add(s_.head_chunks(), first, second, out, alpha, accumulate, true);
  }

  Works& works_;
  ScanSizes s_;
  DType compute_;
  ScratchAllocator allocator_;
  Form form_;
  ScanScratch scratch_;
  ScanGradScratch grads_{};
  SliceProducts products_;
};

/// Calls body(sizes), which returns the scratch bytes that it took, for slices of lanes.
template <class F>
void each_slice(const RecurrenceDims& d, bool backward, DType compute, F body) {
  const ScanSizes all = sizes_of(d);
  const std::int64_t once = scan_lanes_at_once(d, backward, compute);
  for (ScanSizes s = all; s.first < all.lanes; s.first += once) {
    s.lanes = std::min(once, all.lanes - s.first);
    require(body(s) == scan_slice_bytes(d, s.lanes, backward, compute), kOtherParts);
  }
}

/// The first product counts the FLOPs of the operation: those of whole products, without padding.
void count(Works& works, std::int64_t flops) {
  for (Work& work : works)
    if (auto* product = std::get_if<Product>(&work)) return void(product->counted = flops);
}

template <class Op>
ShortConvRows rows_of(const Op& op, const Operands& at, std::size_t first) {
  return {at.in(first), at.in(first + 1), at.in_if(op.bias, first + 2), op.dims.rows(), op.dims.seq, op.dims.mixed(), op.taps};
}

std::int64_t conv_partials(const ShortConvBackward& op, std::int64_t sums) {
  return column_slabs(op.dims.rows(), op.dims.mixed()).count * op.dims.mixed() * sums;
}

template <class Op>
GatedNormRows rows_of(const Op& op, const Operands& at, std::size_t first, Typed rms) {
  return {at.in(first), at.in(first + 1), at.in(first + 2), rms, op.rows * op.parts, op.cols, op.same_weights ? 1 : op.parts,
          op.gate_first};
}

}  // namespace

std::size_t scan_shared_bytes(const RecurrenceDims& d, DType compute) {
  const ScanSizes s = sizes_of(d);
  const ScanColumns columns{compute == DType::fp64 ? Form::doubles : Form::floats, s.key_dim, s.length, s.value_dim};
  return columns.bytes(columns.each());
}

std::int64_t recurrence_scratch(const Recurrence& op, DType compute) { return scratch_bytes(op, compute); }
std::int64_t recurrence_scratch(const RecurrenceBackward& op, DType compute) { return scratch_bytes(op, compute); }
std::int64_t recurrence_scratch(const ShortConvBackward& op, DType compute) { return scratch_bytes(op, compute); }
std::int64_t recurrence_scratch(const GatedNormBackward& op) { return scratch_bytes(op, DType::fp32); }

Works works(const Recurrence& op, const Operands& at) {
  const ScanInputs in = scan_inputs(op.dims, at, 0);
  const Typed y = at.out(0);
  Works all;
  each_slice(op.dims, false, at.compute(), [&](const ScanSizes& s) {
    SliceWorks slice(all, s, at, at.form({in.x, y}), false);
    slice.forward(in);
    slice.output(in, y);
    return slice.bytes();
  });
  count(all, op.dims.chunked_flops());
  return all;
}

// Recomputes the forward pass.
Works works(const RecurrenceBackward& op, const Operands& at) {
  const RecurrenceDims& d = op.dims;
  const ScanInputs in = scan_inputs(d, at, 1);
  const Typed dy = at.in(0), dx = at.out(0);
  const DType number = number_of(at.compute());
  std::byte* const terms = at.around().scratch + scratch_bytes(op, at.compute()) - padded_bytes(number, part_elements(d));
  Works all;
  each_slice(d, true, at.compute(), [&](const ScanSizes& s) {
    SliceWorks slice(all, s, at, at.form({dy, in.x, dx}), true);
    slice.forward(in, dy);
    slice.backward(in, dx, at.out(1), terms, d.batch);
    return slice.bytes();
  });
  const Typed dskip = at.out_if(in.skip.here(), 4);
  all.push_back(ScanVectorsKernel{number == DType::fp64 ? Form::doubles : Form::floats, at.out(2), at.out(3), dskip, terms, d.heads,
                                  part_elements(d) / (3 * d.heads)});
  count(all, 3 * d.chunked_flops());
  return all;
}

Works works(const ShortConv& op, const Operands& at) {
  const ShortConvRows rows = rows_of(op, at, 0);
  const Typed y = at.out(0);
  return {ShortConvKernel{at.form({rows.x, y}), rows, {}, y, nullptr}};
}

Works works(const ShortConvBackward& op, const Operands& at) {
  const ShortConvRows rows = rows_of(op, at, 1);
  const Typed dy = at.in(0), dx = at.out(0);
  const Form form = at.form({dy, rows.x, dx});
  ScratchAllocator scratch(at.around().scratch, number_of(at.compute()));
  std::byte* const slopes = scratch.take(rows.elements());
  std::byte *const weights = scratch.take(conv_partials(op, op.taps)), *const biases = scratch.take(conv_partials(op, 1));
  const ShortConvWeightGradKernel sums{form, rows, slopes, weights, biases};
  require(scratch.bytes() == scratch_bytes(op, at.compute()), kOtherParts);
  const auto fold = [&](std::byte* from, std::int64_t cols, Typed to) {
    ColumnFoldKernel last = column_fold(at.compute(), from, sums.slabs().count, cols);
    last.first = to;
    return last;
  };
  Works all{ShortConvKernel{form, rows, dy, {}, slopes}, sums, fold(weights, rows.cols * rows.taps, at.out(1))};
  if (op.bias) all.push_back(fold(biases, rows.cols, at.out(2)));
  all.push_back(ShortConvInputGradKernel{form, rows, slopes, dx});
  return all;
}

Works works(const GatedNorm& op, const Operands& at) {
  const GatedNormRows rows = rows_of(op, at, 0, at.out(1));
  const Typed y = at.out(0);
  return {GatedNormKernel{at.form({rows.x, rows.gate, y}), rows, y, op.epsilon}};
}

Works works(const GatedNormBackward& op, const Operands& at) {
  const GatedNormRows rows = rows_of(op, at, 1, at.in(4));
  const Typed dy = at.in(0), dx = at.out(0), dgate = at.out(1);
  const Form form = at.form({dy, rows.x, rows.gate, dx, dgate});
  const GatedNormWeightGradKernel sums{form, rows, dy, at.around().scratch};
  require(column_scratch(sums.slabs().rows, op.weights(), 1) == scratch_bytes(op, at.compute()), kOtherParts);
  ColumnFoldKernel last = column_fold(at.compute(), at.around().scratch, sums.slabs().count, op.weights());
  last.first = at.out(2);
  return {sums, last, GatedNormGradKernel{form, rows, dy, dx, dgate}};  // dx may overwrite dy
}

Works works(const SigmoidGate& op, const Operands& at) {
  const Typed x = at.in(0), gate = at.in(1), y = at.out(0);
  return {SigmoidGateKernel{at.form({x, gate, y}), {}, x, gate, y, {}, op.elements}};
}

Works works(const SigmoidGateBackward& op, const Operands& at) {
  const Typed dy = at.in(0), x = at.in(1), gate = at.in(2), dx = at.out(0), dgate = at.out(1);
  return {SigmoidGateKernel{at.form({dy, x, gate, dx, dgate}), dy, x, gate, dx, dgate, op.elements}};
}

}  // namespace tandem::exec::device
