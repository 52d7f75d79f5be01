// Documents that are kept apart in a sequence: attention, rotary and learned positions against plain loops.
#include "tests/exec/cpu/attention_cases.hpp"

namespace tandem::exec::test {
namespace {

WholeAttention packed(std::int64_t length, std::int64_t window, bool chunked) {
  WholeAttention a{2, 4, 2, length, length, 3};
  a.window = window;
  a.chunked = chunked;
  a.documents = random_documents(a.batch, length, GENERATE(4, 50), 3);
  return a;
}

struct Outcome {
  Values context;
  Qkv gradient;
};

/// By the operations that store scores. `apart`: masks, softmax and dropout are kernels of their own.
Outcome by_scores(Kernels& kernels, const WholeAttention& a, const Values& dcontext, bool apart) {
  keep_apart(kernels, a.documents, a.keys);
  const AttentionDims d = a.dims();
  const Layout all = whole_layout(a, a.queries);
  const std::int64_t square = a.batch * a.heads * a.queries * a.keys;
  const Operand qkv = real(all.qkv(a.random(1)));
  AttentionSoftmax softmax{d, a.dropout, a.alibi};
  const auto part = [&](SoftmaxPart p, const Values& x) {
    softmax.part = p;
    return kernels.one(softmax, {real(x)}, square);
  };
  const Values scores = kernels.one(AttentionScores{d}, {qkv, qkv}, square);
  Values probs, dropped;
  if (apart) {
    probs = part(SoftmaxPart::softmax, part(SoftmaxPart::mask, scores));
    dropped = part(SoftmaxPart::dropout, probs);
  } else {
    const auto both = kernels.run(softmax, {real(scores)}, std::vector<Operand>(a.dropout > 0 ? 2 : 1, result(square)));
    probs = both.front(), dropped = both.back();
  }
  Outcome out{kernels.one(AttentionContext{d}, {real(dropped), qkv}, a.q_size()), a.zeros()};
  const auto half = kernels.run(AttentionContextBackward{d}, {real(dcontext), real(dropped), qkv},
                                {result(square), result(all.qkv_size())});
  const Values dscores = kernels.one(AttentionSoftmaxBackward{d, a.dropout}, {real(half[0]), real(probs)}, square);
  const auto rest = kernels.run(AttentionScoresBackward{d}, {real(dscores), qkv, qkv, real(half[1])}, {real(half[1]), same_as(0)});
  all.add_qkv(rest[0], out.gradient);
  return out;
}

/// The gradient of packed queries, keys and values against slopes of plain loops.
void check_slopes(const WholeAttention& a, const Qkv& gradient, const Values& dcontext) {
  Kernels place;
  const KernelContext host = place.on_host();
  const auto loss = [&](const Values& v) { return dot(dcontext, plain_attention(a, unflat(a, v), host)); };
  check_directions(loss, flat(a.random(1)), flat(gradient));
}

/// Position of a row in its document.
std::int64_t within(const std::vector<std::int32_t>& documents, std::int64_t row, std::int64_t length) {
  return row % length - documents[static_cast<std::size_t>(row)];
}

}  // namespace

TEST_CASE("flash attention of separate documents equals plain loops, blocks and tiles of queries included") {
  WholeAttention a = packed(GENERATE(1, 12, 70, 150), GENERATE(0, 3, 17), GENERATE(false, true));
  a.alibi = GENERATE(false, true);
  a.dropout = GENERATE(0.0, 0.3);
  check_flash(a);
}

TEST_CASE("the gradient of flash attention of separate documents equals slopes") {
  WholeAttention a = packed(GENERATE(7, 70), GENERATE(0, 3, 17), GENERATE(false, true));
  a.dropout = GENERATE(0.0, 0.3);
  const Values dcontext = random_values(a.q_size(), 7);
  Kernels kernels;
  check_slopes(a, flash_backward(kernels, a, a.random(1), dcontext), dcontext);
}

TEST_CASE("with a score matrix attention of separate documents and its gradient equal plain loops and slopes") {
  WholeAttention a = packed(37, GENERATE(0, 3, 17), GENERATE(false, true));
  a.alibi = GENERATE(false, true);
  a.dropout = GENERATE(0.0, 0.3);
  const Values dcontext = random_values(a.q_size(), 7);
  for (const bool apart : {false, true}) {
    Kernels kernels;
    const Outcome out = by_scores(kernels, a, dcontext, apart);
    check_close(out.context, plain_attention(a, a.random(1), kernels.on_host()), 1e-14);
    check_slopes(a, out.gradient, dcontext);
  }
}

TEST_CASE("rotary positions count from the beginning of each document, on every context rank") {
  constexpr std::int64_t batch = 2, length = 24, dim = 6, c = 3, local = length / c;
  const auto documents = random_documents(batch, length, 9, 5);
  AttentionDims d{batch, 1, local, dim};
  d.documents = true;
  for (std::int64_t rank = 0; rank < c; ++rank) {
    Kernels kernels;
    keep_apart(kernels, documents, length);
    kernels.context.context_size = c, kernels.context.context_rank = static_cast<std::int32_t>(rank);
    const Values x = random_values(batch * local * 3 * dim, 7), y = kernels.run(Rotary{d, 100.0}, {real(x)}, {real(x)})[0];
    const RowList rows = rows_of(batch, c, rank, length);
    for (std::size_t row = 0; row < rows.size(); ++row)
      for (std::size_t head = 0; head < 3; ++head)
        for (std::size_t i = 0; i < dim / 2; ++i) {
          const std::size_t at = (row * 3 + head) * dim + i;
          const auto position = static_cast<double>(within(documents, rows[row].first * length + rows[row].second, length));
          const double angle = head == 2 ? 0 : position * std::pow(100.0, -2.0 * static_cast<double>(i) / dim);  // a value is not turned
          CHECK(y[at] == Approx(x[at] * std::cos(angle) - x[at + 3] * std::sin(angle)).epsilon(1e-14).margin(1e-14));
          CHECK(y[at + 3] == Approx(x[at + 3] * std::cos(angle) + x[at] * std::sin(angle)).epsilon(1e-14).margin(1e-14));
        }
  }
}

TEST_CASE("learned positions count from the beginning of each document, whichever rows a rank has") {
  constexpr std::int64_t batch = 3, length = 1000, hidden = 3, most = 1010, rows = batch * length;
  const auto documents = random_documents(batch, length, GENERATE(6, 900), 5);
  const Values x = random_values(rows * hidden, 1), table = random_values(most * hidden, 2), dy = random_values(rows * hidden, 3);
  const auto shards = GENERATE(1, 4);
  const std::int64_t local = rows / shards;
  for (std::int32_t shard = 0; shard < shards; ++shard) {
    Kernels kernels;
    keep_apart(kernels, documents, length);
    kernels.context.tensor_size = shards, kernels.context.tensor_rank = shard;
    const std::int64_t first = shard * local;
    PositionDropout op{batch, length, hidden, 0, true, shards > 1, local};
    PositionDropoutBackward back{batch, length, hidden, most, 0, true, shards > 1, local};
    op.documents = back.documents = true;
    const auto own = [&](const Values& v) { return slice(v, first * hidden, local * hidden); };
    const Values y = kernels.one(op, {real(own(x)), real(table)}, local * hidden);
    const auto g = kernels.run(back, {real(own(dy))}, {result(local * hidden), result(most * hidden)});
    CHECK(g[0] == own(dy));
    Values expected(table.size(), 0.0);
    for (std::int64_t row = first, i = 0; row < first + local; ++row)
      for (std::int64_t h = 0; h < hidden; ++h, ++i) {
        const auto cell = static_cast<std::size_t>(within(documents, row, length) * hidden + h);
        const auto from = static_cast<std::size_t>(row * hidden + h);
        REQUIRE(y[static_cast<std::size_t>(i)] == x[from] + table[cell]);
        expected[cell] += dy[from];  // in the order of rows, as the kernels add
      }
    CHECK(g[1] == expected);
  }
}

}  // namespace tandem::exec::test
