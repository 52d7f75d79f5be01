// State that is sharded over data and context ranks: every element is read off the rank that has it.
#include <cmath>

#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/state/state_world.hpp"

using namespace tandem;
using namespace tandem::exec;
using namespace tandem::exec::test;

namespace {

/// 13 elements and 7, and 20 or more with what pads them to the shards.
Program two_vectors(const Lay& lay) {
  return ProgramMaker(lay).add(cut("a", 13, 1, -1, 1)).add(cut("b", 7, 1, -1, 1)).unit(Replication::data, lay.shard).done();
}

}  // namespace

TEST_CASE("With sharded states every element is read off the rank that updates it") {
  // 20 elements over 4 ranks: rank r updates 5r .. 5r+4; element 13 on is the second vector.
  const int stage = GENERATE(1, 2);
  World w(zero(stage, 4, 4), two_vectors(zero(stage, 4, 4)));
  number(w);
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(w.buffer(r, "weights")[19] == 1006);
    const double first[] = {0, 5, 10, 1002};
    CHECK(w.buffer(r, "master")[0] == first[r]);
    for (std::size_t i = 0; i < 20; ++i)
      if (i / 5 != r) w.buffer(r, "weights")[i] = -1;  // not yet told of the others' updates
  }
  CHECK(w.values(2, "master", 0, 5) == std::vector<double>{10, 11, 12, 1000, 1001});
  CHECK(numbered(w.gather("weights")));
  CHECK(numbered(w.gather("master")));
}

TEST_CASE("Gradients are read where their owner has them, sharded or not") {
  const int stage = GENERATE(1, 2, 3);
  World w(zero(stage, 4, 4), two_vectors(zero(stage, 4, 4)));
  number(w);
  for (std::size_t r = 0; r < 4; ++r) {
    double* to = w.buffer(r, "gradients");
    if (stage == 1) std::fill_n(to, 20, -1);
    std::copy_n(w.buffer(r, "master"), 5, to + (stage == 1 ? 5 * r : 0));  // master lies in shards
  }
  CHECK(numbered(w.gather("gradients")));
}

TEST_CASE("Sharded weights are written and read in the rank's parts of every unit") {
  // Two units: 13 elements padded to 16, then 7 padded to 8, on 4 ranks: parts of 4 and 2.
  const auto lay = zero(3, 4, 4);
  World w(lay, ProgramMaker(lay)
                   .add(cut("a", 13, 1, -1, 1)).unit(Replication::data, 4)
                   .add(cut("b", 7, 1, -1, 1)).unit(Replication::data, 4).done());
  number(w);
  CHECK(w.program.memory.allocations[0].bytes == Bytes(6 * 8));
  CHECK(w.values(1, "weights", 0, 6) == std::vector<double>{4, 5, 6, 7, 1002, 1003});
  CHECK(w.values(3, "weights", 0, 1) == std::vector<double>{12});
  CHECK(w.values(3, "weights", 1, 3) == std::vector<double>(3, 0.0));  // padding
  CHECK(w.values(3, "weights", 4, 1) == std::vector<double>{1006});
  CHECK(numbered(w.gather("weights")));
}

TEST_CASE("Copies of a shard are written alike and read off the first") {
  // Data 4 in shard groups of 2: ranks 0 and 2 hold the first half, 1 and 3 the second.
  const auto lay = zero(3, 4, 2);
  World w(lay, two_vectors(lay));
  number(w);
  CHECK(w.values(2, "weights", 0, 2) == std::vector<double>{0, 1});
  CHECK(w.values(3, "weights", 0, 4) == std::vector<double>{10, 11, 12, 1000});
  std::fill_n(w.buffer(2, "weights"), 10, -1);
  CHECK(numbered(w.gather("weights")));
  w.buffer(1, "weights")[0] = -1;
  CHECK_FALSE(numbered(w.gather("weights")));
}

TEST_CASE("Context ranks share in the shards") {
  Lay lay = zero(3, 2, 4);
  lay.context = 2;
  World w(lay, two_vectors(lay));
  number(w);
  CHECK(w.values(1, "weights", 0, 2) == std::vector<double>{5, 6});    // context 1 of data 0 is the second of four
  CHECK(w.values(2, "weights", 0, 2) == std::vector<double>{10, 11});
  CHECK(numbered(w.gather("weights")));
}

TEST_CASE("What nobody holds is not a number, and a missing buffer is a contract error") {
  const auto lay = zero(1, 2, 2);
  World w(lay, two_vectors(lay));
  number(w);
  w.ranks.pop_back();
  CHECK(std::isnan(w.gather("weights")[0].values[12]));
  CHECK_THROWS_AS(w.gather("exp_avg_sq"), ContractError);
}
