// Collectives of whole chips of a torus against their closed form.
#include "sim/network/chip_rings.hpp"

#include <map>
#include <numeric>
#include <set>

#include "sim/engine/simulate_step.hpp"
#include "tests/catch.hpp"
#include "tests/sim/engine/fakes.hpp"
#include "tests/sim/engine/graphs.hpp"

using namespace tandem;
using namespace tandem::sim;
using namespace tandem::sim::test;

namespace {

std::shared_ptr<const Topology> nodes_of(const std::string& preset, std::int64_t cores) {
  ClusterSpec spec;
  spec.preset = preset;
  spec.devices = cores;
  return make_topology(spec);
}

std::shared_ptr<const Topology> trn1(std::int64_t cores) { return nodes_of("trn1.32xlarge", cores); }

std::vector<Rank> ranks(std::int32_t first, std::int32_t count, std::int32_t step = 1) {
  std::vector<Rank> out;
  for (std::int32_t i = 0; i < count; ++i) out.push_back(Rank(first + i * step));
  return out;
}

/// The ends of every link between chips, as their first cores.
std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> ends(const Topology& t) {
  std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> out;
  const auto step = static_cast<std::int32_t>(t.cores_per_chip());
  for (std::int32_t a = 0; a < t.devices_per_node(); a += step)
    for (std::int32_t b = 0; b < t.devices_per_node(); b += step)
      if (const auto route = t.route(DeviceId(a), DeviceId(b)); route.size() == 3) out[route[1]] = {a, b};
  return out;
}

/// Whether the links, each used once, leave every chip `ways` times, enter it as often, and join all of them.
bool goes_round(const Topology& t, const ChipRings& rings) {
  const auto all = ends(t);
  std::map<std::int32_t, std::vector<std::int32_t>> out, in;
  for (const std::int32_t link : rings.links) {
    out[all.at(link).first].push_back(all.at(link).second);
    in[all.at(link).second].push_back(all.at(link).first);
  }
  for (const auto* sides : {&out, &in})
    for (const auto& [chip, others] : *sides)
      if (static_cast<std::int64_t>(others.size()) != rings.ways) return false;
  std::vector<std::int32_t> reached{out.begin()->first};
  std::set<std::int32_t> seen(reached.begin(), reached.end());
  for (std::size_t i = 0; i < reached.size(); ++i)
    for (const std::int32_t to : out[reached[i]])
      if (seen.insert(to).second) reached.push_back(to);
  return static_cast<std::int64_t>(reached.size()) == rings.chips &&
         std::set(rings.links.begin(), rings.links.end()).size() == rings.links.size();
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

TEST_CASE("half a torus has one cycle through all its chips, in both directions") {
  const auto t = nodes_of("trn2.48xlarge", 64);
  for (const std::int32_t chips : {6, 8, 12}) {  // a row and a half, two rows, three
    CAPTURE(chips);
    const auto rings = chip_rings(*t, ranks(0, 4 * chips));
    REQUIRE(rings);
    CHECK((rings->chips == chips && rings->ways == 2 && rings->links.size() == 2 * static_cast<std::size_t>(chips)));
    CHECK(goes_round(*t, *rings));
  }
}

TEST_CASE("two planes of a three-dimensional torus have two cycles that share no link, the whole three") {
  const auto t = nodes_of("trn2-ultraserver", 256);
  const auto plane = chip_rings(*t, ranks(0, 64)), two = chip_rings(*t, ranks(0, 128)), whole = chip_rings(*t, ranks(0, 256));
  REQUIRE((plane && two && whole));
  CHECK((plane->ways == 4 && two->ways == 4 && whole->ways == 6));
  const auto three = chip_rings(*t, ranks(0, 192));
  REQUIRE(three);
  CHECK((three->ways >= 2 && goes_round(*t, *three)));  // inner chips have six ways, outer ones five
  CHECK((goes_round(*t, *plane) && goes_round(*t, *two) && goes_round(*t, *whole)));
}

TEST_CASE("split chips, uneven pieces of the torus and groups over nodes have no rings of chips") {
  const auto t = trn1(64);
  CHECK_FALSE(chip_rings(*t, ranks(0, 16, 2)));   // one core of each chip
  CHECK_FALSE(chip_rings(*t, ranks(0, 6)));       // three chips of a row: its ends are not joined
  CHECK_FALSE(chip_rings(*t, ranks(0, 10)));      // a row and one chip: no cycle goes through it
  std::vector<Rank> apart = ranks(0, 8);
  for (const Rank r : ranks(16, 8)) apart.push_back(r);
  CHECK_FALSE(chip_rings(*t, apart));             // two rows that are no neighbours
  CHECK_FALSE(chip_rings(*t, ranks(0, 64)));      // two nodes
  CHECK_FALSE(chip_rings(*t, ranks(0, 2)));       // one chip
}

TEST_CASE("rings over a torus take 2 (n-1)/n S / (links x B) and a hop a step") {
  const auto t = trn1(32);
  const std::int64_t cores = GENERATE(4, 8, 16, 32), bytes = std::int64_t{1} << 26;
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
