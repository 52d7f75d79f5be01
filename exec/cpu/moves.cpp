// Operations that mainly move numbers.
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/split.hpp"
#include "exec/data/sequence_map.hpp"

namespace tandem::exec::cpu {
namespace {

// Calls body(offset in qkv, offset in kv) of each group's keys and values, which are adjacent in both.
template <class Op, class F>
void each_group(const Op& op, const Call& call, F body) {
  const AttentionDims& d = op.dims;
  require(d.kv_packed, "keys and values that stand apart already");
  each_row(call, op.rows, d.kv_width(), [&](std::int64_t r) {
    for (std::int64_t g = 0; g < d.groups(); ++g) body(r * d.qkv_width() + d.key_column(g), r * d.kv_width() + g * d.pair_width());
  });
}

// Calls own(offset in x, offset in y, columns) for each part of every row, and common() for its columns shared with other parts.
template <class Own, class Common>
void each_part(const ColumnParts& op, const Call& call, Own own, Common common) {
  require(op.divides(), "columns that cannot be parted");
  each_row(call, op.rows, op.parted() / op.rows, [&](std::int64_t r) {
    for (std::int64_t p = 0; p < op.parts; ++p) {
      const std::int64_t y = (p * op.rows + r) * op.part_cols();
      own(r * op.cols + op.own_column(p), y + op.own_place(), op.own());
      common(r * op.cols + op.common_column(p), y + op.common_place(), p % op.repeat);
    }
  });
}

// Calls body(offset in x, offset in y, columns) for what this context rank has of every row.
template <class F>
void each_own_part(const ColumnParts& op, const Call& call, F body) {
  const std::int64_t p = call.context().context_rank;
  require(op.divides() && p < op.parts, "columns that cannot be parted");
  each_row(call, op.rows, op.part_cols(), [&](std::int64_t r) {
    body(r * op.cols + op.own_column(p), r * op.part_cols() + op.own_place(), op.own());
    body(r * op.cols + op.common_column(p), r * op.part_cols() + op.common_place(), op.common);
  });
}

}  // namespace

template <class T>
void compute(const SplitKv& op, Call& call) {
  const T* qkv = call.in<T>(0);
  T* kv = call.out<T>(0);
  each_group(op, call, [&](std::int64_t from, std::int64_t to) { std::copy_n(qkv + from, op.dims.pair_width(), kv + to); });
}

template <class T>
void compute(const MergeKv& op, Call& call) {
  const T* dkv = call.in<T>(0);
  T* dqkv = call.out<T>(0);
  each_group(op, call, [&](std::int64_t to, std::int64_t from) { std::copy_n(dkv + from, op.dims.pair_width(), dqkv + to); });
}

template <class T>
void compute(const PackColumns& op, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  const auto copy = [=](std::int64_t from, std::int64_t to, std::int64_t n) { std::copy_n(x + from, n, y + to); };
  each_part(op, call, copy, [=, n = op.common](std::int64_t from, std::int64_t to, std::int64_t) { copy(from, to, n); });
}

template <class T>
void compute(const UnpackColumns& op, Call& call) {
  const T* y = call.in<T>(0);
  T* x = call.out<T>(0);
  const auto copy = [=](std::int64_t to, std::int64_t from, std::int64_t n) { std::copy_n(y + from, n, x + to); };
  each_part(op, call, copy, [=, n = op.common](std::int64_t to, std::int64_t from, std::int64_t place) {
    if (place == 0) return copy(to, from, n);
    each(n, [to = x + to, from = y + from](std::int64_t c) { to[c] += from[c]; });
  });
}

template <class T>
void compute(const OrderRows& op, Call& call) {
  require(op.divides(), "rows that context ranks cannot share");
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  const SequenceMap map(op.shards, op.seq / op.shards);
  each_row(call, op.batch * op.seq, op.cols, [&](std::int64_t ordered) {
    const SequenceMap::Place at = map.place(ordered % op.seq);
    const std::int64_t shard = (at.rank * op.batch + ordered / op.seq) * map.local_seq + at.index;
    std::copy_n(x + (op.inverse ? ordered : shard) * op.cols, op.cols, y + (op.inverse ? shard : ordered) * op.cols);
  });
}

template <class T>
void compute(const TakePart& op, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  each_own_part(op, call, [=](std::int64_t from, std::int64_t to, std::int64_t n) { std::copy_n(x + from, n, y + to); });
}

template <class T>
void compute(const PlacePart& op, Call& call) {
  const T* dy = call.in<T>(0);
  T* dx = call.out<T>(0);
  fill(call, dx, op.whole(), T(0));
  each_own_part(op, call, [=](std::int64_t to, std::int64_t from, std::int64_t n) { std::copy_n(dy + from, n, dx + to); });
}

template <class T>
void compute(const TakeColumns& op, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  each_row(call, op.rows, op.width, [&](std::int64_t r) { std::copy_n(x + r * op.cols + op.first, op.width, y + r * op.width); });
}

template <class T>
void compute(const AddColumns& op, Call& call) {
  const T* y = call.in<T>(0);
  T* x = call.out<T>(0);
  each_row(call, op.rows, op.width, [&](std::int64_t r) {
    each(op.width, [to = x + r * op.cols + op.first, from = y + r * op.width](std::int64_t c) { to[c] += from[c]; });
  });
}

template <class T>
void compute(const TakeFirst& op, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  for (std::int64_t s = 0; s < op.batch; ++s) std::copy_n(x + s * op.seq * op.hidden, op.hidden, y + s * op.hidden);
}

template <class T>
void compute(const TakeFirstBackward& op, Call& call) {
  const T* dy = call.in<T>(0);
  T* dx = call.out<T>(0);
  for (std::int64_t s = 0; s < op.batch; ++s)
    each(op.hidden, [=, to = dx + s * op.seq * op.hidden, from = dy + s * op.hidden](std::int64_t c) { to[c] += from[c]; });
}

template <class T>
void compute(const Fill& op, Call& call) {
  fill(call, call.out<std::byte>(0), bytes_of(op.dtype, op.elements).count(), op.nan ? std::byte{0xff} : std::byte{0});
}

TANDEM_KERNEL(SplitKv);
TANDEM_KERNEL(MergeKv);
TANDEM_KERNEL(PackColumns);
TANDEM_KERNEL(UnpackColumns);
TANDEM_KERNEL(OrderRows);
TANDEM_KERNEL(TakePart);
TANDEM_KERNEL(PlacePart);
TANDEM_KERNEL(TakeColumns);
TANDEM_KERNEL(AddColumns);
TANDEM_KERNEL(TakeFirst);
TANDEM_KERNEL(TakeFirstBackward);
TANDEM_KERNEL(Fill);

}  // namespace tandem::exec::cpu
