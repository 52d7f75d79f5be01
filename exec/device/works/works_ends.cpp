// Works of a model's ends: embedding, and the loss over the vocabulary.
#include "exec/device/works/operands.hpp"

namespace tandem::exec::device {
namespace {

template <class Op>
TableRows table_rows(const Op& op, const KernelContext& context) {
  if (op.whole) return {0, op.vocab_rows, op.vocab_rows};
  return {context.tensor_rank * op.vocab_rows, op.vocab_rows, op.vocab_rows * context.tensor_size};
}

template <class Op>
std::int64_t position_rows(const Op& op) {
  return op.rows > 0 ? op.rows : op.batch * op.seq;
}

/// Only a table's rows depend on documents.
template <class Op>
Documents documents_of(const Op& op, const Operands& at) {
  return at.documents(op.documents && op.learned);
}

VocabShard shard_of(const VocabDims& d, const KernelContext& context) {
  const std::int64_t first = d.whole ? 0 : context.tensor_rank * d.cols;
  return {d.cols, first, std::clamp<std::int64_t>(d.vocab_size - first, 0, d.cols), d.vocab_size};
}

}  // namespace

Works works(const Embedding& op, const Operands& at) {
  const Typed y = at.out(0);
  return {EmbeddingKernel{at.form({y}), at.in(0), at.in(1), y, op.tokens * op.hidden, op.hidden,
                          table_rows(op, at.context()), op.add, at.around().fault}};
}

Works works(const EmbeddingBackward& op, const Operands& at) {
  const Typed dy = at.in(1), dtable = at.out(0);
  const TableRows rows = table_rows(op, at.context());
  auto* first = reinterpret_cast<std::uint32_t*>(at.around().scratch);
  return {Clearing{dtable.address, bytes_of(dtable.type, op.vocab_rows * op.hidden).count(), std::byte{0}},
          Clearing{at.around().scratch, op.vocab_rows * static_cast<std::int64_t>(sizeof(std::uint32_t)), std::byte{0xFF}},
          FirstTokenKernel{Form::floats, at.in(0), first, op.tokens, rows, at.around().fault},
          EmbeddingGradKernel{at.form({dy}), at.in(0), dy, dtable, first, op.tokens, op.hidden, rows}};
}

Works works(const PositionDropout& op, const Operands& at) {
  const Typed x = at.in(0), y = at.out(0);
  const std::int64_t rows = position_rows(op);
  return {PositionKernel{at.form({x, y}), x, at.in_if(op.learned, 1), y, rows, op.hidden,
                         at.dropout(DropoutSite::embedding, op.dropout), {at.rows(op.seq, rows, op.shard), documents_of(op, at)}}};
}

// dx may overwrite dy, so the positions' gradient comes first.
Works works(const PositionDropoutBackward& op, const Operands& at) {
  const Typed dy = at.in(0), dx = at.out(0);
  const std::int64_t rows = position_rows(op);
  const Dropout dropout = at.dropout(DropoutSite::embedding, op.dropout);
  const PositionRows places{at.rows(op.seq, rows, op.shard), documents_of(op, at)};
  require(!op.learned || places.hidden.map.length() <= op.max_positions, "a position beyond the table");
  Works all;
  if (op.learned)
    all.push_back(PositionGradKernel{at.form({dy}), dy, at.out(1), rows, op.hidden, op.max_positions, dropout, places});
  all.push_back(PositionKernel{at.form({dy, dx}), dy, {}, dx, rows, op.hidden, dropout, places});
  return all;
}

Works works(const VocabMax& op, const Operands& at) {
  const Typed logits = at.in(0);
  return {VocabMaxKernel{at.form({logits}), logits, at.out(0), op.dims.rows, shard_of(op.dims, at.context())}};
}

Works works(const VocabExpSum& op, const Operands& at) {
  const Typed logits = at.in(0);
  return {VocabSumsKernel{at.form({logits}), logits, at.in(1), at.in(2), at.out(0), op.dims.rows, shard_of(op.dims, at.context()),
                          at.around().fault}};
}

Works works(const CrossEntropy& op, const Operands& at) {
  require(!op.one_kernel || op.dims.whole || at.context().tensor_size == 1, "a loss in one kernel needs all columns");
  const Typed logits = at.in(0), dlogits = at.out(1), terms{at.around().scratch, DType::fp64};
  const bool apart = !op.one_kernel;
  const Typed max = at.in_if(apart, 1), sums = at.in_if(apart, 2), targets = at.in(apart ? 3 : 1);
  return {LossKernel{at.form({logits, dlogits}), logits, max, sums, targets, terms, dlogits, op.dims.rows, op.global_tokens,
                     shard_of(op.dims, at.context()), at.table(), at.around().fault, op.weight},
          LossSumKernel{Form::doubles, terms, at.out(0), op.dims.rows, op.global_tokens, op.first, op.weight,
                        at.table()}};
}

}  // namespace tandem::exec::device
