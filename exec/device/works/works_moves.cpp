// Works of rotary embedding, of head norms, and of operations that mainly move elements.
#include "exec/device/works/operands.hpp"
#include "exec/shared/rotary_angles.hpp"

namespace tandem::exec::device {
namespace {

/// Strides of a group's keys and values, which are adjacent, in qkv and in kv.
struct GroupSteps {
  std::int64_t outer, middle, inner;
  Steps qkv, kv;
};

GroupSteps group_steps(std::int64_t rows, const AttentionDims& d) {
  return {rows, d.groups(), d.pair_width(), {d.key_column(0), d.qkv_width(), d.group_width()}, {0, d.kv_width(), d.pair_width()}};
}

CopyKernel part_columns(const Operands& at, const ColumnParts& op) {
  const std::int64_t part = op.part_cols();
  return {Form::floats, at.in(0), at.out(0), op.parts, op.rows, part, {0, part, op.cols}, {0, op.rows * part, part}};
}

/// Copies one of the two pieces of every sequence that each rank holds: piece r of rank r or, with `last`, piece 2c-1-r.
CopyKernel order_piece(const Operands& at, const OrderRows& op, bool last) {
  const std::int64_t n = op.piece() * op.cols;
  const Steps by_rank{last ? n : 0, op.batch * 2 * n, 2 * n};
  const Steps by_position{last ? (2 * op.shards - 1) * n : 0, last ? -n : n, 2 * op.shards * n};
  CopyKernel kernel{Form::floats, at.in(0), at.out(0), op.shards, op.batch, n, by_rank, by_position};
  if (op.inverse) std::swap(kernel.from, kernel.to);
  return kernel;
}

/// Copies this rank's own columns, and those that it shares with others. x to y.
Works own_part(const Operands& at, const ColumnParts& op) {
  const std::int64_t p = at.context().context_rank;
  require(op.divides() && p < op.parts, "columns that cannot be parted");
  const auto copy = [&](std::int64_t cols, std::int64_t from, std::int64_t to) {
    return CopyKernel{Form::floats, at.in(0), at.out(0), 1, op.rows, cols, {from, 0, op.cols}, {to, 0, op.part_cols()}};
  };
  Works all{copy(op.own(), op.own_column(p), op.own_place())};
  if (op.common > 0) all.push_back(copy(op.common, op.common_column(p), op.common_place()));
  return all;
}

}  // namespace

Works works(const SplitKv& op, const Operands& at) {
  const GroupSteps s = group_steps(op.rows, op.dims);
  return {CopyKernel{Form::floats, at.in(0), at.out(0), s.outer, s.middle, s.inner, s.qkv, s.kv}};
}

Works works(const MergeKv& op, const Operands& at) {
  const GroupSteps s = group_steps(op.rows, op.dims);
  return {CopyKernel{Form::floats, at.in(0), at.out(0), s.outer, s.middle, s.inner, s.kv, s.qkv}};
}

Works works(const PackColumns& op, const Operands& at) {
  require(op.divides(), "columns that cannot be parted");
  if (op.repeat > 1) return {CommonColumnsKernel{at.form({at.in(0), at.out(0)}), at.in(0), at.out(0), op}};
  return {part_columns(at, op)};
}

Works works(const UnpackColumns& op, const Operands& at) {
  require(op.divides(), "columns that cannot be parted");
  if (op.repeat > 1) return {CommonColumnsGradKernel{at.form({at.in(0), at.out(0)}), at.in(0), at.out(0), op}};
  CopyKernel kernel = part_columns(at, op);
  std::swap(kernel.from, kernel.to);
  return {kernel};
}

Works works(const OrderRows& op, const Operands& at) {
  require(op.divides(), "rows that context ranks cannot share");
  return {order_piece(at, op, false), order_piece(at, op, true)};
}

Works works(const TakePart& op, const Operands& at) { return own_part(at, op); }

Works works(const PlacePart& op, const Operands& at) {
  Works all{Clearing{at.out(0).address, bytes_of(at.out(0).type, op.whole()).count(), std::byte{0}}};
  for (Work& work : own_part(at, op)) {
    CopyKernel kernel = std::get<CopyKernel>(work);
    std::swap(kernel.from, kernel.to);
    all.push_back(kernel);
  }
  return all;
}

Works works(const TakeColumns& op, const Operands& at) {
  return {CopyKernel{Form::floats, at.in(0), at.out(0), 1, op.rows, op.width, {op.first, 0, op.cols}, {0, 0, op.width}}};
}

Works works(const AddColumns& op, const Operands& at) {
  const Typed y = at.in(0);
  Typed x = at.out(0);
  x.address += bytes_of(x.type, op.first).count();
  return {AddKernel{at.form({y, x}), y, x, op.elements(), op.width, op.cols, false}};
}

Works works(const TakeFirst& op, const Operands& at) {
  return {CopyKernel{Form::floats, at.in(0), at.out(0), op.batch, 1, op.hidden, {0, op.seq * op.hidden, 0}, {0, op.hidden, 0}}};
}

Works works(const TakeFirstBackward& op, const Operands& at) {
  const Typed dy = at.in(0), dx = at.out(0);
  return {AddKernel{at.form({dy, dx}), dy, dx, op.batch * op.hidden, op.hidden, op.seq * op.hidden, false}};
}

Works works(const Accumulate& op, const Operands& at) {
  const Typed x = at.in(0), y = at.out(0);
  if (op.source == DType::int32) return {CopyKernel{Form::floats, x, y, 1, 1, op.elements, {}, {}}};
  const bool wide = x.type == DType::fp64 || y.type == DType::fp64;
  return {AddKernel{form_of(wide ? DType::fp64 : DType::fp32, {x, y}), x, y, op.elements, op.elements, 0, op.overwrite}};
}

Works works(const Dequantize& op, const Operands& at) {
  const Typed y = at.out(0);
  return {DequantizeKernel{at.form({y}), at.in(0), y, op.elements}};
}

Works works(const Fill& op, const Operands& at) {
  return {Clearing{at.out(0).address, bytes_of(op.dtype, op.elements).count(), op.nan ? std::byte{0xFF} : std::byte{0}}};
}

Works works(const Rotary& op, const Operands& at) {
  const AttentionDims& d = op.dims;
  const KernelContext& context = at.context();
  require(d.q_packed || op.heads == RotaryHeads::queries, "keys are turned where they lie beside queries");
  const std::int64_t groups = d.q_packed ? d.groups() : 1, queries = d.heads / groups, half = op.width() / 2;
  RotaryKernel k{};
  k.tokens = d.batch * d.seq, k.width = d.q_packed ? d.qkv_width() : d.q_width(), k.groups = groups;
  k.half = half, k.head = d.head_dim, k.group = d.q_packed ? d.group_width() : d.q_width();
  k.first_head = op.heads == RotaryHeads::keys ? queries : 0;
  k.end_head = op.heads == RotaryHeads::queries ? queries : queries + 1;
  for (std::int64_t i = 0; i < half; ++i) k.frequencies[i] = rotary_frequency(op, i);
  k.unit = op.scaling == RopeScalingKind::linear ? op.factor : 1;
  k.length = rotary_length(op);
  k.map = SequenceMap(context.context_size, d.seq);
  k.context_rank = context.context_rank;
  k.inverse = op.inverse, k.part = op.part;
  k.documents = at.documents(d.documents);
  switch (op.part) {
    case RotaryPart::whole: case RotaryPart::cosine: k.x = k.y = at.out(0); break;
    case RotaryPart::swap: k.x = at.in(0), k.turned = at.out(0); break;
    case RotaryPart::sine: k.turned = at.out(0); break;
    case RotaryPart::add: k.turned = at.in(0), k.x = k.y = at.out(0); break;
  }
  k.form = at.form({k.x, k.y, k.turned});
  return {k};
}

}  // namespace tandem::exec::device
