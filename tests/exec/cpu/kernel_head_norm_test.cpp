// Norms of query and key heads, and rotations of a part of each head.
#include <cmath>

#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr std::int64_t kDim = 6, kQueries = 3;
constexpr double kEpsilon = 1e-3;
const AttentionDims kDims = [] {
  AttentionDims d{2, 6, 3, kDim};
  d.kv_heads = 2;
  return d;
}();
const std::int64_t kWidth = kDims.qkv_width(), kAll = kDims.batch * kDims.seq * kWidth,
                   kHeads = HeadNorm{kDims, kEpsilon}.elements();

struct Norm {
  Values qkv = random_values(kAll, 1), of_queries = random_values(kDim, 2), of_keys = random_values(kDim, 3),
         dy = random_values(kAll, 4);

  std::vector<Values> forward(Kernels& kernels) const {
    return kernels.run(HeadNorm{kDims, kEpsilon}, {real(qkv), real(of_queries), real(of_keys)}, {real(qkv), result(kHeads)});
  }
  std::vector<Values> backward(Kernels& kernels) const {
    return kernels.run(HeadNormBackward{kDims, kEpsilon}, {real(dy), real(forward(kernels)[1]), real(of_queries), real(of_keys)},
                       {real(dy), result(kDim), result(kDim)});
  }
};

/// Which of a group's heads a column of qkv is in: a query, then its key, then its value.
std::int64_t head_of(std::int64_t column) { return column / kDim % (kQueries + 2); }

}  // namespace

TEST_CASE("the norm of a query or key head is RMSNorm of its row, values stay, and what was there is kept in order") {
  Kernels kernels;
  const Norm c;
  const auto got = c.forward(kernels);
  std::size_t next = 0;
  for (std::int64_t at = 0; at < kAll; at += kDim) {
    const Values before = slice(c.qkv, at, kDim), after = slice(got[0], at, kDim);
    const std::int64_t head = head_of(at % kWidth);
    if (head == kQueries + 1) {
      CHECK(after == before);
      continue;
    }
    const Values& gamma = head == kQueries ? c.of_keys : c.of_queries;
    const Values row = kernels.run(LayerNorm{1, kDim, kEpsilon, true}, {real(before), real(gamma)}, {result(kDim), result(2)})[0];
    check_close(after, row, 4e-16);
    CHECK(slice(got[1], static_cast<std::int64_t>(next), kDim) == before);
    next += kDim;
  }
  CHECK(next == got[1].size());
}

TEST_CASE("the gradients of heads' norms equal slopes along every axis, and those of values pass") {
  Kernels kernels;
  const Norm c;
  const auto got = c.backward(kernels);
  const auto loss = [&](auto member) {
    return [&, member](const Values& v) {
      Norm moved = c;
      moved.*member = v;
      return dot(c.dy, moved.forward(kernels)[0]);
    };
  };
  check_gradient(loss(&Norm::qkv), c.qkv, got[0]);
  check_gradient(loss(&Norm::of_queries), c.of_queries, got[1]);
  check_gradient(loss(&Norm::of_keys), c.of_keys, got[2]);
}

namespace {

/// With norms of values, too, or with values that are keys.
struct ValueNorm {
  NormedValues kind;
  Values first, of_queries = random_values(kDim, 2), of_keys = random_values(kDim, 3), dy = random_values(kAll, 4);

  explicit ValueNorm(NormedValues values) : kind(values), first(random_values(values == NormedValues::own ? kAll : kHeads, 1)) {}

  HeadNorm op() const { return {kDims, kEpsilon, false, kind}; }
  /// What is written, and what is kept.
  std::vector<Values> forward(Kernels& kernels) const {
    const std::vector<Operand> in{real(first), real(of_queries), real(of_keys)};
    if (kind == NormedValues::own) return kernels.run(op(), in, {real(first), result(op().elements())});
    return {kernels.run(op(), in, {result(kAll)})[0], first};
  }
  std::vector<Values> backward(Kernels& kernels) const {
    return kernels.run(HeadNormBackward{kDims, kEpsilon, false, kind},
                       {real(dy), real(forward(kernels)[1]), real(of_queries), real(of_keys)},
                       {kind == NormedValues::own ? real(dy) : result(kHeads), result(kDim), result(kDim)});
  }
};

}  // namespace

TEST_CASE("values are normed without a weight: those that are there, or the keys") {
  Kernels kernels;
  const Values ones(kDim, 1.0);
  for (const NormedValues kind : {NormedValues::own, NormedValues::of_keys}) {
    const ValueNorm c(kind);
    const auto got = c.forward(kernels);
    const std::int64_t width = static_cast<std::int64_t>(c.first.size()) / (kAll / kWidth) / 2;  // of a group
    for (std::int64_t row = 0; row < kAll / kWidth; ++row)
      for (std::int64_t group = 0; group < 2; ++group) {
        const std::int64_t at = row * kWidth + group * kWidth / 2 + (kQueries + 1) * kDim;
        const std::int64_t last = (row * 2 + group + 1) * width - kDim;
        const Values before = slice(c.first, last, kDim);
        const Values row_norm =
            kernels.run(LayerNorm{1, kDim, kEpsilon, true}, {real(before), real(ones)}, {result(kDim), result(2)})[0];
        check_close(slice(got[0], at, kDim), row_norm, 4e-16);
      }
    CHECK(got[1] == c.first);
  }
}

TEST_CASE("gradients of norms with values equal slopes along every axis") {
  Kernels kernels;
  for (const NormedValues kind : {NormedValues::own, NormedValues::of_keys}) {
    const ValueNorm c(kind);
    const auto got = c.backward(kernels);
    const auto loss = [&](auto member) {
      return [&, member](const Values& v) {
        ValueNorm moved = c;
        moved.*member = v;
        return dot(c.dy, moved.forward(kernels)[0]);
      };
    };
    check_gradient(loss(&ValueNorm::first), c.first, got[0]);
    check_gradient(loss(&ValueNorm::of_queries), c.of_queries, got[1]);
    check_gradient(loss(&ValueNorm::of_keys), c.of_keys, got[2]);
  }
}

TEST_CASE("with fewer dimensions that turn the first ones are a shorter head's rotation, and the rest stays") {
  const auto scaling = GENERATE(RopeScalingKind::none, RopeScalingKind::yarn);
  Kernels kernels;
  const std::int64_t turned = 4;
  const Values x = random_values(kAll, 5);
  Rotary part{kDims, 100, false, scaling, 2};
  part.turned = turned;
  Rotary whole = part;
  whole.dims.head_dim = turned;
  whole.turned = 0;
  Values shorter;
  for (std::int64_t at = 0; at < kAll; at += kDim) shorter = concatenated(std::move(shorter), slice(x, at, turned));
  const Values expected = kernels.run(whole, {real(shorter)}, {real(shorter)})[0];
  const Values got = kernels.run(part, {real(x)}, {real(x)})[0];
  for (std::int64_t head = 0; head < kAll / kDim; ++head) {
    CHECK(slice(got, head * kDim, turned) == slice(expected, head * turned, turned));
    CHECK(slice(got, head * kDim + turned, kDim - turned) == slice(x, head * kDim + turned, kDim - turned));
  }
  Rotary back = part;
  back.inverse = true;
  if (scaling == RopeScalingKind::none) check_close(kernels.run(back, {real(got)}, {real(got)})[0], x, 1e-15);
}

}  // namespace tandem::exec::test
