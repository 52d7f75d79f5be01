// The rows of gathered tokens' choices, against the order in which an exchange would bring them.
#include <tuple>

#include "tests/exec/cpu/kernel_harness.hpp"

namespace tandem::exec::test {
namespace {

constexpr std::int64_t kTokens = 13, kExperts = 6, kTopK = 2, kMembers = 3;

/// What the routers of all members gave.
struct Members {
  std::vector<int> slots, counts;
};

Members routed(Kernels& kernels) {
  Members all;
  for (std::int64_t m = 0; m < kMembers; ++m) {
    const auto out = kernels.run(TopKRouter{{kTokens, 4, kExperts, kTopK, 0}},
                                 {real(random_values(kTokens * kExperts, static_cast<std::uint32_t>(m + 1)))},
                                 {result(kTokens * kExperts), result(kTokens * kTopK), integer_result(kTokens * kTopK),
                                  integer_result(kExperts)});
    for (const int s : as_integers(out[2])) all.slots.push_back(s);
    for (const int c : as_integers(out[3])) all.counts.push_back(c);
  }
  return all;
}

std::vector<Operand> operands(const Members& all) { return {integers(all.slots), integers(all.counts)}; }

/// The expert of a choice, by counting.
int expert_of(const Members& all, std::int64_t member, int slot) {
  int e = 0;
  for (int end = 0; e < kExperts; ++e)
    if (slot < (end += all.counts[static_cast<std::size_t>(member * kExperts + e)])) break;
  return e;
}

MoeDims dims(std::int64_t here, std::int64_t room) {
  MoeDims d{kTokens, 4, kExperts, kTopK, 0};
  d.here = here;
  d.room = room;
  return d;
}

}  // namespace

TEST_CASE("a rank gives its experts' choices rows in order of member, expert and token, and others none") {
  Kernels kernels(DType::fp64);
  const Members all = routed(kernels);
  for (const std::int64_t here : {1, 2, 3, 6})
    for (std::int64_t rank = 0; rank < kExperts / here; ++rank) {
      INFO(here << " experts on rank " << rank);
      kernels.context.expert_rank = static_cast<std::int32_t>(rank);
      const auto out = kernels.run(ExpertSlots{dims(here, kMembers * kTokens * kTopK), kMembers}, operands(all),
                                   {integer_result(kMembers * kTokens * kTopK), integer_result(kMembers * here)});
      const std::vector<int> placed = as_integers(out[0]), counts = as_integers(out[1]);
      std::vector<std::tuple<std::int64_t, int, int, std::size_t>> order;  // member, expert, slot there, choice
      for (std::size_t i = 0; i < placed.size(); ++i) {
        const auto member = static_cast<std::int64_t>(i) / (kTokens * kTopK);
        const int e = expert_of(all, member, all.slots[i]);
        if (e / here == rank) order.emplace_back(member, e, all.slots[i], i);
        else CHECK(placed[i] == -1);
      }
      std::sort(order.begin(), order.end());
      for (std::size_t row = 0; row < order.size(); ++row) CHECK(placed[std::get<3>(order[row])] == static_cast<int>(row));
      for (std::int64_t m = 0; m < kMembers; ++m)
        for (std::int64_t e = 0; e < here; ++e)
          CHECK(counts.at(static_cast<std::size_t>(m * here + e)) ==
                all.counts.at(static_cast<std::size_t>(m * kExperts + rank * here + e)));
    }
}

TEST_CASE("more rows than a rank's experts have room for are refused with the remedy") {
  Kernels kernels(DType::fp64);
  const Members all = routed(kernels);
  const auto place = [&](std::int64_t room) {
    kernels.run(ExpertSlots{dims(kExperts, room), kMembers}, operands(all),
                {integer_result(kMembers * kTokens * kTopK), integer_result(kMembers * kExperts)});
  };
  place(kMembers * kTokens * kTopK);
  CHECK_THROWS_WITH(place(kMembers * kTokens * kTopK - 1), Catch::Contains("raise model.moe.rows_bound"));
}

TEST_CASE("rows that other ranks have are neither copied nor summed") {
  Kernels kernels(DType::fp64);
  const MoeDims d = dims(2, 3);  // 13 tokens of 4, of whose 26 choices three are here
  std::vector<int> placed(kTokens * kTopK, -1);
  placed[3] = 0, placed[4] = 2, placed[20] = 1;
  const Values x = random_values(kTokens * 4, 1), weights = random_values(kTokens * kTopK, 2);
  const Values rows = kernels.one(MoeDispatch{d}, {real(x), integers(placed)}, 3 * 4);
  const Values y = kernels.one(MoeCombine{d}, {real(rows), integers(placed), real(weights)}, kTokens * 4);
  for (std::int64_t t = 0; t < kTokens; ++t)
    for (std::int64_t c = 0; c < 4; ++c) {
      double weight = 0;
      for (std::int64_t j = 0; j < kTopK; ++j) {
        const auto i = static_cast<std::size_t>(t * kTopK + j);
        if (placed[i] >= 0) weight += weights[i];
      }
      CHECK(y[static_cast<std::size_t>(t * 4 + c)] == weight * x[static_cast<std::size_t>(t * 4 + c)]);
    }
}

}  // namespace tandem::exec::test
