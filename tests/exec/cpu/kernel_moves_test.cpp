// Operations that move numbers: parts of qkv, exchanges of columns, first rows, zeros.
#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

// Three query heads a group, two groups.
const AttentionDims kDims{1, 6, 1, 5, 2};
constexpr std::int64_t kRows = 7, kQkv = 10 * 5, kKv = 4 * 5;

// Where a column of qkv lies in kv, or -1 for a query's.
std::int64_t kv_column(std::int64_t column) {
  const std::int64_t head = column / 5, group = head / 5, part = head % 5 - 3;
  return part < 0 ? -1 : (2 * group + part) * 5 + column % 5;
}

}  // namespace

TEST_CASE("keys and values are taken out of qkv in order of groups, and their gradients go back") {
  Kernels kernels;
  const Values qkv = random_values(kRows * kQkv, 1), dkv = random_values(kRows * kKv, 2), dqkv = random_values(kRows * kQkv, 3);
  const Values kv = kernels.one(SplitKv{kRows, kDims}, {real(qkv)}, kRows * kKv);
  const Values merged = kernels.run(MergeKv{kRows, kDims}, {real(dkv), real(dqkv)}, {real(dqkv)}).front();
  for (std::int64_t i = 0; i < kRows * kQkv; ++i) {
    const std::int64_t column = kv_column(i % kQkv), at = i / kQkv * kKv + column;
    const auto here = static_cast<std::size_t>(i);
    if (column >= 0) REQUIRE(kv[static_cast<std::size_t>(at)] == qkv[here]);
    REQUIRE(merged[here] == (column < 0 ? dqkv[here] : dkv[static_cast<std::size_t>(at)]));
  }
}

TEST_CASE("columns are taken out of a matrix, and added to it where they lie") {
  Kernels kernels;
  const std::int64_t first = GENERATE(0, 5, 9), width = 3;
  const Values x = random_values(kRows * 12, 1), y = random_values(kRows * width, 2);
  const Values taken = kernels.one(TakeColumns{kRows, 12, first, width}, {real(x)}, kRows * width);
  const Values added = kernels.run(AddColumns{kRows, 12, first, width}, {real(y), real(x)}, {real(x)}).front();
  for (std::int64_t i = 0; i < kRows * 12; ++i) {
    const std::int64_t column = i % 12 - first, at = i / 12 * width + column;
    const auto here = static_cast<std::size_t>(i), there = static_cast<std::size_t>(at);
    const bool inside = column >= 0 && column < width;
    if (inside) REQUIRE(taken[there] == x[here]);
    REQUIRE(added[here] == (inside ? x[here] + y[there] : x[here]));
  }
}

TEST_CASE("columns that go to one peer lie together, and unpacking is the inverse") {
  Kernels kernels;
  const Values x = random_values(kRows * 12, 1);
  const Values y = kernels.one(PackColumns{kRows, 12, 3}, {real(x)}, kRows * 12);
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t c = 0; c < 12; ++c)
      REQUIRE(y[static_cast<std::size_t>((c / 4 * kRows + r) * 4 + c % 4)] == x[static_cast<std::size_t>(r * 12 + c)]);
  CHECK(kernels.one(UnpackColumns{kRows, 12, 3}, {real(y)}, kRows * 12) == x);
  CHECK_THROWS_AS(kernels.one(PackColumns{kRows, 12, 5}, {real(x)}, kRows * 12), ContractError);
}

TEST_CASE("columns that several peers share go to each of them, and their gradients are summed in order") {
  Kernels kernels;
  // Two groups of three peers: each peer has two columns of its own, each group two that its peers share.
  const PackColumns pack{kRows, 16, 6, 3, 2};
  const Values x = random_values(kRows * 16, 1), y = kernels.one(pack, {real(x)}, pack.parted());
  REQUIRE(pack.parted() == 6 * kRows * 4);
  for (std::int64_t p = 0; p < 6; ++p)
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t c = 0; c < 4; ++c) {
        const std::int64_t column = p / 3 * 8 + (c < 2 ? p % 3 * 2 + c : 6 + c - 2);
        REQUIRE(y[static_cast<std::size_t>((p * kRows + r) * 4 + c)] == x[static_cast<std::size_t>(r * 16 + column)]);
      }
  const Values dy = random_values(pack.parted(), 2);
  const Values dx = kernels.one(UnpackColumns{kRows, 16, 6, 3, 2}, {real(dy)}, kRows * 16);
  const auto at = [&](std::int64_t p, std::int64_t r, std::int64_t c) {
    return dy[static_cast<std::size_t>((p * kRows + r) * 4 + c)];
  };
  for (std::int64_t g = 0; g < 2; ++g)
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t c = 0; c < 8; ++c) {
        const auto shared = [&](std::int64_t peer) { return at(3 * g + peer, r, c - 4); };
        const double expected = c < 6 ? at(3 * g + c / 2, r, c % 2) : shared(0) + shared(1) + shared(2);
        REQUIRE(dx[static_cast<std::size_t>(r * 16 + g * 8 + c)] == expected);
      }
  CHECK_THROWS_AS(kernels.one(PackColumns{kRows, 16, 6, 4, 2}, {real(x)}, kRows * 16), ContractError);
}

