// Memory-bound kernels of a device at sizes that take each of their ways: rows of warps and of blocks, rows too long to keep,
// lengths that 16 bytes do not divide. The oracle is the CPU's kernel in fp64 on the same numbers.
#include "tests/exec/device/beside.hpp"

namespace tandem::exec::test {
namespace {

using Kind = Operand::Kind;
using Operands = std::vector<Operand>;

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
    for (const std::int64_t dim : {4, 33, 64, 128, 256, 512, 1000})
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

TEST_CASE("attention to chosen keys and the indexer are right for heads longer than a warp multiplies at a time") {
  const std::int64_t dim = 1600, batch = 2, seq = 5, heads = 2, listed = 3;
  AttentionDims d{batch, heads, seq, dim};
  d.window = listed;
  FlashAttention forward{d, 0, false};
  FlashAttentionBackward backward{d, 0, false};
  forward.chosen = backward.chosen = true;
  const IndexDims indexer{batch, heads, seq, dim, listed};
  std::vector<int> lists;
  for (std::int64_t s = 0; s < batch; ++s) lists.insert(lists.end(), {0, -1, -1, 0, 1, -1, 0, 1, 2, 0, 2, 3, 1, 2, 4});
  const std::int64_t tokens = batch * seq, n = tokens * heads * dim;
  const Values qkv = short_values(3 * n, 1), dy = short_values(n, 2), q = short_values(n, 3), k = short_values(tokens * dim, 4),
               w = short_values(tokens * heads, 5), target(static_cast<std::size_t>(tokens * listed), 0.5);
  Beside both(DType::fp32);
  const auto made = both.check(forward, [&](Kind) { return Operands{real(qkv), real(qkv), integers(lists)}; },
                               [&](Kind) { return Operands{result(n), result(tokens * heads)}; });
  both.check(backward,
             [&](Kind) {
               return Operands{real(dy), real(qkv), real(qkv), real(made[0]), real(made[1]), integers(lists)};
             },
             [&](Kind) { return Operands{result(3 * n), same_as(0)}; });
  both.check(IndexTopKBackward{indexer, 4},
             [&](Kind) {
               return Operands{real(target), real(q), real(k), real(w), integers(lists)};
             },
             [&](Kind) { return Operands{result(n), result(tokens * dim), result(tokens * heads)}; });
}

TEST_CASE("attention with heads longer than libraries take is right where they fit into shared memory") {
  for (const std::int64_t dim : {320, 512}) {
    const AttentionDims d{1, 2, 37, dim};
    const std::int64_t n = d.batch * d.heads * d.seq * dim;
    const Values qkv = short_values(3 * n, 1), dy = short_values(n, 2);
    Beside both(DType::fp32);
    const auto made = both.check(FlashAttention{d, 0, true}, [&](Kind) { return Operands{real(qkv), real(qkv)}; },
                                 [&](Kind) { return Operands{result(n), result(d.heads * d.seq)}; });
    both.check(FlashAttentionBackward{d, 0, true},
               [&](Kind) {
                 return Operands{real(dy), real(qkv), real(qkv), real(made[0]), real(made[1])};
               },
               [&](Kind) { return Operands{result(3 * n), same_as(0)}; });
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

TEST_CASE("columns are taken and added to at any place, whether 16 bytes divide it or not") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const ColumnSlice& s : {ColumnSlice{37, 2, 1, 1}, {37, 96, 32, 48}, {37, 130, 7, 65}, {37, 40, 8, 3}}) {
      CAPTURE(name(dtype), s.cols, s.first, s.width);
      Beside both(dtype);
      const Values x = short_values(s.whole(), 1), y = short_values(s.elements(), 2);
      both.check(TakeColumns{s}, [&](Kind) { return Operands{real(x)}; }, [&](Kind) { return Operands{result(s.elements())}; });
      both.check(AddColumns{s}, [&](Kind) { return Operands{real(y), real(x)}; }, [&](Kind) { return Operands{real(x)}; });
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
      one(BiasDropoutAdd{rows, cols, 0.25, false, DropoutSite::lora_fc2, false, false}, {real(x)}, n);
      both.on_tensor_rank(2, 3);
      one(BiasDropoutAdd{rows, cols, 0.25, false, DropoutSite::lora_fc2, false, false}, {real(x)}, n);
      one(BiasDropoutAddBackward{rows, cols, 0.25, false, DropoutSite::lora_proj}, {real(x)}, n);
      both.on_tensor_rank(0, 1);
    }
}

}  // namespace tandem::exec::test
