// RCCL's choices against its tuning tables, written out again for one node of MI300X and by hand where vectors leave it.
#include "sim/nccl/rccl.hpp"

#include <algorithm>
#include <vector>

#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::sim;

namespace {

constexpr auto kCdna3 = NcclArchitecture::cdna3;
constexpr auto kCdna2 = NcclArchitecture::cdna2;

/// A collective on MI300X: each device has a link of 64 GB/s to every other one of its node, and a NIC of 50 GB/s.
NcclTask mi300x(CollectiveKind kind, std::int64_t nodes, std::int64_t per_node, std::int64_t bytes) {
  NcclTask t;
  t.kind = kind, t.nodes = nodes, t.ranks = nodes * per_node, t.bytes = bytes;
  const double n = static_cast<double>(t.ranks), times = kind == CollectiveKind::all_reduce ? 2 : 1;
  const double sent = times * (n - 1) / n * static_cast<double>(bytes);
  const double links = 64e9 * static_cast<double>(per_node - 1);
  t.inside_s = per_node > 1 ? sent / links : 0;
  t.across_s = nodes > 1 ? sent / (50e9 * static_cast<double>(per_node)) : 0;
  t.graphs = rccl_graphs({per_node, links, 0, nodes > 1 ? per_node : 0, nodes > 1 ? 50e9 : 0}, kCdna3);
  t.nics = nodes > 1 ? per_node : 1;
  return t;
}

struct Time {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
  double planned_us, real_us;
};

/// Rows of `tuning_model_5` for one node, in microseconds and bytes a microsecond, by LL, LL128, Simple.
std::vector<Time> on_one_node(CollectiveKind kind, int ranks, double bytes) {
  const double base[] = {12, 12, 17}, ring[] = {0.8, 0.8, 2.1}, ring_share[] = {0.08, 0.08, 1};
  const double tree[] = {0.9, 0.9}, tree_share[] = {0.06, 0.06}, useful[] = {0.5, 0.9375, 1};
  const double bus = 48e3 * (ranks - 1), links = 64e3 * (ranks - 1);
  const int steps = (kind == CollectiveKind::all_reduce ? 2 : 1) * (ranks - 1);
  std::vector<Time> out;
  for (int p = 0; p < 3; ++p) {
    const double latency = base[p] + steps * ring[p], moved = bytes * steps / ranks;
    out.push_back({NcclAlgorithm::ring, static_cast<NcclProtocol>(p), latency + moved / (bus * ring_share[p]),
                   latency + moved / (links * useful[p])});
  }
  if (kind == CollectiveKind::all_reduce)
    for (int p = 0; p < 2; ++p)
      out.push_back({NcclAlgorithm::tree, static_cast<NcclProtocol>(p),
                     base[p] + 2 * (ranks - 1) * tree[p] + 2 * bytes / (bus * tree_share[p]), 0});
  return out;
}

}  // namespace

TEST_CASE("RCCL is the library of AMD's generations alone") {
  using enum NcclArchitecture;
  CHECK(nccl_architecture("cdna2") == kCdna2);
  CHECK(nccl_architecture("cdna3") == kCdna3);
  for (const auto a : {volta, ampere, hopper, blackwell}) CHECK_FALSE(is_rccl(a));
  CHECK((is_rccl(kCdna2) && is_rccl(kCdna3)));
  CHECK_THROWS_AS(rccl_choice(mi300x(CollectiveKind::all_reduce, 1, 8, 1024), hopper), ContractError);
}

TEST_CASE("RCCL plans with rings over every link of a mesh, at three quarters of their rates") {
  const NcclGraphs eight = rccl_graphs({8, 7 * 64e9, 0, 0, 0}, kCdna3), two = rccl_graphs({2, 64e9, 0, 0, 0}, kCdna3);
  CHECK(eight.channels == 28);  // rome_model_79
  CHECK(eight.ring * 28 == Approx(336e9));
  CHECK(two.channels == 4);
  CHECK(two.ring * 4 == Approx(48e9));
  CHECK(rccl_graphs({1, 0, 0, 1, 50e9}, kCdna3).ring * 32 == Approx(50e9));
  CHECK(rccl_graphs({8, 200e9, 4, 0, 0}, kCdna2).channels == 16);  // 32 once doubled, MI250X's most
  CHECK(rccl_graphs({8, 200e9, 0, 4, 25e9}, kCdna2).channels == 16);
}

