// Kernels of recurrences, of gates, and products in blocks of columns, at sizes that take each of their ways.
#include "tests/exec/device/beside.hpp"

namespace tandem::exec::test {
namespace {

using Kind = Operand::Kind;
using Operands = std::vector<Operand>;

}  // namespace

TEST_CASE("recurrences, short convolutions and gates are right for heads of many sizes, and so are their gradients") {
  const RecurrenceRule delta = RecurrenceRule::gated_delta, mamba = RecurrenceRule::mamba2;
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16})
    for (const RecurrenceDims& d :
         {RecurrenceDims{delta, 2, 4, 150, 2, 40, 24}, RecurrenceDims{mamba, 1, 3, 300, 1, 129, 33},
          RecurrenceDims{delta, 1, 4, 70, 2, 300, 7}, RecurrenceDims{mamba, 3, 2, 5, 2, 1, 70}}) {
      CAPTURE(name(dtype), d.seq, d.key_dim);
      Beside both(dtype);
      const bool skips = d.rule == RecurrenceRule::mamba2;
      const std::int64_t mixed = d.rows() * d.mixed(), scalars = d.rows() * d.scalars(), n = d.rows() * d.values(), h = d.heads;
      const Values x = short_values(mixed, 1), s = short_values(scalars, 2), decay = short_values(h, 3), step = short_values(h, 4),
                   skip = short_values(h, 5), dy = short_values(n, 6);
      const Values w = short_values(d.mixed() * 4, 7), bias = short_values(d.mixed(), 8);
      const auto operands = [&](Operands all) {
        for (const Values& v : {x, s, decay, step}) all.push_back(real(v));
        if (skips) all.push_back(real(skip));
        return all;
      };
      both.check(Recurrence{d}, [&](Kind) { return operands({}); }, [&](Kind) { return Operands{result(n)}; });
      both.check(RecurrenceBackward{d}, [&](Kind) { return operands({real(dy)}); }, [&](Kind kind) {
        Operands out{result(mixed), result(scalars), zeros(kind, h), zeros(kind, h)};
        if (skips) out.push_back(zeros(kind, h));
        return out;
      });
      both.check(ShortConv{d, 4, true}, [&](Kind) { return Operands{real(x), real(w), real(bias)}; },
                 [&](Kind) { return Operands{result(mixed)}; });
      both.check(ShortConvBackward{d, 4, false}, [&](Kind) { return Operands{real(x), real(x), real(w)}; },
                 [&](Kind kind) { return Operands{result(mixed), zeros(kind, d.mixed() * 4)}; });
    }
}

TEST_CASE("heads that take turns in scratch memory are right, and so are their gradients") {
  const RecurrenceDims d{RecurrenceRule::gated_delta, 2, 20, 2, 20, 1000, 1000};  // 16 MB of states per head, beyond 512 MiB in all
  const std::int64_t mixed = d.rows() * d.mixed(), scalars = d.rows() * d.scalars(), n = d.rows() * d.values(), h = d.heads;
  const Values x = short_values(mixed, 1), s = short_values(scalars, 2), decay = short_values(h, 3), step = short_values(h, 4),
               dy = short_values(n, 5);
  Beside both(DType::fp64);
  both.check(Recurrence{d}, [&](Kind) { return Operands{real(x), real(s), real(decay), real(step)}; },
             [&](Kind) { return Operands{result(n)}; });
  both.check(RecurrenceBackward{d},
             [&](Kind) {
               return Operands{real(dy), real(x), real(s), real(decay), real(step)};
             },
             [&](Kind) { return Operands{result(mixed), result(scalars), result(h), result(h)}; });
}

TEST_CASE("norms with a gate and gates alone are right for rows of many lengths, and so are their gradients") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const std::int64_t cols : {1, 128, 600})
      for (const bool same : {false, true}) {
        CAPTURE(name(dtype), cols, same);
        Beside both(dtype);
        const std::int64_t rows = 70, parts = 3, n = rows * parts * cols;
        const GatedNorm op{rows, parts, cols, same, 1e-3, !same};
        const Values x = short_values(n, 1), gate = short_values(n, 2), w = short_values(op.weights(), 3), dy = short_values(n, 4);
        const Values stats = both.check(op, [&](Kind) { return Operands{real(x), real(gate), real(w)}; }, [&](Kind kind) {
                                   return Operands{result(n), zeros(kind, rows * parts)};
                                 })[1];
        both.check(GatedNormBackward{rows, parts, cols, same, !same},
                   [&](Kind kind) { return Operands{real(dy), real(x), real(gate), real(w), in_type(kind, stats)}; },
                   [&](Kind kind) { return Operands{result(n), result(n), zeros(kind, op.weights())}; });
        both.check(SigmoidGate{n}, [&](Kind) { return Operands{real(x), real(gate)}; }, [&](Kind) { return Operands{result(n)}; });
        both.check(SigmoidGateBackward{n}, [&](Kind) { return Operands{real(dy), real(x), real(gate)}; },
                   [&](Kind) { return Operands{result(n), result(n)}; });
      }
}

TEST_CASE("products in blocks of columns are those of the whole matrix in every type, also where operands are rounded first") {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    CAPTURE(name(dtype));
    Beside both(dtype);
    const std::int64_t rows = 70, cols = 37, inner = 24;
    MatMul forward{rows, cols, inner, false, true, true}, input{rows, inner, cols}, weight{cols, inner, rows, true};
    weight.sums = true;
    forward.blocks = input.blocks = weight.blocks = {17, 12};
    const Values x = short_values(rows * inner, 1), w = short_values(cols * inner, 2), b = short_values(cols, 3),
                 dy = short_values(rows * cols, 4);
    both.check(forward, [&](Kind kind) { return Operands{real(x), in_type(kind, w), in_type(kind, b)}; },
               [&](Kind) { return Operands{result(rows * cols)}; });
    both.check(input, [&](Kind kind) { return Operands{in_type(kind, dy), real(w)}; },
               [&](Kind) { return Operands{result(rows * inner)}; });
    both.check(weight, [&](Kind) { return Operands{real(dy), real(x)}; },
               [&](Kind kind) { return Operands{zeros(kind, cols * inner), zeros(kind, cols)}; });
    both.check(BiasGrad{rows, cols, {17, 12}}, [&](Kind) { return Operands{real(dy)}; },
               [&](Kind kind) { return Operands{zeros(kind, cols)}; });
  }
}

}  // namespace tandem::exec::test