TEST_CASE("columns that several peers share may come first, in the whole and in each part") {
  Kernels kernels;
  // Two groups: two shared columns, then two of each of three peers.
  const PackColumns pack{kRows, 16, 6, 3, 2, true};
  const auto column = [](std::int64_t p, std::int64_t c) { return p / 3 * 8 + (c < 2 ? c : p % 3 * 2 + c); };
  const Values x = random_values(kRows * 16, 1), dy = random_values(pack.parted(), 2);
  const Values y = kernels.one(pack, {real(x)}, pack.parted());
  Values dx(static_cast<std::size_t>(kRows * 16), 0);
  for (std::int64_t p = 0; p < 6; ++p)
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t c = 0; c < 4; ++c) {
        const auto part = static_cast<std::size_t>((p * kRows + r) * 4 + c);
        const auto whole = static_cast<std::size_t>(r * 16 + column(p, c));
        REQUIRE(y[part] == x[whole]);
        dx[whole] += dy[part];
      }
  CHECK(kernels.one(UnpackColumns{kRows, 16, 6, 3, 2, true}, {real(dy)}, kRows * 16) == dx);
}

TEST_CASE("a context rank takes its own columns and the shared ones, and their gradients lie among zeros") {
  Kernels kernels;
  const std::int64_t rows = 3;
  kernels.context.context_rank = 4, kernels.context.context_size = 6;
  const Values x = random_values(rows * 16, 1), dy = random_values(rows * 4, 2);
  for (const bool first : {false, true}) {
    INFO(first);
    // The second of three peers of the second group.
    const std::int64_t shared = first ? 8 : 14, own = first ? 12 : 10;
    const std::int64_t left = first ? shared : own, right = first ? own : shared;
    const std::vector<std::int64_t> columns{left, left + 1, right, right + 1};
    Values y, dx(static_cast<std::size_t>(rows * 16), 0);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < 4; ++c) {
        const auto whole = static_cast<std::size_t>(r * 16 + columns[c]);
        y.push_back(x[whole]);
        dx[whole] = dy[static_cast<std::size_t>(r) * 4 + c];
      }
    CHECK(kernels.one(TakePart{rows, 16, 6, 3, 2, first}, {real(x)}, rows * 4) == y);
    CHECK(kernels.one(PlacePart{rows, 16, 6, 3, 2, first}, {real(dy)}, rows * 16) == dx);
  }
  kernels.context.context_rank = 6;
  CHECK_THROWS_AS(kernels.one(TakePart{rows, 16, 6, 3, 2}, {real(x)}, rows * 4), ContractError);
}

TEST_CASE("rows of context ranks, each with an early and a late piece of every sequence, are put in order and back") {
  Kernels kernels;
  // Two sequences of eight positions, two ranks: the first has positions 0, 1, 6 and 7, the second 2 to 5.
  const std::vector<std::int64_t> held{0, 1, 6, 7, 8, 9, 14, 15, 2, 3, 4, 5, 10, 11, 12, 13};
  const Values x = random_values(16 * 3, 1);
  Values ordered(x.size());
  for (std::size_t row = 0; row < held.size(); ++row)
    for (std::size_t c = 0; c < 3; ++c) ordered[static_cast<std::size_t>(held[row]) * 3 + c] = x[row * 3 + c];
  CHECK(kernels.one(OrderRows{2, 8, 3, 2}, {real(x)}, 48) == ordered);
  CHECK(kernels.one(OrderRows{2, 8, 3, 2, true}, {real(ordered)}, 48) == x);
  CHECK_THROWS_AS(kernels.one(OrderRows{2, 6, 4, 2}, {real(x)}, 48), ContractError);
}

TEST_CASE("the first row of every sequence is taken, and its gradient added there") {
  Kernels kernels;
  const Values x = random_values(3 * 5 * 7, 1), dy = random_values(3 * 7, 2);
  const Values y = kernels.one(TakeFirst{3, 5, 7}, {real(x)}, 21);
  for (std::int64_t s = 0; s < 3; ++s) CHECK(slice(y, s * 7, 7) == slice(x, s * 35, 7));
  Values expected = x;
  for (std::size_t i = 0; i < dy.size(); ++i) expected[i / 7 * 35 + i % 7] += dy[i];
  CHECK(kernels.run(TakeFirstBackward{3, 5, 7}, {real(dy), real(x)}, {real(x)}).front() == expected);
}

TEST_CASE("a fill zeroes as many elements of its type and no more") {
  Kernels kernels;
  CHECK(kernels.run(Fill{3, DType::fp64}, {}, {fp64({1, 2, 3, 4})}).front() == Values{0, 0, 0, 4});
  CHECK(kernels.run(Fill{3, DType::int32}, {}, {integers({1, 2, 3, 4})}).front() == Values{0, 0, 0, 4});
  CHECK(kernels.run(Fill{1, DType::int64}, {}, {words({5, 6})}).front() == Values{0, 6});
  CHECK(kernels.run(Fill{2, DType::int32, true}, {}, {integers({1, 2, 3})}).front() == Values{-1, -1, 3});
  const Values filled = kernels.run(Fill{1, DType::fp64, true}, {}, {fp64({1, 2})}).front();
  CHECK((std::isnan(filled[0]) && filled[1] == 2));
}

}  // namespace tandem::exec::test
