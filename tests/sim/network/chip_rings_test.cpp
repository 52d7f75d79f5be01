// Collectives of whole chips of a torus against their closed form.
#include "sim/network/chip_rings.hpp"

#include <numeric>

#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/fakes.hpp"
#include "tests/sim/engine/graphs.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

std::shared_ptr<const Topology> trn1(std::int64_t cores) {
  ClusterSpec spec;
  spec.preset = "trn1.32xlarge";
  spec.devices = cores;
  return make_topology(spec);
}

std::vector<Rank> ranks(std::int32_t first, std::int32_t count, std::int32_t step = 1) {
  std::vector<Rank> out;
  for (std::int32_t i = 0; i < count; ++i) out.push_back(Rank(first + i * step));
  return out;
}

}  // namespace

TEST_CASE("a trn1 is sixteen chips with four ways each, a row of it four chips with two, two chips one way each") {
  const auto t = trn1(32);
  const auto whole = chip_rings(*t, ranks(0, 32)), row = chip_rings(*t, ranks(0, 8)), pair = chip_rings(*t, ranks(0, 4));
  REQUIRE((whole && row && pair));
  CHECK((whole->chips == 16 && whole->ways == 4 && whole->links.size() == 64));
  CHECK((row->chips == 4 && row->ways == 2 && row->links.size() == 8));
  CHECK((pair->chips == 2 && pair->ways == 1 && pair->links.size() == 2));
}

TEST_CASE("split chips, uneven pieces of the torus and groups over nodes have no rings of chips") {
  const auto t = trn1(64);
  CHECK_FALSE(chip_rings(*t, ranks(0, 16, 2)));   // one core of each chip
  CHECK_FALSE(chip_rings(*t, ranks(0, 6)));       // three chips of a row: its ends are not joined
  CHECK_FALSE(chip_rings(*t, ranks(0, 16)));      // two rows: three ways, no pair of cycles
  CHECK_FALSE(chip_rings(*t, ranks(0, 64)));      // two nodes
  CHECK_FALSE(chip_rings(*t, ranks(0, 2)));       // one chip
}

TEST_CASE("rings over a torus take 2 (n-1)/n S / (links x B) and a hop a step") {
  const auto t = trn1(32);
  const std::int64_t cores = GENERATE(4, 8, 32), bytes = std::int64_t{1} << 26;
  const auto kind = GENERATE(CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter);
  const auto rings = chip_rings(*t, ranks(0, static_cast<std::int32_t>(cores)));
  REQUIRE(rings);
  GraphBuilder graph(1);
  graph.add(0, graph.one("collective", Stream::tensor, Collective{kind, Group::tensor, bytes / 2, DType::bf16, Reduce::sum}));
  const TaskGraph g = graph.take();
  const Mesh m = mesh(cores, 1, 1);
  const FakeCost cost;
  const double n = static_cast<double>(rings->chips), times = kind == CollectiveKind::all_reduce ? 2 : 1;
  const double wire = times * (n - 1) / n * static_cast<double>(bytes) / (static_cast<double>(rings->ways) * 48e9);
  const double expected = wire + times * (n - 1) * rings->hop.seconds();
  const ClusterSpec spec = [&] { ClusterSpec s; s.preset = "trn1.32xlarge"; s.devices = cores; return s; }();
  const auto part = make_topology(spec);
  CHECK(simulate_step({g, m, *part, cost}, {}).step_time.seconds() == Approx(expected).epsilon(1e-6));
}
