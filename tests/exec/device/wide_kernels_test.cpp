// Memory-bound kernels of a device at sizes that take each of their ways: rows of warps and of blocks, rows too long to keep,
// lengths that 16 bytes do not divide. The oracle is the CPU's kernel in fp64 on the same numbers.
#include "tests/emulated/emulated_backend.hpp"
#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

using Kind = Operand::Kind;
using Operands = std::vector<Operand>;
/// Operands, given the kind that statistics and gradients of parameters have.
using Make = std::function<Operands(Kind)>;

/// Multiples of 1/128 in [-1, 1): exact in bf16, so all types compute from the same numbers.
Values short_values(std::int64_t n, unsigned seed) {
  Values v = random_values(n, seed);
  for (double& x : v) x = std::round(x * 127) / 128;
  return v;
}

class Beside {
 public:
  explicit Beside(DType dtype) : dtype_(dtype), device_(dtype) {
    device_.backend = tests::make_emulated_backend();
    device_.context.table = table_address(*device_.backend);
    exact_.backend = make_cpu_backend();
    exact_.context.table = table_address(*exact_.backend);
    for (Kernels* k : {&device_, &exact_}) k->context.layer = 3, k->context.seq_length = 8;
  }
  /// Results within what a type's rounding allows: 1e-5 of the largest in fp32, 1e-2 in bf16.
  std::vector<Values> check(const Op& op, const Make& in, const Make& out) {
    const auto actual = device_.run(op, in(Kind::fp32), out(Kind::fp32));
    const auto expected = exact_.run(op, in(Kind::compute), out(Kind::compute));
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) check_close(actual[i], expected[i], dtype_ == DType::bf16 ? 1e-2 : 1e-5);
    return actual;
  }

 private:
  DType dtype_;
  Kernels device_, exact_;
};

Operand zeros(Kind kind, std::int64_t n) { return in_type(kind, unwritten(n)); }

}  // namespace

TEST_CASE("norms and their gradients are right for rows of every length that threads keep, and beyond") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const std::int64_t cols : {7, 40, 256, 768, 1000, 1024, 2048, 4096, 5000, 8192, 16384, 16640})
      for (const bool rms : {false, true}) {
        CAPTURE(name(dtype), cols, rms);
        Beside both(dtype);
        const std::int64_t rows = cols > 1024 ? 3 : 11, n = rows * cols;
        const Values x = short_values(n, 1), gamma = short_values(cols, 2), beta = short_values(cols, 3), dy = short_values(n, 4);
        const Values residual = short_values(n, 5);
        const auto parameters = [&](Operands first) {
          first.push_back(real(gamma));
          if (!rms) first.push_back(real(beta));
          return first;
        };
        const auto forward = both.check(
            LayerNorm{rows, cols, 1e-5, rms}, [&](Kind) { return parameters({real(x)}); },
            [&](Kind k) {
              return Operands{result(n), zeros(k, 2 * rows)};
            });
        const Values& stats = forward[1];
        both.check(
            LayerNormBackward{rows, cols, true, rms},
            [&](Kind k) {
              return Operands{real(dy), real(x), in_type(k, stats), real(gamma), real(residual)};
            },
            [&](Kind k) {
              Operands out{result(n), zeros(k, cols)};
              if (!rms) out.push_back(zeros(k, cols));
              return out;
            });
        both.check(
            LayerNormBackward{rows, cols, false, rms, NormPart::input},
            [&](Kind k) {
              return Operands{real(dy), real(x), in_type(k, stats), real(gamma)};
            },
            [&](Kind) { return Operands{result(n)}; });
        both.check(
            BiasDropoutAddNorm{rows, cols, 0.25, true, DropoutSite::mlp_output, false, 1e-5, rms},
            [&](Kind) {
              return parameters({real(dy), real(beta), real(residual)});
            },
            [&](Kind k) {
              return Operands{result(n), result(n), zeros(k, 2 * rows)};
            });
      }
}

TEST_CASE("sums of columns add every row once, however rows and columns are parted") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const auto& [rows, cols] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 8}, {37, 513}, {700, 264}, {5000, 24}, {130, 1}}) {
      CAPTURE(name(dtype), rows, cols);
      const Values dy = short_values(rows * cols, 7), x = short_values(rows * cols, 8), stats = short_values(2 * rows, 9);
      Beside both(dtype);
      both.check(
          BiasGrad{rows, cols}, [&](Kind) { return Operands{real(dy)}; }, [&](Kind k) { return Operands{zeros(k, cols)}; });
      both.check(
          LayerNormBackward{rows, cols, false, false, NormPart::parameters},
          [&](Kind k) {
            return Operands{real(dy), real(x), in_type(k, stats)};
          },
          [&](Kind k) {
            return Operands{zeros(k, cols), zeros(k, cols)};
          });
    }
}

