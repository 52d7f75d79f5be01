#include "sim/engine/large_pages.hpp"

#include <cstdint>
#include <new>
#include <numeric>
#include <vector>

#include "tests/catch.hpp"

using namespace tandem::sim;

TEST_CASE("a vector on large pages keeps what it holds as it grows past them") {
  std::vector<std::int64_t, LargePages<std::int64_t>> grown;
  constexpr std::int64_t kMany = 3 * static_cast<std::int64_t>(kLargePage) / 2;  // 24 MiB
  for (std::int64_t i = 0; i < kMany; ++i) grown.push_back(i);
  const auto copy = grown;
  grown.clear();
  grown.shrink_to_fit();
  CHECK(std::accumulate(copy.begin(), copy.end(), std::int64_t{0}) == kMany * (kMany - 1) / 2);
  CHECK(reinterpret_cast<std::uintptr_t>(copy.data()) % kLargePage == 0);
}

TEST_CASE("more large pages than there are addresses are refused") {
  CHECK_THROWS_AS(allocate_large(SIZE_MAX), std::bad_alloc);
}
