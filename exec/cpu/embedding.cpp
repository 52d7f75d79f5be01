// Token and position embeddings.
#include <string>

#include "exec/cpu/dropout.hpp"
#include "exec/cpu/kernels.hpp"

namespace tandem::exec::cpu {
namespace {

// Row of a token in this rank's shard, or -1 when another rank holds it.
std::int64_t shard_row(std::int32_t token, std::int64_t vocab_rows, const KernelContext& context) {
  if (token < 0 || token >= vocab_rows * context.tensor_size) {
    throw DeviceError("token " + std::to_string(token) + " is outside the embedding table of " +
                      std::to_string(vocab_rows * context.tensor_size) + " rows");
  }
  const std::int64_t row = token - context.tensor_rank * vocab_rows;
  return row >= 0 && row < vocab_rows ? row : -1;
}

}  // namespace

template <class T>
void compute(const Embedding& op, Call& call) {
  const std::int32_t* tokens = call.in<std::int32_t>(0);
  const T* table = call.in<T>(1);
  T* y = call.out<T>(0);
  for (std::int64_t t = 0; t < op.tokens; ++t, y += op.hidden) {
    const std::int64_t row = shard_row(tokens[t], op.vocab_rows, call.context());
    if (row < 0)
      std::fill_n(y, op.hidden, T{0});
    else
      std::copy_n(table + row * op.hidden, op.hidden, y);
  }
}

template <class T>
void compute(const EmbeddingBackward& op, Call& call) {
  const std::int32_t* tokens = call.in<std::int32_t>(0);
  const T* dy = call.in<T>(1);
  T* dtable = call.out<T>(0);
  std::fill_n(dtable, op.vocab_rows * op.hidden, T{0});
  for (std::int64_t t = 0; t < op.tokens; ++t, dy += op.hidden) {
    const std::int64_t row = shard_row(tokens[t], op.vocab_rows, call.context());
    if (row < 0) continue;
    T* sum = dtable + row * op.hidden;
    each(op.hidden, [=](std::int64_t c) { sum[c] += dy[c]; });
  }
}

template <class T>
void compute(const PositionDropout& op, Call& call) {
  const T *x = call.in<T>(0), *table = op.learned ? call.in<T>(1) : nullptr;
  T* y = call.out<T>(0);
  const Dropout<T> dropout(call.context(), DropoutSite::embedding, op.dropout);
  const std::int64_t token = first_token(call.context(), op.seq);
  for (std::int64_t r = 0; r < op.batch * op.seq; ++r, x += op.hidden, y += op.hidden) {
    const auto first = static_cast<std::uint64_t>((token + r) * op.hidden);
    if (op.learned) {
      const T* position = table + (r % op.seq) * op.hidden;
      dropout.each(first, op.hidden, [=](std::int64_t c, T factor) { y[c] = factor * (x[c] + position[c]); });
    } else {
      dropout.each(first, op.hidden, [=](std::int64_t c, T factor) { y[c] = factor * x[c]; });
    }
  }
}

template <class T>
void compute(const PositionDropoutBackward& op, Call& call) {
  const T* dy = call.in<T>(0);
  T *dx = call.out<T>(0), *dposition = op.learned ? call.out<T>(1) : nullptr;
  const Dropout<T> dropout(call.context(), DropoutSite::embedding, op.dropout);
  const std::int64_t token = first_token(call.context(), op.seq);
  if (op.learned) std::fill_n(dposition, op.max_positions * op.hidden, T{0});
  for (std::int64_t r = 0; r < op.batch * op.seq; ++r, dy += op.hidden, dx += op.hidden) {
    dropout.each(static_cast<std::uint64_t>((token + r) * op.hidden), op.hidden,
                 [=](std::int64_t c, T factor) { dx[c] = factor * dy[c]; });
    if (!op.learned) continue;
    T* sum = dposition + (r % op.seq) * op.hidden;
    each(op.hidden, [=](std::int64_t c) { sum[c] += dx[c]; });
  }
}

TANDEM_KERNEL(Embedding);
TANDEM_KERNEL(EmbeddingBackward);
TANDEM_KERNEL(PositionDropout);
TANDEM_KERNEL(PositionDropoutBackward);

}  // namespace tandem::exec::cpu