TEST_CASE("on a node of MI300X the least of RCCL's table is taken") {
  for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather})
    for (const int ranks : {2, 4, 8})
      for (std::int64_t bytes = 64; bytes < std::int64_t{1} << 35; bytes *= 5) {
        const std::vector<Time> table = on_one_node(kind, ranks, static_cast<double>(bytes));
        const Time least =
            *std::min_element(table.begin(), table.end(), [](const Time& a, const Time& b) { return a.planned_us < b.planned_us; });
        const NcclTask t = mi300x(kind, 1, ranks, bytes);
        const NcclChoice chosen = rccl_choice(t, kCdna3);
        CAPTURE(ranks, bytes);
        CHECK(chosen.algorithm == least.algorithm);
        CHECK(chosen.protocol == least.protocol);
        if (chosen.algorithm == NcclAlgorithm::ring) CHECK(chosen.seconds(t) * 1e6 == Approx(least.real_us));
        CHECK(rccl_fastest(t, kCdna3).seconds(t) <= chosen.seconds(t));
      }
}

TEST_CASE("between nodes of MI300X RCCL's limits choose the protocol") {
  using enum NcclProtocol;
  struct Case {
    CollectiveKind kind;
    std::int64_t nodes, bytes;  // of the whole vector
    NcclProtocol protocol;
  };
  using enum CollectiveKind;
  const auto c = GENERATE(values<Case>({{all_reduce, 2, 524288, ll},
                                        {all_reduce, 2, 524289, ll128},
                                        {all_reduce, 2, 4415057, ll128},
                                        {all_reduce, 2, 4415058, simple},
                                        {all_reduce, 4, 16 << 20, ll128},  // 3.8 times as many
                                        {all_reduce, 4, 17 << 20, simple},
                                        {all_gather, 2, 16 * 98304, ll},
                                        {all_gather, 2, 16 * 5046272, ll128},
                                        {all_gather, 2, 16 * 5046273, simple},
                                        {reduce_scatter, 2, 16 * 131072, ll},
                                        {reduce_scatter, 2, 16 * 131073, ll128},
                                        {reduce_scatter, 2, 16 * 3211265, simple},
                                        {reduce_scatter, 1, 8 * 352128, ll}}));
  CAPTURE(static_cast<int>(c.kind), c.nodes, c.bytes);
  CHECK(rccl_choice(mi300x(c.kind, c.nodes, 8, c.bytes), kCdna3).protocol == c.protocol);
}

TEST_CASE("RCCL has rings and trees alone, and a plan may keep it to one of them") {
  for (const auto a : {kCdna2, kCdna3})
    for (const std::int64_t nodes : {1, 2, 16})
      for (std::int64_t bytes = 1024; bytes < std::int64_t{1} << 34; bytes *= 16) {
        NcclTask t = mi300x(CollectiveKind::all_reduce, nodes, 8, bytes);
        t.network_reduces = true;
        const auto any = rccl_choice(t, a).algorithm;
        CHECK((any == NcclAlgorithm::ring || any == NcclAlgorithm::tree));
        CHECK(rccl_choice(t, a).seconds(t) > 0);
        t.only_ring = t.only_simple = true;
        const NcclChoice ring = rccl_choice(t, a);
        CHECK((ring.algorithm == NcclAlgorithm::ring && ring.protocol == NcclProtocol::simple));
      }
}

TEST_CASE("a ring of two nodes of 8 MI300X takes the steps of NCCL's between them") {
  const NcclTask t = mi300x(CollectiveKind::all_reduce, 2, 8, std::int64_t{1} << 30);
  const NcclChoice chosen = rccl_choice(t, kCdna3);
  REQUIRE(chosen.algorithm == NcclAlgorithm::ring);
  // 17 us, 28 steps of 2.1 us inside nodes and 2 of 14 us between them
  CHECK(chosen.latency_s * 1e6 == Approx(17 + 28 * 2.1 + 2 * 14));
  CHECK(chosen.rate == Approx(1));
}
