// An indexer's work, against plain loops over pairs of a query and a key.

#include "models/ops/op.hpp"
#include "tests/catch.hpp"

using namespace tandem;

namespace {

struct Pairs {
  std::int64_t all = 0, chosen = 0;
};

/// A query at position p scores p + 1 keys and chooses at most `topk` of them.
Pairs counted(std::int64_t length, std::int64_t topk) {
  Pairs n;
  for (std::int64_t query = 0; query < length; ++query) {
    std::int64_t before = 0;
    for (std::int64_t key = 0; key < length; ++key) before += key <= query ? 1 : 0;
    n.all += before;
    n.chosen += before < topk ? before : topk;
  }
  return n;
}

Flops flops(std::int64_t n) { return Flops(n); }

}  // namespace

TEST_CASE("an indexer scores every key before a query and learns from those that it chose") {
  const std::int64_t length = GENERATE(1, 7, 12, 40), topk = GENERATE(1, 5, 12, 100), batch = 3, heads = 4, width = 6;
  const Pairs n = counted(length, topk);
  const IndexDims d{batch, heads, length, width, topk};
  CHECK(d.pairs() == batch * n.all);
  CHECK(d.chosen_pairs() == batch * n.chosen);
  CHECK(matrix_flops(IndexTopK{d}) == flops(2 * batch * heads * width * n.all));
  CHECK(matrix_flops(IndexTopKBackward{d}) == flops(3 * 2 * batch * heads * width * n.chosen));
}

TEST_CASE("attention to chosen keys sees as many pairs as a window of the same size") {
  const std::int64_t length = 40, topk = GENERATE(5, 12, 39), batch = 2, heads = 3;
  AttentionDims d{batch, heads, length, 8};
  d.value_dim = 6;
  d.window = topk;
  FlashAttention attention{d, 0, false};
  attention.chosen = true;
  const std::int64_t chosen = counted(length, topk).chosen;
  CHECK(matrix_flops(attention) == flops(2 * batch * heads * (8 + 6) * chosen));
  CHECK(matrix_flops(IndexTarget{d}) == flops(2 * batch * heads * 8 * chosen));
  FlashAttention window = attention;
  window.chosen = false;
  CHECK(matrix_flops(attention) == matrix_flops(window));
  // A list of four-byte positions is read besides.
  CHECK(traffic(attention, DType::bf16) == traffic(window, DType::bf16) + Bytes(4 * batch * length * topk));
}

TEST_CASE("context ranks score even shares of the pairs") {
  IndexDims all{1, 2, 48, 4, 8}, share = all;
  share.seq = 12;
  share.keys = 48;
  CHECK(4 * share.pairs() == all.pairs());
  CHECK(4 * share.chosen_pairs() == all.chosen_pairs());
}

TEST_CASE("no backend has an indexer's operations") {
  const IndexDims d{1, 1, 4, 4, 2};
  const AttentionDims attention{1, 1, 4, 4};
  for (const Op& op : {Op(IndexTopK{d}), Op(IndexTarget{attention}), Op(IndexTopKBackward{d})}) CHECK(is_simulated_only(op));
  CHECK_FALSE(is_simulated_only(Op(MatMul{1, 1, 1, false, true, false})));
}