TEST_CASE("norms of heads and their gradients are right for heads of any length, and many of them") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const std::int64_t dim : {4, 33, 64, 128, 256})
      for (const std::int64_t groups : {1, 3}) {
        CAPTURE(name(dtype), dim, groups);
        Beside both(dtype);
        AttentionDims d{3, 2 * groups, 37, dim};
        d.kv_heads = groups;
        const HeadNorm op{d, 1e-5};
        const Values qkv = short_values(d.batch * d.seq * d.qkv_width(), 1), q = short_values(dim, 2), k = short_values(dim, 3),
                     x = short_values(op.elements(), 4);
        both.check(op, [&](Kind) { return Operands{real(qkv), real(q), real(k)}; },
                   [&](Kind) { return Operands{real(qkv), result(op.elements())}; });
        both.check(HeadNormBackward{d, 1e-5}, [&](Kind) { return Operands{real(qkv), real(x), real(q), real(k)}; },
                   [&](Kind kind) { return Operands{real(qkv), zeros(kind, dim), zeros(kind, dim)}; });
      }
}

TEST_CASE("norms of heads without weights, and of rows of heads over ranks, are right, and so are their gradients") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const std::int64_t dim : {4, 33, 128})
      for (const std::int64_t groups : {1, 3}) {
        CAPTURE(name(dtype), dim, groups);
        Beside both(dtype);
        AttentionDims d{3, 2 * groups, 37, dim};
        d.kv_heads = groups;
        const RowNorm op{d, 2, 1e-5};
        const std::int64_t q = 2 * groups * dim, k = groups * dim, sums = 2 * op.rows();
        const Values qkv = short_values(d.batch * d.seq * d.qkv_width(), 1), x = short_values(op.elements(), 2),
                     of_q = short_values(q, 3), of_k = short_values(k, 4), dots = short_values(sums, 5);
        const Values squares(static_cast<std::size_t>(sums), 0.5 * static_cast<double>(dim));
        both.check(HeadNorm{d, 1e-5, true}, [&](Kind) { return Operands{real(qkv)}; },
                   [&](Kind) { return Operands{real(qkv), result(op.elements())}; });
        both.check(HeadNormBackward{d, 1e-5, true}, [&](Kind) { return Operands{real(qkv), real(x)}; },
                   [&](Kind) { return Operands{real(qkv)}; });
        both.check(RowNormSums{d}, [&](Kind) { return Operands{real(qkv)}; },
                   [&](Kind kind) { return Operands{zeros(kind, sums)}; });
        both.check(op, [&](Kind kind) { return Operands{real(qkv), real(of_q), real(of_k), in_type(kind, squares)}; },
                   [&](Kind) { return Operands{real(qkv), result(op.elements())}; });
        both.check(RowNormDots{d}, [&](Kind) { return Operands{real(qkv), real(x), real(of_q), real(of_k)}; },
                   [&](Kind kind) { return Operands{zeros(kind, sums)}; });
        both.check(RowNormBackward{d, 2, 1e-5},
                   [&](Kind kind) {
                     return Operands{real(qkv), real(x), real(of_q), real(of_k), in_type(kind, squares), in_type(kind, dots)};
                   },
                   [&](Kind kind) { return Operands{real(qkv), zeros(kind, q), zeros(kind, k)}; });
      }
}

TEST_CASE("recurrences, short convolutions and gates are right for heads of many sizes, and so are their gradients") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const RecurrenceDims& d :
         {RecurrenceDims{RecurrenceRule::gated_delta, 2, 4, 150, 2, 40, 24}, RecurrenceDims{RecurrenceRule::mamba2, 1, 3, 300, 1, 129, 33},
          RecurrenceDims{RecurrenceRule::gated_delta, 1, 4, 70, 2, 300, 7}, RecurrenceDims{RecurrenceRule::mamba2, 3, 2, 5, 2, 1, 70}}) {
      CAPTURE(name(dtype), d.seq, d.key_dim);
      Beside both(dtype);
      const bool skips = d.rule == RecurrenceRule::mamba2;
      const std::int64_t mixed = d.rows() * d.mixed(), scalars = d.rows() * d.scalars(), n = d.rows() * d.values(), h = d.heads;
      const Values x = short_values(mixed, 1), s = short_values(scalars, 2), decay = short_values(h, 3), step = short_values(h, 4),
                   skip = short_values(h, 5), dy = short_values(n, 6), w = short_values(d.mixed() * 4, 7), bias = short_values(d.mixed(), 8);
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
    const Values x = short_values(rows * inner, 1), w = short_values(cols * inner, 2), b = short_values(cols, 3), dy = short_values(rows * cols, 4);
    both.check(forward, [&](Kind kind) { return Operands{real(x), in_type(kind, w), in_type(kind, b)}; },
               [&](Kind) { return Operands{result(rows * cols)}; });
    both.check(input, [&](Kind kind) { return Operands{in_type(kind, dy), real(w)}; }, [&](Kind) { return Operands{result(rows * inner)}; });
    both.check(weight, [&](Kind) { return Operands{real(dy), real(x)}; },
               [&](Kind kind) { return Operands{zeros(kind, cols * inner), zeros(kind, cols)}; });
    both.check(BiasGrad{rows, cols, {17, 12}}, [&](Kind) { return Operands{real(dy)}; }, [&](Kind kind) { return Operands{zeros(kind, cols)}; });
  }
}

