#include "exec/data/random.hpp"
#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr DropoutSite kSite = DropoutSite::attention_output;

// The factors themselves: dropout of ones.
Values hidden_mask(Kernels& kernels, std::int64_t rows, std::int64_t cols, double rate, DropoutSite site = kSite) {
  const auto n = rows * cols;
  return kernels.one(BiasDropoutAddBackward{rows, cols, rate, false, site}, {real(Values(n, 1.0))}, n);
}

// Factors of every (sequence, head, query, key), 1 beyond the diagonal where nothing is drawn.
Values attention_mask(Kernels& kernels, const AttentionDims& dims, double rate) {
  const auto n = dims.batch * dims.heads * dims.seq * dims.seq;
  const auto out = kernels.run(AttentionSoftmax{dims, rate, false}, {real(Values(static_cast<std::size_t>(n), 0.0))},
                               {result(n), result(n)});
  Values mask;
  for (std::size_t i = 0; i < out[0].size(); ++i) mask.push_back(out[0][i] == 0 ? 1 : out[1][i] / out[0][i]);
  return mask;
}

std::int64_t zeros(const Values& mask) { return std::count(mask.begin(), mask.end(), 0.0); }

}  // namespace

TEST_CASE("dropout keeps its share of elements, scaled by 1/(1-rate)") {
  const double rate = GENERATE(0.1, 0.5, 0.9);
  Kernels kernels;
  kernels.context.seq_length = 50;
  const Values mask = hidden_mask(kernels, 500, 301, rate);
  for (const double m : mask) REQUIRE((m == 0 || m == 1 / (1 - rate)));
  const auto n = static_cast<double>(mask.size());
  // Four standard deviations of the binomial count.
  CHECK(std::abs(static_cast<double>(zeros(mask)) - rate * n) < 4 * std::sqrt(n * rate * (1 - rate)));
}

TEST_CASE("the mask is that of the documented global index") {
  Kernels kernels;
  kernels.table.step = 6;
  kernels.context.layer = 2;
  kernels.context.seq_length = 5;
  kernels.context.first_sequence = 11;
  const Values mask = hidden_mask(kernels, 10, 7, 0.3);
  const auto stream = RandomStream::dropout(kernels.context.seed, kSite, 6, 2);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    REQUIRE((mask[i] == 0) == (stream.bits(11 * 5 * 7 + i) < drop_threshold(0.3)));
  }
}

TEST_CASE("a micro-batch cut in two draws the same masks") {
  constexpr std::int64_t seq = 5, cols = 7;
  Kernels kernels;
  kernels.context.seq_length = seq;
  kernels.context.first_sequence = 4;
  const Values whole = hidden_mask(kernels, 3 * seq, cols, 0.4);
  const Values first = hidden_mask(kernels, 2 * seq, cols, 0.4);
  kernels.context.first_sequence = 6;
  CHECK(concatenated(first, hidden_mask(kernels, seq, cols, 0.4)) == whole);
}

TEST_CASE("sequence shards and context ranks draw the masks of their own tokens") {
  constexpr std::int64_t batch = 2, seq = 12, cols = 7, c = 2, tensor = 3;
  Kernels kernels;
  kernels.context.seq_length = seq;
  kernels.context.first_sequence = 4;
  const Values whole = hidden_mask(kernels, batch * seq, cols, 0.4);
  kernels.context.tensor_size = tensor;
  Values shards;
  for (int t = 0; t < tensor; ++t) {
    kernels.context.tensor_rank = t;
    const BiasDropoutAddBackward op{batch * seq / tensor, cols, 0.4, false, kSite, true};
    shards = concatenated(shards, kernels.one(op, {real(Values(op.rows * cols, 1.0))}, op.rows * cols));
  }
  CHECK(shards == whole);
  kernels.context.context_size = c;
  for (int r = 0; r < c; ++r) {
    Values own;  // of four pieces of three tokens the ranks have 0 and 3, 1 and 2
    for (std::int64_t s = 0; s < batch; ++s)
      for (const std::int64_t piece : {r, 3 - r}) own = concatenated(own, slice(whole, (s * seq + piece * 3) * cols, 3 * cols));
    kernels.context.context_rank = r;
    kernels.context.tensor_rank = 1;
    const Values x = random_values(batch * seq / c * cols, 1), zeros(x.size(), 0.0);
    CHECK(hidden_mask(kernels, batch * seq / c, cols, 0.4) == own);
    // A sequence shard of a context rank: its second third.
    const BiasDropoutAdd op{4, cols, 0.4, false, kSite, true};
    Values expected = slice(own, 4 * cols, 4 * cols);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= x[4 * cols + i];
    CHECK(kernels.one(op, {real(slice(x, 4 * cols, 4 * cols)), real(slice(zeros, 0, 4 * cols))}, 4 * cols) == expected);
  }
}

