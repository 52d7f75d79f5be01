// Rows that experts get, counted by hand.

#include "models/graph/routing.hpp"

#include <set>

#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;

namespace {

/// Two data ranks that hold two of four experts each; layer 3, micro-batch 1.
Routing two_ranks() {
  Mesh mesh({1, 1, 1, 2, 1}, "tp-cp-ep-dp-pp", {2, 1, 1, {}});
  return {std::move(mesh), {{{3, 1, {5, 1, 0, 2}}}, {{3, 1, {0, 0, 7, 1}}}}};
}

Instance instance(std::int32_t layer, std::int32_t micro_batch) {
  Instance i;
  i.layer = layer;
  i.micro_batch = micro_batch;
  return i;
}

}  // namespace

TEST_CASE("rows go from the ranks that chose to the ranks that hold the experts") {
  const Routing r = two_ranks();
  const Rank a(0), b(1);
  CHECK(r.rows(a, a, 3, 1) == 6);
  CHECK(r.rows(a, b, 3, 1) == 2);
  CHECK(r.rows(b, a, 3, 1) == 0);
  CHECK(r.rows(b, b, 3, 1) == 8);
  CHECK(r.rows_of(a, 3, 1) == 6);
  CHECK(r.rows_of(b, 3, 1) == 10);
  CHECK(r.work_of(b) == std::vector<std::int64_t>{10});
  CHECK_THROWS_AS(r.rows(a, b, 3, 0), ContractError);
}

TEST_CASE("products of unequal rows get the rows of their rank, other operations stay as they are") {
  const Routing r = two_ranks();
  const GroupedMatMul planned{2, 2, 8, 5, 7, true, true};
  CHECK(matrix_flops(r.sized(planned, Rank(1), instance(3, 1))) == Flops(2 * 10 * 5 * 7));
  CHECK(matrix_flops(r.sized(GroupedWeightGrad{2, 2, 8, 5, 7, true}, Rank(0), instance(3, 1))) == Flops(2 * 6 * 5 * 7));
  const GroupedMatMul own{1, 4, 8, 5, 7, true, true}, even{4, 2, 4, 5, 7};
  for (const Op& op : {Op(planned), Op(own), Op(even), Op(MatMul{2, 3, 4})}) {
    const bool follows = std::get_if<GroupedMatMul>(&op) && std::get<GroupedMatMul>(op).groups == 2;
    CHECK(follows_routing(op) == follows);
    if (!follows) CHECK(matrix_flops(r.sized(op, Rank(1), instance(0, 0))) == matrix_flops(op));
  }
}

TEST_CASE("an exchange brings a rank what the others send it, there and back") {
  const Routing r = two_ranks();
  Collective rows{CollectiveKind::all_to_all, Group::expert, 8 * 10, DType::fp32, Reduce::sum, 10};
  CHECK(r.received(rows, Rank(0), instance(3, 1)) == Bytes(0));
  CHECK(r.received(rows, Rank(1), instance(3, 1)) == Bytes(2 * 10 * 4));
  rows.back = true;
  CHECK(r.received(rows, Rank(0), instance(3, 1)) == Bytes(2 * 10 * 4));
  CHECK(r.received(rows, Rank(1), instance(3, 1)) == Bytes(0));
  const Collective equal{CollectiveKind::all_to_all, Group::expert, 4, DType::int32};
  CHECK(r.received(equal, Rank(1), instance(3, 1)) == Bytes(2 * 4));
}

TEST_CASE("tensor ranks with rows of their own multiply what all of them get") {
  // Tensor fastest: ranks 0 and 1 are one data rank, 2 and 3 the other; expert rank 0 holds the experts 0 and 1.
  const Routing r{Mesh({2, 1, 1, 2, 1}, "tp-cp-ep-dp-pp", {2, 1, 1, {}}),
                  {{{3, 1, {5, 1, 0, 2}}}, {{3, 1, {1, 3, 2, 2}}}, {{3, 1, {0, 0, 7, 1}}}, {{3, 1, {4, 0, 0, 4}}}}};
  CHECK(r.rows_of(Rank(0), 3, 1) == 6);
  CHECK(r.rows_of(Rank(1), 3, 1) == 8);
  CHECK(r.work_of(Rank(0)) == std::vector<std::int64_t>{14});
  CHECK(r.work_of(Rank(3)) == std::vector<std::int64_t>{18});
  const GroupedMatMul gathered{4, 2, 16, 5, 7, true, true}, own{2, 2, 8, 5, 7, true, true};
  CHECK(matrix_flops(r.sized(gathered, Rank(1), instance(3, 1))) == Flops(2 * 14 * 5 * 7));
  CHECK(matrix_flops(r.sized(own, Rank(1), instance(3, 1))) == Flops(2 * 8 * 5 * 7));
  const Collective gather{CollectiveKind::all_gather, Group::tensor, 16 * 10, DType::fp32, Reduce::sum, 10};
  Collective scatter = gather;
  scatter.kind = CollectiveKind::reduce_scatter;
  CHECK(follows_routing(gather));
  CHECK(payload(r.sized(gather, Rank(1), instance(3, 1))) == Bytes(14 * 10 * 4));
  CHECK(r.received(gather, Rank(0), instance(3, 1)) == Bytes(8 * 10 * 4));
  CHECK(r.received(gather, Rank(1), instance(3, 1)) == Bytes(6 * 10 * 4));
  CHECK(r.received(scatter, Rank(0), instance(3, 1)) == Bytes(6 * 10 * 4));
  CHECK(r.received(scatter, Rank(1), instance(3, 1)) == Bytes(8 * 10 * 4));
}

TEST_CASE("every phase and every stream has a name of its own") {
  std::set<std::string_view> names;
  for (int p = 0; p <= static_cast<int>(Phase::gather); ++p) names.insert(name(static_cast<Phase>(p)));
  CHECK(names.size() == 7);
  names.insert("");
  for (std::size_t s = 0; s < kStreams; ++s) names.insert(name(static_cast<Stream>(s)));
  CHECK(names.size() == 7 + 1 + kStreams);
}
