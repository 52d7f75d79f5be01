#include "exec/data/sequence_map.hpp"

#include <set>

#include "tests/catch.hpp"

namespace tandem::exec {

TEST_CASE("one context rank has the positions of a sequence in their order, however many") {
  const SequenceMap map(1, 7);
  for (std::int64_t p = 0; p < 7; ++p) {
    CHECK(map.position(0, p) == p);
    CHECK(map.place(p).rank == 0);
    CHECK(map.place(p).index == p);
  }
  CHECK(map.length() == 7);
  CHECK(map.piece() == 7);
}

TEST_CASE("of three context ranks each has a piece from the front and its mirror image from the back") {
  const SequenceMap map(3, 4);
  const std::int64_t expected[3][4] = {{0, 1, 10, 11}, {2, 3, 8, 9}, {4, 5, 6, 7}};
  for (std::int64_t r = 0; r < 3; ++r)
    for (std::int64_t i = 0; i < 4; ++i) CHECK(map.position(r, i) == expected[r][i]);
}

TEST_CASE("every position has one place, and causal attention costs every rank the same") {
  const std::int64_t c = GENERATE(1, 2, 3, 4, 8);
  const SequenceMap map(c, 10);
  std::set<std::int64_t> seen;
  for (std::int64_t r = 0; r < c; ++r) {
    std::int64_t pairs = 0;
    for (std::int64_t i = 0; i < 10; ++i) {
      const std::int64_t p = map.position(r, i);
      seen.insert(p);
      pairs += p + 1;
      CHECK(map.place(p).rank == r);
      CHECK(map.place(p).index == i);
    }
    CHECK(pairs == 10 * (10 * c + 1) / 2);
  }
  CHECK(static_cast<std::int64_t>(seen.size()) == map.length());
  CHECK(*seen.rbegin() == map.length() - 1);
}

TEST_CASE("a sequence that cannot be cut into equal pieces is refused") {
  CHECK_THROWS_AS(SequenceMap(2, 7), ContractError);
  CHECK_THROWS_AS(SequenceMap(0, 8), ContractError);
}

}  // namespace tandem::exec
