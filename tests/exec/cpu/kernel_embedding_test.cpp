#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr std::int64_t kHidden = 5, kTokens = 33, kRanks = 3, kVocabRows = 7;

Values plain_rows(const Values& table, const std::vector<int>& tokens) {
  Values y;
  for (const int t : tokens) y = concatenated(y, slice(table, t * kHidden, kHidden));
  return y;
}

// A position embedding's operands.
struct Position {
  std::int64_t batch = 3, seq = 5, hidden = 7, max_positions = 11;
  double dropout = 0;
  bool learned = true;

  std::int64_t size() const { return batch * seq * hidden; }
  Values forward(Kernels& kernels, const Values& x, const Values& table) const {
    const PositionDropout op{batch, seq, hidden, dropout, learned};
    return kernels.one(op, learned ? std::vector{real(x), real(table)} : std::vector{real(x)}, size());
  }
  std::vector<Values> backward(Kernels& kernels, const Values& dy) const {
    const PositionDropoutBackward op{batch, seq, hidden, max_positions, dropout, learned};
    std::vector<Operand> out = {result(size())};
    if (learned) out.push_back(result(max_positions * hidden));
    return kernels.run(op, {real(dy)}, out);
  }
};

}  // namespace

TEST_CASE("vocabulary shards of an embedding add up to the whole embedding, bit for bit") {
  const Values table = random_values(kRanks * kVocabRows * kHidden, 1);
  const auto tokens = random_integers(kTokens, kRanks * kVocabRows, 2);
  Values sum(kTokens * kHidden, 0.0);
  Kernels kernels;
  kernels.context.tensor_size = kRanks;
  for (int rank = 0; rank < kRanks; ++rank) {
    kernels.context.tensor_rank = rank;
    const Values shard = slice(table, rank * kVocabRows * kHidden, kVocabRows * kHidden);
    const Values y =
        kernels.one(Embedding{kTokens, kHidden, kVocabRows}, {integers(tokens), real(shard)}, kTokens * kHidden);
    for (std::size_t i = 0; i < y.size(); ++i) sum[i] += y[i];
  }
  CHECK(sum == plain_rows(table, tokens));
}

TEST_CASE("an embedding's gradient adds tokens in ascending order and zeroes the other rows") {
  constexpr std::int64_t rows = kRanks * kVocabRows;
  const auto tokens = random_integers(kTokens, 11, 2);
  const Values dy = random_values(kTokens * kHidden, 3);
  Values expected(rows * kHidden, 0.0);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    expected[static_cast<std::size_t>(tokens[i / kHidden]) * kHidden + i % kHidden] += dy[i];
  }
  Kernels kernels;
  kernels.context.tensor_size = kRanks;
  Values shards;
  for (int rank = 0; rank < kRanks; ++rank) {
    kernels.context.tensor_rank = rank;
    const EmbeddingBackward op{kTokens, kHidden, kVocabRows};
    shards = concatenated(shards, kernels.one(op, {integers(tokens), real(dy)}, kVocabRows * kHidden));
  }
  CHECK(shards == expected);
}

TEST_CASE("an embedding's gradient equals slopes") {
  const auto tokens = random_integers(kTokens, kVocabRows, 2);
  const Values table = random_values(kVocabRows * kHidden, 1), dy = random_values(kTokens * kHidden, 3);
  Kernels kernels;
  const Values g =
      kernels.one(EmbeddingBackward{kTokens, kHidden, kVocabRows}, {integers(tokens), real(dy)}, kVocabRows * kHidden);
  check_gradient(
      [&](const Values& v) {
        return dot(
            dy, kernels.one(Embedding{kTokens, kHidden, kVocabRows}, {integers(tokens), real(v)}, kTokens * kHidden));
      },
      table, g);
}

TEST_CASE("a token outside the vocabulary is an error that names it") {
  Kernels kernels;
  const int token = GENERATE(-1, 7);
  const Values table = random_values(kVocabRows * kHidden, 1);
  CHECK_THROWS_AS(kernels.one(Embedding{1, kHidden, kVocabRows}, {integers({token}), real(table)}, kHidden),
                  DeviceError);
}

TEST_CASE("a whole table gives every rank the rows of all tokens, and its gradient") {
  const Values table = random_values(kVocabRows * kHidden, 1), dy = random_values(kTokens * kHidden, 3);
  const auto tokens = random_integers(kTokens, kVocabRows, 2);
  Kernels alone, one_of_three;
  one_of_three.context.tensor_size = 3;
  one_of_three.context.tensor_rank = 1;
  const Embedding op{kTokens, kHidden, kVocabRows, true};
  CHECK(one_of_three.one(op, {integers(tokens), real(table)}, kTokens * kHidden) == plain_rows(table, tokens));
  CHECK(
      one_of_three.one(EmbeddingBackward{kTokens, kHidden, kVocabRows, true}, {integers(tokens), real(dy)}, kVocabRows * kHidden) ==
      alone.one(EmbeddingBackward{kTokens, kHidden, kVocabRows}, {integers(tokens), real(dy)}, kVocabRows * kHidden));
  CHECK_THROWS_AS(one_of_three.one(op, {integers(std::vector<int>(kTokens, kVocabRows)), real(table)}, kTokens * kHidden),
                  DeviceError);
}

