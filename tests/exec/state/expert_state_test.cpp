// The state of experts over hand-made layouts: each lies on its ranks, and every part counts once.
#include "tests/catch.hpp"
#include "tests/exec/state/state_world.hpp"

using namespace tandem;
using namespace tandem::exec;
using namespace tandem::exec::test;

TEST_CASE("Experts lie on their ranks, each cut over the tensor ranks by itself") {
  // 4 experts of 4 x 3 over an expert group of 2 and 2 tensor ranks; data 4, so two ranks have the same experts.
  const std::int64_t shards = GENERATE(1, 2);
  Lay lay{2, 4, 1, 2};
  lay.expert_shard = shards;
  Param p = cut("experts", 16, 3, 0, 2);
  p.rows = 4, p.expert_rows = 2, p.outer = 2;
  p.replication = Replication::expert;
  World w(lay, ProgramMaker(lay).add(cut("whole", 3, 1, -1, 2)).unit(Replication::data, 1).add(p).unit(p.replication, shards).done());
  number(w);
  // Tensor rank 1 of data index 3, which is expert rank 1: rows 2,3 of experts 2 and 3 are rows 10,11 and 14,15.
  CHECK(w.values(7, "weights", 3, 6) == std::vector<double>{1030, 1031, 1032, 1033, 1034, 1035});
  CHECK(w.values(7, "weights", 9, 6) == std::vector<double>{1042, 1043, 1044, 1045, 1046, 1047});
  CHECK(w.values(0, "weights", 3, 1) == std::vector<double>{1000});
  CHECK(numbered(w.gather("weights")));
  CHECK(numbered(w.gather("master")));
  // Data indices 2 and 3 update the second halves where states are sharded and nothing that counts where they are not.
  std::fill_n(w.buffer(6, "weights") + 3, 6, -1);
  CHECK(numbered(w.gather("weights")));
  std::fill_n(w.buffer(6, "weights") + 9, 6, -1);
  CHECK(numbered(w.gather("weights")) == (shards == 1));
}

TEST_CASE("Experts cut over two of four tensor ranks lie on their ranks, and every part counts once") {
  // Ranks 0 and 1 have the first two experts, ranks 2 and 3 the others. Each has half of the rows and the whole bias.
  Lay lay{4, 1, 1, 2};
  lay.expert_tensor = 2;
  Param p = cut("experts", 16, 3, 0, 2), bias = cut("bias", 8, 1, -1, 2);
  p.rows = 4, p.expert_rows = 2, p.outer = 2;
  bias.rows = 4, bias.expert_rows = 2;
  p.replication = bias.replication = Replication::expert;
  World w(lay, ProgramMaker(lay).add(p).add(bias).unit(Replication::expert, 1).done());
  number(w);
  // Rank 3 has rows 2,3 of experts 2 and 3, rows 10,11 and 14,15, and the bias of both.
  CHECK(w.values(3, "weights", 0, 6) == std::vector<double>{30, 31, 32, 33, 34, 35});
  CHECK(w.values(3, "weights", 6, 6) == std::vector<double>{42, 43, 44, 45, 46, 47});
  CHECK(w.values(3, "weights", 12, 4) == std::vector<double>{1004, 1005, 1006, 1007});
  CHECK(numbered(w.gather("weights")));
  std::fill_n(w.buffer(3, "weights") + 12, 4, -1);  // the copy that does not count
  CHECK(numbered(w.gather("weights")));
  w.buffer(2, "weights")[12] = -1;
  CHECK_FALSE(numbered(w.gather("weights")));
}

TEST_CASE("Columns and whole rows of experts lie side by side and one after the other") {
  Lay lay{2, 2, 1, 2};
  Param columns = cut("columns", 8, 6, 1, 2), bias = cut("bias", 8, 1, -1, 2);
  columns.rows = 4, columns.expert_rows = 2;
  bias.rows = 4, bias.expert_rows = 2;
  columns.replication = bias.replication = Replication::expert;
  World w(lay, ProgramMaker(lay).add(columns).add(bias).unit(Replication::expert, 1).done());
  number(w);
  CHECK(w.values(3, "weights", 0, 6) == std::vector<double>{27, 28, 29, 33, 34, 35});  // columns 3..5 of rows 4 and 5
  CHECK(w.values(3, "weights", 12, 4) == std::vector<double>{1004, 1005, 1006, 1007});
  CHECK(numbered(w.gather("weights")));
}

TEST_CASE("Experts that a sharding group holds twice are shared by two ranks of it, and the other group has the same parts") {
  // 2 experts of 4 x 3 over an expert group of 2 on 8 data ranks: four copies of each, in two groups of four data ranks.
  Lay lay{1, 8, 1, 2};
  lay.expert_shard = 2;
  Param p = cut("experts", 8, 3, -1, 1);
  p.rows = 4, p.expert_rows = 4, p.outer = 4;
  p.replication = Replication::expert;
  World w(lay, ProgramMaker(lay).add(p).unit(p.replication, 2).done());
  number(w);
  CHECK(numbered(w.gather("master")));
  // Expert 1 lies on the odd ranks: 1 and 5 update its first half, 3 and 7 its second one.
  const auto pieces = [&](int r) { return param_pieces(w.program, rank_state(w.program, w.mesh, Rank(r), nullptr).seat); };
  for (const int r : {1, 3, 5, 7}) {
    REQUIRE(pieces(r).size() == 1);
    CHECK(pieces(r)[0].first == (r % 4 == 1 ? 0 : 6));
    CHECK(pieces(r)[0].count == 6);
  }
}