TEST_CASE("soft caps, gated rows and rows that are weighed on their way to experts are right, and so are their gradients") {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    CAPTURE(name(dtype));
    Beside both(dtype);
    const std::int64_t rows = 37, cols = 129, n = rows * cols;
    const Values x = short_values(n, 1), dy = short_values(n, 2), gate = short_values(rows, 3);
    both.check(SoftCap{n, 0.5}, [&](Kind) { return Operands{real(x)}; }, [&](Kind) { return Operands{real(x)}; });
    both.check(SoftCapBackward{n, 2}, [&](Kind) { return Operands{real(dy), real(x)}; }, [&](Kind) { return Operands{real(dy)}; });
    both.check(RowGate{rows, cols}, [&](Kind) { return Operands{real(x), real(gate)}; }, [&](Kind) { return Operands{result(n)}; });
    both.check(RowGateBackward{rows, cols}, [&](Kind) { return Operands{real(dy), real(x), real(gate)}; },
               [&](Kind) { return Operands{result(n), result(rows)}; });
    const MoeDims d{rows, cols, 4, 1, 12};
    std::vector<int> slots;
    for (int i = 0; i < static_cast<int>(rows); ++i) slots.push_back(i % 9 == 4 ? -1 : i);
    const Values sent = short_values(d.rows() * cols, 4);
    both.check(MoeDispatch{d, true}, [&](Kind kind) { return Operands{real(x), integers(slots), in_type(kind, gate)}; },
               [&](Kind) { return Operands{result(d.rows() * cols)}; });
    both.check(MoeDispatchBackward{d, true},
               [&](Kind kind) { return Operands{real(sent), integers(slots), real(x), in_type(kind, gate)}; },
               [&](Kind kind) { return Operands{result(n), zeros(kind, rows)}; });
    both.check(MoeCombine{d, false}, [&](Kind) { return Operands{real(sent), integers(slots)}; },
               [&](Kind) { return Operands{result(n)}; });
    both.check(MoeCombineBackward{d, false}, [&](Kind) { return Operands{real(x), integers(slots)}; },
               [&](Kind) { return Operands{result(d.rows() * cols)}; });
  }
}

TEST_CASE("latent attention's norms and heads are right for widths that 16 bytes divide and others") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const auto& [cols, rest] : std::vector<std::pair<std::int64_t, std::int64_t>>{{512, 64}, {40, 8}, {33, 6}}) {
      CAPTURE(name(dtype), cols, rest);
      Beside both(dtype);
      const std::int64_t rows = 75, n = rows * cols, m = rows * rest;
      const Values x = short_values(n + m, 1), gamma = short_values(cols, 2), dy = short_values(n, 3), dothers = short_values(m, 4);
      const Values stats = both.check(LatentNorm{rows, cols, rest, 1e-5}, [&](Kind) { return Operands{real(x), real(gamma)}; },
                                      [&](Kind k) { return Operands{result(n), result(m), zeros(k, 2 * rows)}; })[2];
      both.check(LatentNormBackward{rows, cols, rest},
                 [&](Kind k) { return Operands{real(dy), real(dothers), real(x), in_type(k, stats), real(gamma)}; },
                 [&](Kind k) { return Operands{result(n + m), zeros(k, cols)}; });
      AttentionDims d{3, 2, 37, cols};
      d.value_dim = rest;
      const LatentHeads op{d, rest, 1.5};
      const std::int64_t q = op.rows() * d.q_width(), kv = op.rows() * op.kv_width(), common = op.rows() * rest,
                         qkv = op.rows() * d.qkv_width();
      const Operands parts{real(short_values(q, 5)), real(short_values(kv, 6)), real(short_values(common, 7))};
      both.check(op, [&](Kind) { return parts; }, [&](Kind) { return Operands{result(qkv)}; });
      both.check(LatentHeadsBackward{d, rest, 1.5}, [&](Kind) { return Operands{real(short_values(qkv, 8))}; },
                 [&](Kind) { return Operands{result(q), result(kv), result(common)}; });
    }
}

