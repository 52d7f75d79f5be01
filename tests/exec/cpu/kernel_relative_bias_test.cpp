// T5's relative position bias.
#include "tests/exec/cpu/attention_cases.hpp"

namespace tandem::exec::test {
namespace {

// relative_position_bucket of T5's authors' code (google-research/text-to-text-transfer-transformer, mesh_tensorflow's
// transformer_layers.py), with max_distance 128.
int reference_bucket(int relative, int buckets, bool bidirectional) {
  int out = 0, n = -relative;
  if (bidirectional) {
    buckets /= 2;
    if (n < 0) out += buckets;
    n = std::abs(n);
  } else {
    n = std::max(n, 0);
  }
  const int exact = buckets / 2;
  if (n < exact) return out + n;
  const double large = exact + std::log(n / static_cast<double>(exact)) / std::log(128.0 / exact) * (buckets - exact);
  return out + std::min(static_cast<int>(large + 1e-6), buckets - 1);
}

WholeAttention setting(bool causal, std::int64_t queries, std::int64_t keys) {
  WholeAttention a{2, 4, 4, queries, keys, 3};
  a.causal = causal;
  return a;
}

std::int64_t square(const WholeAttention& a) { return a.batch * a.heads * a.queries * a.keys; }

Values softmax(Kernels& kernels, const WholeAttention& a, const Values& scores, const Values& table, std::int64_t buckets) {
  const AttentionSoftmax op{a.dims(), a.dropout, false, buckets};
  const std::vector<Operand> out(a.dropout > 0 ? 2 : 1, result(square(a)));
  return kernels.run(op, {real(scores), real(table)}, out).back();
}

// Which number of a table a score gets: with scores 0 the ratio to key 0's probability is exp of the difference.
int bucket_of(const Values& probs, const WholeAttention& a, std::int64_t query, std::int64_t key, double step) {
  const auto row = static_cast<std::size_t>(query * a.keys);
  const double difference = std::log(probs[row + static_cast<std::size_t>(key)] / probs[row]);
  return static_cast<int>(std::lround(difference / step));
}

}  // namespace

TEST_CASE("every distance has the bucket of T5's authors") {
  const bool causal = GENERATE(true, false);
  const int buckets = GENERATE(32, 8, 6);
  WholeAttention a = setting(causal, 300, 300);
  a.batch = 1, a.heads = a.groups = 1;
  const double step = 0.25;
  Values table;
  for (int b = 0; b < buckets; ++b) table.push_back(step * b);
  Kernels kernels;
  const Values probs = softmax(kernels, a, Values(static_cast<std::size_t>(square(a)), 0.0), table, buckets);
  for (const int query : {0, 1, 7, 8, 16, 20, 64, 129, 299})
    for (int key = 0; key < (causal ? query + 1 : 300); ++key) {
      const int expected = reference_bucket(key - query, buckets, !causal) - reference_bucket(-query, buckets, !causal);
      INFO(query << " " << key);
      REQUIRE(bucket_of(probs, a, query, key, step) == expected);
    }
}

TEST_CASE("the bidirectional buckets of distances 8 to 128 are the published ones") {
  // 32 buckets are 16 for each direction: distances 0-7 exactly, then 8-11, 12-15, 16-22, 23-31, 32-45, 46-63, 64-90, and larger.
  const std::vector<std::pair<int, int>> first{{8, 8}, {11, 8}, {12, 9}, {15, 9}, {16, 10}, {22, 10}, {23, 11}, {31, 11}, {32, 12},
                                               {45, 12}, {46, 13}, {63, 13}, {64, 14}, {90, 14}, {91, 15}, {128, 15}, {200, 15}};
  WholeAttention a = setting(false, 201, 201);
  a.batch = 1, a.heads = a.groups = 1;
  Values table;
  for (int b = 0; b < 32; ++b) table.push_back(0.25 * b);
  Kernels kernels;
  const Values probs = softmax(kernels, a, Values(static_cast<std::size_t>(square(a)), 0.0), table, 32);
  for (const auto& [distance, bucket] : first) {
    CHECK(bucket_of(probs, a, 200, 200 - distance, 0.25) - bucket_of(probs, a, 200, 200, 0.25) == bucket);
    CHECK(bucket_of(probs, a, 0, distance, 0.25) == 16 + bucket);
  }
}

TEST_CASE("attention with a relative bias equals plain loops") {
  const WholeAttention a = GENERATE(setting(true, 41, 41), setting(false, 41, 41), setting(false, 13, 29));
  Kernels kernels;
  const Values table = random_values(a.heads * 8, 5);
  const Qkv x = a.random(1);
  AttentionDims d = a.dims();
  d.q_packed = d.kv_packed = false;
  const Layout q = whole_layout(a, a.queries), k = whole_layout(a, a.keys);
  const Values scores = kernels.one(AttentionScores{d}, {real(q.q(x.q)), real(k.kv(x))}, square(a));
  const Values context = kernels.one(AttentionContext{d}, {real(softmax(kernels, a, scores, table, 8)), real(k.kv(x))}, a.q_size());
  const auto bias = [&](std::int64_t h, std::int64_t query, std::int64_t key) {
    return table[static_cast<std::size_t>(h * 8 + reference_bucket(static_cast<int>(key - query), 8, !a.causal))];
  };
  check_close(context, plain_attention(a, x, kernels.on_host(), bias), 1e-14);
}

TEST_CASE("the gradients of the scores and of the table equal slopes") {
  WholeAttention a = GENERATE(setting(true, 7, 7), setting(false, 7, 7), setting(false, 5, 9));
  a.heads = a.groups = 2;
  a.dropout = GENERATE(0.0, 0.3);
  Kernels kernels;
  const Values scores = random_values(square(a), 1), table = random_values(a.heads * 8, 2), dy = random_values(square(a), 3);
  WholeAttention without = a;
  without.dropout = 0;
  const Values probs = softmax(kernels, without, scores, table, 8);
  const auto g = kernels.run(AttentionSoftmaxBackward{a.dims(), a.dropout, 8}, {real(dy), real(probs)},
                             {result(square(a)), result(a.heads * 8)});
  check_gradient([&](const Values& v) { return dot(dy, softmax(kernels, a, v, table, 8)); }, scores, g[0]);
  check_gradient([&](const Values& v) { return dot(dy, softmax(kernels, a, scores, v, 8)); }, table, g[1]);
}

TEST_CASE("a rank's own queries get the biases of their positions") {
  WholeAttention a = setting(true, 24, 24);
  Kernels kernels;
  const Values scores = random_values(square(a), 1), table = random_values(a.heads * 8, 2);
  const Values whole = softmax(kernels, a, scores, table, 8);
  kernels.context.context_size = 3;
  AttentionDims d = a.dims();
  d.share = AttentionShare::queries;
  d.seq = 8, d.keys = 24, d.row_shards = 3;
  for (std::int64_t r = 0; r < 3; ++r) {
    kernels.context.context_rank = static_cast<std::int32_t>(r);
    Values own, expected;
    for (std::int64_t head = 0; head < a.batch * a.heads; ++head)
      for (const std::int64_t p : positions_of(3, r, 24)) {
        own = concatenated(own, slice(scores, (head * 24 + p) * 24, 24));
        expected = concatenated(expected, slice(whole, (head * 24 + p) * 24, 24));
      }
    CHECK(kernels.one(AttentionSoftmax{d, 0, false, 8}, {real(own), real(table)}, a.batch * a.heads * 8 * 24) == expected);
  }
}

}  // namespace tandem::exec::test
