// Norms of all query heads, and of all key heads, of a token as one row.
#include <cmath>

#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr std::int64_t kDim = 5, kQueries = 3, kGroups = 2, kTokens = 6, kHeads = kGroups * kQueries;
constexpr double kEpsilon = 1e-3;

AttentionDims dims_of(std::int64_t groups) {
  AttentionDims d{2, groups * kQueries, kTokens / 2, kDim};
  d.kv_heads = groups;
  return d;
}
const AttentionDims kAll = dims_of(kGroups);
const std::int64_t kWidth = kAll.qkv_width(), kSize = kTokens * kWidth, kKept = RowNorm{kAll, 1, kEpsilon}.elements();

struct Norm {
  Values qkv = random_values(kSize, 1), of_queries = random_values(kHeads * kDim, 2), of_keys = random_values(kGroups * kDim, 3),
         dy = random_values(kSize, 4);

  Values sums(Kernels& kernels) const { return kernels.one(RowNormSums{kAll}, {real(qkv)}, 2 * kTokens); }
  std::vector<Values> forward(Kernels& kernels) const {
    return kernels.run(RowNorm{kAll, 1, kEpsilon}, {real(qkv), real(of_queries), real(of_keys), real(sums(kernels))},
                       {real(qkv), result(kKept)});
  }
  std::vector<Values> backward(Kernels& kernels) const {
    const Values kept = forward(kernels)[1];
    const Values dots = kernels.one(RowNormDots{kAll}, {real(dy), real(kept), real(of_queries), real(of_keys)}, 2 * kTokens);
    return kernels.run(RowNormBackward{kAll, 1, kEpsilon},
                       {real(dy), real(kept), real(of_queries), real(of_keys), real(sums(kernels)), real(dots)},
                       {real(dy), result(kHeads * kDim), result(kGroups * kDim)});
  }
};

/// Where dimension `i` of a token's queries, or of its keys, stands among the token's columns.
std::int64_t column(std::int64_t i, bool key) {
  const std::int64_t head = i / kDim, group = key ? head : head / kQueries, place = key ? kQueries : head % kQueries;
  return group * (kQueries + 2) * kDim + place * kDim + i % kDim;
}

/// The columns of half of the groups, as the tensor rank `rank` of two has them.
Values half(const Values& whole, std::int64_t rank, std::int64_t width) {
  Values out;
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(whole.size()); at += width)
    out = concatenated(std::move(out), slice(whole, at + rank * width / 2, width / 2));
  return out;
}
Values sum_of(const Values& a, const Values& b) {
  Values out = a;
  for (std::size_t i = 0; i < b.size(); ++i) out[i] += b[i];
  return out;
}

}  // namespace

TEST_CASE("a token's queries are one RMSNorm, its keys another, and its values stay") {
  Norm n;
  for (const DType dtype : {DType::fp64, DType::fp32}) {
    Kernels kernels(dtype);
    const auto got = n.forward(kernels);
    Values expected = n.qkv;
    for (std::int64_t token = 0; token < kTokens; ++token)
      for (const bool key : {false, true}) {
        const std::int64_t length = (key ? kGroups : kHeads) * kDim;
        double squares = 0;
        const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(token * kWidth + column(i, key)); };
        for (std::int64_t i = 0; i < length; ++i) squares += std::pow(n.qkv[at(i)], 2);
        for (std::int64_t i = 0; i < length; ++i)
          expected[at(i)] *=
              (key ? n.of_keys : n.of_queries)[static_cast<std::size_t>(i)] /
              std::sqrt(squares / static_cast<double>(length) + kEpsilon);
      }
    check_close(got[0], expected, dtype == DType::fp64 ? 1e-15 : 1e-6);
  }
}

TEST_CASE("the gradients of rows' norms equal slopes along every axis, and those of values pass") {
  Kernels kernels;
  const Norm n;
  const auto got = n.backward(kernels);
  const auto loss = [&](auto member) {
    return [&, member](const Values& v) {
      Norm moved = n;
      moved.*member = v;
      return dot(n.dy, moved.forward(kernels)[0]);
    };
  };
  check_gradient(loss(&Norm::qkv), n.qkv, got[0]);
  check_gradient(loss(&Norm::of_queries), n.of_queries, got[1]);
  check_gradient(loss(&Norm::of_keys), n.of_keys, got[2]);
}

TEST_CASE("ranks that have heads of their own and add their sums up give what one rank gives") {
  Kernels kernels;
  const Norm n;
  const AttentionDims d = dims_of(kGroups / 2);
  const std::int64_t kept_size = RowNorm{d, 2, kEpsilon}.elements(), q = kHeads * kDim / 2, k = kGroups * kDim / 2;
  const auto whole = n.forward(kernels), whole_gradient = n.backward(kernels);
  Values qkv[2], of_q[2], of_k[2], dy[2], kept[2];
  for (std::int64_t r : {0, 1}) {
    qkv[r] = half(n.qkv, r, kWidth), dy[r] = half(n.dy, r, kWidth);
    of_q[r] = half(n.of_queries, r, 2 * q), of_k[r] = half(n.of_keys, r, 2 * k);
  }
  const auto sums_of = [&](std::int64_t r) { return kernels.one(RowNormSums{d}, {real(qkv[r])}, 2 * kTokens); };
  const Values sums = sum_of(sums_of(0), sums_of(1));
  check_close(sums, n.sums(kernels), 1e-15);
  for (std::int64_t r : {0, 1}) {
    const auto got = kernels.run(RowNorm{d, 2, kEpsilon}, {real(qkv[r]), real(of_q[r]), real(of_k[r]), real(sums)},
                                 {real(qkv[r]), result(kept_size)});
    check_close(got[0], half(whole[0], r, kWidth), 1e-15);
    kept[r] = got[1];
  }
  const auto dots_of = [&](std::int64_t r) {
    return kernels.one(RowNormDots{d}, {real(dy[r]), real(kept[r]), real(of_q[r]), real(of_k[r])}, 2 * kTokens);
  };
  const Values dots = sum_of(dots_of(0), dots_of(1));
  for (std::int64_t r : {0, 1}) {
    const auto got = kernels.run(RowNormBackward{d, 2, kEpsilon},
                                 {real(dy[r]), real(kept[r]), real(of_q[r]), real(of_k[r]), real(sums), real(dots)},
                                 {real(dy[r]), result(q), result(k)});
    check_close(got[0], half(whole_gradient[0], r, kWidth), 1e-14);
    check_close(got[1], half(whole_gradient[1], r, 2 * q), 1e-14);
    check_close(got[2], half(whole_gradient[2], r, 2 * k), 1e-14);
  }
}

TEST_CASE("a head's norm without a weight is one whose weights are 1, forward and backward") {
  Kernels kernels;
  const Norm n;
  const Values ones(kDim, 1.0);
  const auto plain = kernels.run(HeadNorm{kAll, kEpsilon, true}, {real(n.qkv)}, {real(n.qkv), result(kKept)});
  const auto weighted = kernels.run(HeadNorm{kAll, kEpsilon}, {real(n.qkv), real(ones), real(ones)}, {real(n.qkv), result(kKept)});
  CHECK(plain == weighted);
  const auto back = kernels.run(HeadNormBackward{kAll, kEpsilon, true}, {real(n.dy), real(plain[1])}, {real(n.dy)});
  const auto full = kernels.run(HeadNormBackward{kAll, kEpsilon}, {real(n.dy), real(plain[1]), real(ones), real(ones)},
                                {real(n.dy), result(kDim), result(kDim)});
  check_close(back[0], full[0], 1e-15);
}

}  // namespace tandem::exec::test
