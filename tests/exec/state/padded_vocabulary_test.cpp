// Rows that pad a vocabulary: zeros that nobody updates or counts.
#include "tests/catch.hpp"
#include "tests/exec/state/state_world.hpp"

using namespace tandem;
using namespace tandem::exec;
using namespace tandem::exec::test;

namespace {

/// 5 words of 3 elements on two tensor ranks of 4 rows: the second one has one word, then three rows of padding.
Program words(const Lay& lay) {
  Param p = cut("words", 8, 3, 0, 2);
  p.full_rows = 5, p.vocabulary = true;
  return ProgramMaker(lay).add(p).unit(Replication::data, lay.shard).done();
}

std::vector<double> joined(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("Rows that pad a vocabulary are zero, and nobody updates or counts them") {
  Lay lay{2};
  lay.weights_sharded = GENERATE(false, true);
  World w(lay, words(lay));
  number(w);
  CHECK(w.values(0, "weights", 0, 12) == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  for (const char* name : {"weights", "master"})
    CHECK(w.values(1, name, 0, 12) == joined({12, 13, 14}, std::vector<double>(9, 0.0)));
  CHECK(param_pieces(w.program, w.ranks[0].seat)[0].count == 12);
  CHECK(param_pieces(w.program, w.ranks[1].seat)[0].count == 3);
  const auto tensors = w.gather("weights");
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].rows == 5);
  CHECK(tensors[0].values.size() == 15);
  CHECK(numbered(tensors));
}

TEST_CASE("A shard that is nothing but padding is zero, and has nothing to update") {
  Lay lay = zero(3, 2, 2);
  lay.tensor = 2;
  World w(lay, words(lay));
  number(w);
  CHECK(w.values(1, "weights", 0, 6) == std::vector<double>{12, 13, 14, 0, 0, 0});
  CHECK(w.values(3, "weights", 0, 6) == std::vector<double>(6, 0.0));
  CHECK(w.values(3, "master", 0, 6) == std::vector<double>(6, 0.0));
  CHECK(param_pieces(w.program, w.ranks[3].seat).empty());
  CHECK(numbered(w.gather("weights")));
  CHECK(numbered(w.gather("master")));
}
