// Token and position embeddings.
#include <string>

#include "exec/cpu/dropout.hpp"
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {
namespace {

// A token's row in this rank's part of the table; -1 if another rank holds it.
template <class Op>
std::int64_t table_row(std::int32_t token, const Op& op, const KernelContext& context) {
  const std::int64_t parts = op.whole ? 1 : context.tensor_size;
  if (token < 0 || token >= op.vocab_rows * parts) {
    throw DeviceError("token " + std::to_string(token) + " is outside the embedding table of " +
                      std::to_string(op.vocab_rows * parts) + " rows");
  }
  const std::int64_t row = token - (op.whole ? 0 : context.tensor_rank * op.vocab_rows);
  return row >= 0 && row < op.vocab_rows ? row : -1;
}

// The rows of an operation on position embeddings.
template <class Op>
HiddenRows position_rows(const Op& op, const KernelContext& context) {
  return {context, op.seq, op.rows > 0 ? op.rows : op.batch * op.seq, op.shard};
}

// Calls body(row, row of the table, mask index). Concurrent calls have different rows of the table.
template <class Op, class F>
void each_position(const Op& op, const Call& call, F body) {
  const HiddenRows rows = position_rows(op, call.context());
  require(!op.documents || call.context().documents != nullptr, "documents that nobody named");
  rows.each_run([&](std::int64_t first, std::int64_t count, std::int64_t sequence, std::int64_t position) {
    const auto mask = [&](std::int64_t i) { return static_cast<std::uint64_t>(rows.token(sequence, position + i) * op.hidden); };
    if (!op.documents || !op.learned)  // no two rows here have one row of the table
      return each_row(call, count, op.hidden, [&](std::int64_t i) { body(first + i, position + i, mask(i)); });
    const std::int32_t* documents = call.context().documents + sequence * call.context().seq_length;
    for (std::int64_t i = 0; i < count; ++i) body(first + i, position + i - documents[position + i], mask(i));
  });
}

}  // namespace

template <class T>
void compute(const Embedding& op, Call& call) {
  const std::int32_t* tokens = call.in<std::int32_t>(0);
  const T* table = call.in<T>(1);
  each_row(call, op.tokens, op.hidden, [&](std::int64_t t) {
    T* y = call.out<T>(0) + t * op.hidden;
    const std::int64_t row = table_row(tokens[t], op, call.context());
    const T* from = table + row * op.hidden;
    if (row < 0 && !op.add)
      std::fill_n(y, op.hidden, T{0});
    else if (row >= 0 && op.add)
      each(op.hidden, [=](std::int64_t c) { y[c] += from[c]; });
    else if (row >= 0)
      std::copy_n(from, op.hidden, y);
  });
}

template <class T>
void compute(const EmbeddingBackward& op, Call& call) {
  const std::int32_t* tokens = call.in<std::int32_t>(0);
  const T* dy = call.in<T>(1);
  T* dtable = call.out<T>(0);
  fill(call, dtable, op.vocab_rows * op.hidden, T{0});
  each_columns(call, op.tokens, op.hidden, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t t = 0; t < op.tokens; ++t)
      if (const std::int64_t row = table_row(tokens[t], op, call.context()); row >= 0) {
        T* const to = dtable + row * op.hidden + first;
        each(end - first, [to, from = dy + t * op.hidden + first](std::int64_t c) { to[c] += from[c]; });
      }
  });
}

template <class T>
void compute(const PositionDropout& op, Call& call) {
  const T *x = call.in<T>(0), *table = op.learned ? call.in<T>(1) : nullptr;
  T* y = call.out<T>(0);
  const Dropout<T> dropout(call.context(), DropoutSite::embedding, op.dropout);
  each_position(op, call, [&](std::int64_t r, std::int64_t position, std::uint64_t first) {
    const T *from = x + r * op.hidden, *added = table + (op.learned ? position * op.hidden : 0);
    T* to = y + r * op.hidden;
    if (op.learned)
      dropout.each(first, op.hidden, [=](std::int64_t c, T factor) { to[c] = factor * (from[c] + added[c]); });
    else
      dropout.each(first, op.hidden, [=](std::int64_t c, T factor) { to[c] = factor * from[c]; });
  });
}

template <class T>
void compute(const PositionDropoutBackward& op, Call& call) {
  const T* dy = call.in<T>(0);
  T *dx = call.out<T>(0), *dposition = op.learned ? call.out<T>(1) : nullptr;
  const Dropout<T> dropout(call.context(), DropoutSite::embedding, op.dropout);
  if (op.learned) std::fill_n(dposition, op.max_positions * op.hidden, T{0});
  each_position(op, call, [&](std::int64_t r, std::int64_t position, std::uint64_t first) {
    const T* from = dy + r * op.hidden;
    T* to = dx + r * op.hidden;
    dropout.each(first, op.hidden, [=](std::int64_t c, T factor) { to[c] = factor * from[c]; });
    if (!op.learned) return;
    require(position < op.max_positions, "a position beyond the table");
    T* sum = dposition + position * op.hidden;
    each(op.hidden, [=](std::int64_t c) { sum[c] += to[c]; });
  });
}

TANDEM_KERNEL(Embedding);
TANDEM_KERNEL(EmbeddingBackward);
TANDEM_KERNEL(PositionDropout);
TANDEM_KERNEL(PositionDropoutBackward);

}  // namespace tandem::exec::cpu