TEST_CASE("a second embedding is added to the first, of its shard's tokens alone") {
  const Values table = random_values(kVocabRows * kHidden, 1), y = random_values(kTokens * kHidden, 4);
  const auto tokens = random_integers(kTokens, 2 * kVocabRows, 2);
  Kernels kernels;
  kernels.context.tensor_size = 2;
  const Values sum =
      kernels.run(Embedding{kTokens, kHidden, kVocabRows, false, true}, {integers(tokens), real(table), real(y)}, {real(y)})
          .front();
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const auto row = static_cast<std::size_t>(tokens[i / kHidden]);
    REQUIRE(sum[i] == y[i] + (row < kVocabRows ? table[row * kHidden + i % kHidden] : 0));
  }
}

TEST_CASE("positions are added to every sequence alike") {
  Position p;
  p.learned = GENERATE(false, true);
  Kernels kernels;
  const Values x = random_values(p.size(), 1), table = random_values(p.max_positions * p.hidden, 2);
  const Values y = p.forward(kernels, x, table);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto in_table = i % static_cast<std::size_t>(p.seq * p.hidden);
    REQUIRE(y[i] == x[i] + (p.learned ? table[in_table] : 0));
  }
}

TEST_CASE("the position embedding's gradients equal slopes with the mask held") {
  Position p;
  p.dropout = GENERATE(0.0, 0.4);
  Kernels kernels;
  kernels.context.first_sequence = 8;
  const Values x = random_values(p.size(), 1), table = random_values(p.max_positions * p.hidden, 2);
  const Values dy = random_values(p.size(), 3);
  const auto g = p.backward(kernels, dy);
  check_gradient([&](const Values& v) { return dot(dy, p.forward(kernels, v, table)); }, x, g[0]);
  check_gradient([&](const Values& v) { return dot(dy, p.forward(kernels, x, v)); }, table, g[1]);
}

TEST_CASE("without learned positions the gradient passes through the mask alone") {
  Position p;
  p.learned = false;
  p.dropout = 0.4;
  Kernels kernels;
  const Values dy = random_values(p.size(), 3);
  CHECK(p.backward(kernels, dy)[0] == p.forward(kernels, dy, {}));  // dropout is linear and its own transpose
}

namespace {

// Rows (sequence, position) of a rank of a context group of c, or its tensor rank's part of them.
std::vector<std::int64_t> rows_of(std::int64_t batch, std::int64_t length, std::int64_t c, std::int64_t r) {
  std::vector<std::int64_t> rows;
  const std::int64_t piece = length / (2 * c);
  for (std::int64_t s = 0; s < batch; ++s)
    for (const std::int64_t number : {r, 2 * c - 1 - r})
      for (std::int64_t i = 0; i < piece; ++i) rows.push_back(s * length + number * piece + i);
  return rows;
}
Values take(const Values& whole, const std::vector<std::int64_t>& rows, std::int64_t cols) {
  Values out;
  for (const std::int64_t r : rows) out = concatenated(out, slice(whole, r * cols, cols));
  return out;
}

}  // namespace

TEST_CASE("context and sequence shards of a position embedding are rows of the whole, masks included") {
  constexpr std::int64_t batch = 2, length = 12, hidden = 7, c = 3, tensor = 4;
  Kernels kernels;
  kernels.context.first_sequence = 5;
  const Values x = random_values(batch * length * hidden, 1), dy = random_values(batch * length * hidden, 2);
  const Values table = random_values(length * hidden, 3);
  const auto forward = [&](const PositionDropout& op, const Values& v) {
    return kernels.one(op, {real(v), real(table)}, static_cast<std::int64_t>(v.size()));
  };
  const auto backward = [&](const PositionDropoutBackward& op, const Values& v) {
    return kernels.run(op, {real(v)}, {result(static_cast<std::int64_t>(v.size())), result(length * hidden)});
  };
  const Values y = forward({batch, length, hidden, 0.4, true}, x);
  const auto g = backward({batch, length, hidden, length, 0.4, true}, dy);
  kernels.context.context_size = c;
  kernels.context.tensor_size = tensor;
  Values dtable(g[1].size(), 0.0);
  for (std::int64_t r = 0; r < c; ++r) {
    const auto rows = rows_of(batch, length, c, r);
    kernels.context.context_rank = static_cast<std::int32_t>(r);
    CHECK(forward({batch, 4, hidden, 0.4, true}, take(x, rows, hidden)) == take(y, rows, hidden));
    for (std::int64_t t = 0; t < tensor; ++t) {
      kernels.context.tensor_rank = static_cast<std::int32_t>(t);
      const std::vector<std::int64_t> shard(rows.begin() + 2 * t, rows.begin() + 2 * t + 2);
      CHECK(forward({batch, 4, hidden, 0.4, true, true, 2}, take(x, shard, hidden)) == take(y, shard, hidden));
      const auto b = backward({batch, 4, hidden, length, 0.4, true, true, 2}, take(dy, shard, hidden));
      CHECK(b[0] == take(g[0], shard, hidden));
      for (std::size_t i = 0; i < dtable.size(); ++i) dtable[i] += b[1][i];
    }
  }
  check_close(dtable, g[1], 1e-15);
}

}  // namespace tandem::exec::test
