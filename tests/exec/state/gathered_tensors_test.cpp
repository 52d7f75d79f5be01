// Tensors cut over hand-made layouts: where each part lies is written down here by hand, and all comes back as it went in.
#include "tests/catch.hpp"
#include "tests/exec/state/state_world.hpp"

using namespace tandem;
using namespace tandem::exec;
using namespace tandem::exec::test;

TEST_CASE("Gathered tensors come in ascending global index with their whole shape") {
  World w({2}, mixed({2}));
  for (auto& p : w.program.params) p.global_index = 3 - p.global_index;
  initialise(w.ranks, plan(), {});
  const auto tensors = w.gather("weights");
  REQUIRE(tensors.size() == 4);
  CHECK(tensors[0].name == "whole");
  CHECK(tensors[3].name == "by_rows");
  CHECK(tensors[3].rows == 6);
  CHECK(tensors[3].cols == 4);
  CHECK(tensors[0].values == std::vector<double>(5, 1.0));
  CHECK(tensors[1].values == std::vector<double>(6, 0.0));
}

TEST_CASE("A parameter cut by rows or columns lies on each tensor rank in its part, and comes back whole") {
  World w({2}, mixed({2}));
  number(w);
  CHECK(w.values(1, "weights", 0, 3) == std::vector<double>{12, 13, 14});                 // rows 3..5 of 6 x 4
  CHECK(w.values(1, "weights", 12, 6) == std::vector<double>{1003, 1004, 1005, 1009, 1010, 1011});  // columns 3..5 of 2 x 6
  CHECK(w.values(1, "weights", 18, 3) == std::vector<double>{2003, 2004, 2005});
  CHECK(w.values(1, "weights", 21, 5) == std::vector<double>{3000, 3001, 3002, 3003, 3004});
  CHECK(numbered(w.gather("weights")));
  CHECK(numbered(w.gather("master")));
}

TEST_CASE("Keys and values that several tensor ranks hold are written to all of them and read off the first") {
  // Two groups of rows {queries of two ranks, 2 rows each; keys and values, 2 rows}: 12 rows of 3.
  Lay lay{4};
  Param queries = cut("qkv", 12, 3, 0, 6), keys = queries;
  queries.rows = keys.rows = 2;
  queries.repeat = keys.repeat = 2;
  queries.outer = keys.outer = 6;
  queries.inner = 2;
  keys.first = 4, keys.inner = 0;
  World w(lay, ProgramMaker(lay).add(queries).add(keys).unit(Replication::data, 1).done());
  number(w);
  const double first_query[] = {0, 6, 18, 24}, first_key[] = {12, 12, 30, 30};  // element 0 of rows 0,2,6,8 and 4,4,10,10
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(w.buffer(r, "weights")[0] == first_query[r]);
    CHECK(w.buffer(r, "weights")[6] == first_key[r]);
  }
  for (const std::size_t copy : {1, 3}) std::fill_n(w.buffer(copy, "weights") + 6, 6, -1);
  const auto tensors = w.gather("weights");
  CHECK(tensors.size() == 1);
  CHECK(numbered(tensors));
  w.buffer(2, "weights")[6] = -1;
  CHECK_FALSE(numbered(w.gather("weights")));
}

TEST_CASE("Tied copies are left out of what is gathered") {
  World w({}, mixed({}));
  w.program.params[0].in_norm = false;
  initialise(w.ranks, plan(), {});
  const auto tensors = w.gather("weights");
  CHECK(tensors.size() == 3);
  for (const auto& t : tensors) CHECK(t.name != "by_rows");
}