TEST_CASE("ranks that have a share of the columns draw their columns of one mask") {
  constexpr std::int64_t rows = 6, cols = 12;
  for (const DropoutSite site : {DropoutSite::lora_proj, DropoutSite::lora_fc2}) {
    Kernels kernels;
    kernels.context.seq_length = 3;
    kernels.context.first_sequence = 2;
    const Values whole = hidden_mask(kernels, rows, cols, 0.4, site), x = random_values(rows * cols, 4);
    CHECK(whole == hidden_mask(kernels, rows, cols, 0.4, site));
    for (const std::int64_t tensor : {2, 3, 4}) {
      const std::int64_t width = cols / tensor;
      kernels.context.tensor_size = static_cast<std::int32_t>(tensor);
      for (std::int64_t rank = 0; rank < tensor; ++rank) {
        kernels.context.tensor_rank = static_cast<std::int32_t>(rank);
        Values mine, expected;
        for (std::int64_t r = 0; r < rows; ++r) {
          mine = concatenated(mine, slice(x, r * cols + rank * width, width));
          for (std::int64_t c = 0; c < width; ++c)
            expected.push_back(x[r * cols + rank * width + c] * whole[r * cols + rank * width + c]);
        }
        CHECK(kernels.one(BiasDropoutAdd{rows, width, 0.4, false, site, false, false}, {real(mine)}, rows * width) == expected);
        CHECK(kernels.one(BiasDropoutAddBackward{rows, width, 0.4, false, site}, {real(mine)}, rows * width) == expected);
      }
    }
    kernels.context.tensor_size = 2;  // matrices that are cut by rows have all columns of their input on every rank
    kernels.context.tensor_rank = 1;
    Kernels one;
    one.context.seq_length = 3;
    one.context.first_sequence = 2;
    CHECK(hidden_mask(kernels, rows, cols, 0.4, DropoutSite::lora_qkv) == hidden_mask(one, rows, cols, 0.4, DropoutSite::lora_qkv));
  }
}

TEST_CASE("attention masks do not depend on how sequences and heads are spread over calls and ranks") {
  constexpr std::int64_t seq = 13, heads = 6, square = seq * seq;
  Kernels kernels;
  kernels.context.first_sequence = 9;
  const Values whole = attention_mask(kernels, {3, heads, seq, 1}, 0.4);
  kernels.context.tensor_size = 3;
  Values pieces;
  for (int sequence = 0; sequence < 3; ++sequence) {
    kernels.context.first_sequence = 9 + sequence;
    for (int rank = 0; rank < 3; ++rank) {
      kernels.context.tensor_rank = rank;
      pieces = concatenated(pieces, attention_mask(kernels, {1, heads / 3, seq, 1}, 0.4));
    }
  }
  CHECK(pieces == whole);
  CHECK(zeros(slice(whole, 0, square)) != zeros(slice(whole, square, square)));
}

TEST_CASE("seed, step, layer and site each change the mask, drawing again does not") {
  Kernels kernels;
  kernels.context.seq_length = 5;
  const Values mask = hidden_mask(kernels, 10, 7, 0.5);
  CHECK(hidden_mask(kernels, 10, 7, 0.5) == mask);
  CHECK(hidden_mask(kernels, 10, 7, 0.5, DropoutSite::mlp_output) != mask);
  const auto changed = [&](auto change) {
    Kernels other;
    other.context.seq_length = 5;
    change(other);
    return hidden_mask(other, 10, 7, 0.5) != mask;
  };
  CHECK(changed([](Kernels& k) { k.context.seed = 1; }));
  CHECK(changed([](Kernels& k) { k.table.step = 1; }));
  CHECK(changed([](Kernels& k) { k.context.layer = 0; }));
  CHECK(changed([](Kernels& k) { k.context.first_sequence = 2; }));
  CHECK(changed([](Kernels& k) { k.table.first_sample = 2; }));
}

TEST_CASE("floats and doubles draw the same masks") {
  Kernels doubles(DType::fp64), floats(DType::fp32);
  doubles.context.seq_length = floats.context.seq_length = 5;
  CHECK(hidden_mask(doubles, 20, 37, 0.5) == hidden_mask(floats, 20, 37, 0.5));  // the factor 2 is exact in both
}

TEST_CASE("hidden dropout without a sequence length is refused") {
  Kernels kernels;
  CHECK_THROWS_AS(hidden_mask(kernels, 10, 7, 0.5), ContractError);
}

TEST_CASE("bias, dropout and residual combine as mask (x + bias) + residual") {
  constexpr std::int64_t rows = 6, cols = 7, n = rows * cols;
  const bool bias = GENERATE(false, true);
  const double rate = GENERATE(0.0, 0.3);
  Kernels kernels;
  kernels.context.seq_length = 3;
  const Values x = random_values(n, 1), b = random_values(cols, 2), residual = random_values(n, 3);
  const Values mask = hidden_mask(kernels, rows, cols, rate);
  Values expected;
  for (std::size_t i = 0; i < x.size(); ++i) {
    expected.push_back(mask[i] * (x[i] + (bias ? b[i % cols] : 0)) + residual[i]);
  }
  const auto in = bias ? std::vector{real(x), real(b), real(residual)} : std::vector{real(x), real(residual)};
  check_close(kernels.one(BiasDropoutAdd{rows, cols, rate, bias, kSite}, in, n), expected, 4e-16);
}

TEST_CASE("the gradients of bias, dropout and residual equal slopes with the mask held") {
  constexpr std::int64_t rows = 6, cols = 7, n = rows * cols;
  const double rate = GENERATE(0.0, 0.3);
  Kernels kernels;
  kernels.context.seq_length = 3;
  const Values x = random_values(n, 1), b = random_values(cols, 2), residual = random_values(n, 3);
  const Values dy = random_values(n, 4);
  const auto loss = [&](const Values& x_, const Values& b_) {
    return dot(dy, kernels.one(BiasDropoutAdd{rows, cols, rate, true, kSite}, {real(x_), real(b_), real(residual)}, n));
  };
  const auto g =
      kernels.run(BiasDropoutAddBackward{rows, cols, rate, true, kSite}, {real(dy)}, {result(n), result(cols)});
  check_gradient([&](const Values& v) { return loss(v, b); }, x, g[0]);
  check_gradient([&](const Values& v) { return loss(x, v); }, b, g[1]);
}

}  // namespace tandem::exec::test