TEST_CASE("an fp32 operand of a product in 16 bits is rounded first, beside the sums") {
  const std::int64_t m = 5, n = 7, k = 12;
  for (const bool first : {true, false})
    for (const bool sums : {false, true}) {
      CAPTURE(first, sums);
      Beside both(DType::bf16);
      MatMul op{m, n, k, true, false};
      op.sums = sums;
      const auto operands = [&](Kind wide) {
        const Operand a = first ? in_type(wide, random_values(m * k, 1)) : real(short_values(m * k, 1));
        return Operands{a, first ? real(short_values(k * n, 2)) : in_type(wide, random_values(k * n, 2))};
      };
      both.check(op, operands, [&](Kind) {
        Operands out{result(m * n)};
        if (sums) out.push_back(result(m));
        return out;
      });
    }
}

TEST_CASE("a loss is right for rows that begin at any address, with padding and without") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const auto& [cols, vocab] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{1003, 1003}, {8192, 8190}, {40, 33}, {20000, 20000}}) {
      CAPTURE(name(dtype), cols, vocab);
      constexpr std::int64_t kRows = 5;
      const Values logits = short_values(kRows * cols, 11);
      std::vector<int> targets = random_integers(kRows, static_cast<int>(vocab), 12);
      targets[1] = -1, targets[2] = static_cast<int>(vocab) - 1;
      Beside both(dtype);
      both.check(
          CrossEntropy{{kRows, cols, vocab, true}, kRows, true, true, 0.3},
          [&](Kind) {
            return Operands{real(logits), integers(targets)};
          },
          [&](Kind) {
            return Operands{fp64(unwritten(1)), result(kRows * cols)};
          });
    }
}

TEST_CASE("an embedding's gradient adds up every occurrence of a token, thousands of them, too") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const auto& [count, hidden] : std::vector<std::pair<std::int64_t, std::int64_t>>{{5000, 16}, {300, 7}, {70, 520}}) {
      CAPTURE(name(dtype), count, hidden);
      constexpr std::int64_t kVocab = 41;
      std::vector<int> tokens = random_integers(count, kVocab - 2, 13);
      for (std::size_t t = 0; t < tokens.size(); t += 3) tokens[t] = 5;
      const Values dy = short_values(count * hidden, 14), table = short_values(kVocab * hidden, 15);
      Beside both(dtype);
      both.check(
          EmbeddingBackward{count, hidden, kVocab, true},
          [&](Kind) {
            return Operands{integers(tokens), real(dy)};
          },
          [&](Kind k) { return Operands{zeros(k, kVocab * hidden)}; });
      both.check(
          Embedding{count, hidden, kVocab, true},
          [&](Kind) {
            return Operands{integers(tokens), real(table)};
          },
          [&](Kind) { return Operands{result(count * hidden)}; });
    }
}

TEST_CASE("elementwise kernels are right over several blocks and at lengths that vectors do not divide") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const auto& [rows, cols] : std::vector<std::pair<std::int64_t, std::int64_t>>{{3, 1027}, {9, 512}, {2, 4}}) {
      CAPTURE(name(dtype), rows, cols);
      const std::int64_t n = rows * cols;
      const Values x = short_values(n, 21), y = short_values(n, 22), bias = short_values(cols, 23),
                   both_of = short_values(2 * n, 24);
      Beside both(dtype);
      const auto one = [&](const Op& op, const Operands& in, std::int64_t count) {
        both.check(
            op, [&](Kind) { return in; }, [&](Kind) { return Operands{result(count)}; });
      };
      for (const auto kind : {PointwiseKind::gelu_tanh, PointwiseKind::relu, PointwiseKind::squared_relu, PointwiseKind::tanh}) {
        one(Pointwise{n, kind, cols}, {real(x), real(bias)}, n);
        one(PointwiseBackward{n, kind, cols}, {real(y), real(x), real(bias)}, n);
      }
      for (const auto kind : {GateKind::silu, GateKind::gelu_tanh, GateKind::clamped_silu}) {
        one(GatedPointwise{rows, cols, kind}, {real(both_of)}, n);
        one(GatedPointwiseBackward{rows, cols, kind}, {real(x), real(both_of)}, 2 * n);
      }
      for (const auto spread : {Spread::full, Spread::row, Spread::column})
        one(Elementwise{rows, cols, ElementwiseKind::subtract, spread, 0.5},
            {real(x), real(spread == Spread::full     ? y
                           : spread == Spread::column ? bias
                                                      : short_values(rows, 25))},
            n);
      one(BiasDropoutAdd{rows, cols, 0.25, true, DropoutSite::mlp_output}, {real(x), real(bias), real(y)}, n);
    }
}

}  // namespace tandem::exec::test
