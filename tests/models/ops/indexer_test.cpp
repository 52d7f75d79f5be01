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

/// The same of a query that chooses its own block of `block` keys and `most - 1` others.
Pairs counted_in_blocks(std::int64_t length, std::int64_t most, std::int64_t block) {
  Pairs n;
  for (std::int64_t query = 0; query < length; ++query) {
    std::int64_t blocks = 0, own = 0;  // whole ones before its own, and keys of that
    for (std::int64_t key = 0; key <= query; ++key) {
      n.all += 1;
      if (key / block == query / block) ++own;
      else if (key % block == 0) ++blocks;
    }
    n.chosen += own + block * (blocks < most - 1 ? blocks : most - 1);
  }
  return n;
}

Flops flops(std::int64_t n) { return Flops(n); }

}  // namespace

TEST_CASE("an indexer scores every key before a query and learns from those that it chose") {
  const std::int64_t length = GENERATE(1, 7, 12, 40), topk = GENERATE(1, 5, 12, 100), batch = 3, heads = 4, width = 6;
  const Pairs n = counted(length, topk);
  const IndexDims d{batch, heads, length, width, topk};
  CHECK(d.over_pairs(1) == batch * n.all);
  CHECK(d.over_chosen(1) == batch * n.chosen);
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

TEST_CASE("an indexer of blocks scores every key before a query and chooses whole blocks beside the query's own") {
  const std::int64_t length = GENERATE(1, 7, 8, 30, 64), most = GENERATE(1, 2, 5), block = GENERATE(2, 4, 16);
  const std::int64_t batch = 3, heads = 2, width = 6;
  CAPTURE(length, most, block);
  const Pairs n = counted_in_blocks(length, most, block);
  CHECK(pairs_in_blocks(length, most * block, block) == n.chosen);
  IndexDims d{batch, heads, length, width, most * block};
  d.block = block;
  CHECK(d.over_pairs(1) == batch * n.all);
  CHECK(d.over_chosen(1) == batch * n.chosen);
  CHECK(matrix_flops(IndexBlocks{d}) == flops(2 * batch * heads * width * n.all));
  const std::int64_t per_key_head = 3, key_width = 8;
  AttentionDims a{batch, heads * per_key_head, length, key_width};
  a.kv_heads = heads;
  a.window = most * block < length ? most * block : 0;
  a.block = block;
  const IndexBlocksBackward backward{a, heads, width};
  CHECK(backward.index().over_chosen(1) == d.over_chosen(1));
  CHECK(backward.index().listed() == d.listed());
  CHECK(matrix_flops(backward) == flops(2 * batch * n.chosen * (per_key_head * heads * key_width + 3 * heads * width)));
}

TEST_CASE("attention to chosen blocks sees their keys, and reads a list of blocks for every key head") {
  const std::int64_t length = 40, most = GENERATE(1, 3, 7), block = 5, batch = 2, heads = 6, groups = 2;
  AttentionDims d{batch, heads, length, 8};
  d.kv_heads = groups;
  d.window = most * block;
  d.block = block;
  FlashAttention attention{d, 0, false};
  attention.chosen = true;
  CHECK(matrix_flops(attention) == flops(2 * batch * heads * (8 + 8) * counted_in_blocks(length, most, block).chosen));
  FlashAttention window = attention;
  window.chosen = false;
  CHECK(traffic(attention, DType::bf16) == traffic(window, DType::bf16) + Bytes(4 * batch * length * groups * most));
}

TEST_CASE("FLOPs of sparse attention to blocks are those of MiniMax's training kernels, and save what its paper says") {
  // MiniMax-AI/MSA: benchmarks/training/msa_v1/README.en.md, Timing and FLOPs; 64 heads, 4 key heads, all of 128, 16 blocks of 128 keys.
  const std::int64_t length = 1048576, heads = 64, groups = 4, width = 128, block = 128, most = 16;
  AttentionDims d{1, heads, length, width};
  d.kv_heads = groups;
  const Flops whole = matrix_flops(FlashAttention{d, 0, false});
  d.window = most * block;
  d.block = block;
  IndexDims index{1, groups, length, width, most * block};
  index.block = block;
  const std::int64_t causal = length * (length + 1) / 2, sparse = pairs_in_blocks(length, most * block, block);
  FlashAttention forward{d, 0, false};
  FlashAttentionBackward backward{d, 0, false};
  forward.chosen = backward.chosen = true;
  CHECK(matrix_flops(forward) == flops(2 * (width + width) * heads * sparse));
  CHECK(matrix_flops(backward) == flops(2 * (3 * width + 2 * width) * heads * sparse));
  CHECK(matrix_flops(IndexBlocks{index}) == flops(2 * width * groups * causal));
  CHECK(matrix_flops(IndexBlocksBackward{d, groups, width}) == flops(2 * (width * heads + 3 * width * groups) * sparse));
  // arXiv 2606.13392, abstract: 28.4 times less at a million tokens, with all keys of 16 blocks for every query (section 3.3).
  const auto count = [](Flops f) { return static_cast<double>(f.count()); };
  const double saved = count(whole) / count(matrix_flops(forward) + matrix_flops(IndexBlocks{index}));
  CHECK(saved > 28.4);
  CHECK(saved < 28.6);
}

TEST_CASE("context ranks score even shares of the pairs, whose FLOPs lose nothing where pairs are odd") {
  IndexDims all{1, 2, 48, 4, GENERATE(7, 8)}, share = all;
  share.seq = 12;
  share.keys = 48;
  CHECK(4 * share.over_pairs(4) == all.over_pairs(4));
  CHECK(4 * share.over_chosen(4) == all.over_chosen(4));
  CHECK(4 * matrix_flops(IndexTopKBackward{share}).count() == matrix_flops(IndexTopKBackward{all}).count());
}

TEST_CASE("no backend has the operations of an indexer of blocks") {
  const IndexDims d{1, 1, 4, 4, 2, 0, 2};
  const AttentionDims attention{1, 1, 4, 4};
  for (const Op& op : {Op(IndexBlocks{d}), Op(IndexBlocksBackward{attention, 1, 4})})
    CHECK(is_simulated_only(op));
  CHECK_FALSE(is_simulated_only(Op(MatMul{1, 1, 1, false, true, false})));
}
