#include "models/ops/token_copies.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>

#include "models/ops/collective.hpp"
#include "models/ops/collective_bytes.hpp"
#include "tests/catch.hpp"

using namespace tandem;

namespace {

/// By counting: every choice of groups, and of experts among them, is as likely.
double counted(const TokenCopies& c, std::int64_t parts) {
  const std::int64_t of_group = c.experts / c.groups, of_part = c.experts / parts;
  std::int64_t choices = 0;
  double visits = 0;
  for (std::uint32_t groups = 0; groups < 1u << c.groups; ++groups) {
    if (std::popcount(groups) != c.groups_per_token) continue;
    for (std::uint32_t experts = 0; experts < 1u << c.experts; ++experts) {
      if (std::popcount(experts) != c.per_token) continue;
      std::set<std::int64_t> seen;
      bool allowed = true;
      for (std::int64_t e = 0; e < c.experts; ++e) {
        if ((experts >> e & 1) == 0) continue;
        allowed = allowed && (groups >> (e / of_group) & 1) == 1;
        seen.insert(e / of_part);
      }
      if (!allowed) continue;
      ++choices;
      visits += static_cast<double>(seen.size());
    }
  }
  return visits / static_cast<double>(choices) / static_cast<double>(parts);
}

Collective sent(std::int64_t tokens, const TokenCopies& copies) {
  Collective op{CollectiveKind::all_to_all, Group::expert, tokens * copies.per_token, DType::bf16};
  op.copies = copies;
  return op;
}

GroupShape grid(std::int32_t nodes, std::int32_t per_node) {
  GroupShape shape;
  for (std::int32_t n = 0; n < nodes; ++n) shape.node.insert(shape.node.end(), static_cast<std::size_t>(per_node), n);
  return shape;
}

/// Bytes that the first member sends in phases of `tier`.
std::int64_t sent_by_first(const Expansion& e, Tier tier) {
  std::int64_t bytes = 0;
  for (const CommPhase& p : e.phases)
    for (const Flow& f : p.flows) bytes += p.tier == tier && f.from == 0 ? p.steps * p.bytes.count() : 0;
  return bytes;
}

}  // namespace

TEST_CASE("the share of tokens that visit a part is what counting all choices gives") {
  for (const std::int64_t groups : {1, 2, 4, 6})
    for (std::int64_t kept = 1; kept <= groups; ++kept)
      for (const std::int64_t per_token : {1, 2, 3}) {
        const TokenCopies c{12, per_token, groups, kept};
        if (kept * (c.experts / groups) < per_token) continue;
        for (const std::int64_t parts : {1, 2, 3, 4, 6, 12}) {
          INFO(groups << " groups, " << kept << " kept, " << per_token << " a token, " << parts << " parts");
          CHECK(share_that_visits(c, parts) == Approx(counted(c, parts)).epsilon(1e-12));
        }
      }
}

TEST_CASE("DeepSeek-V3's tokens visit at most four of eight nodes") {
  const TokenCopies c{256, 8, 8, 4};
  CHECK(8 * share_that_visits(c, 8) <= 4);
  CHECK(8 * share_that_visits(c, 8) == Approx(3.63).margin(0.01));    // four nodes, of which a tenth get no expert of a token
  CHECK(64 * share_that_visits(c, 64) == Approx(7.36).margin(0.01));  // eight experts, of which some share a rank
  const TokenCopies free{256, 8};
  CHECK(8 * share_that_visits(free, 8) == Approx(5.29).margin(0.01));
}

TEST_CASE("a copy crosses between two nodes once, and reaches every rank that asks for it") {
  const std::int64_t tokens = 1 << 20;
  const TokenCopies c{256, 8, 8, 4, DType::fp8};
  const Expansion e = expand(sent(tokens, c), Algorithm::direct, grid(8, 8));
  REQUIRE(e.phases.size() == 2);
  CHECK(e.pipelined);
  CHECK(sent_by_first(e, Tier::across) == Approx(7 * share_that_visits(c, 8) * tokens).epsilon(1e-5));
  CHECK(sent_by_first(e, Tier::inside) == Approx(8 * 7 * share_that_visits(c, 64) * tokens).epsilon(1e-5));
  for (const CommPhase& p : e.phases)
    for (const Flow& f : p.flows) CHECK((f.from / 8 == f.to / 8) == (p.tier == Tier::inside));
}

TEST_CASE("copies in 8 bits with scales by tiles carry four bytes more for 128 elements") {
  const std::int64_t tokens = 1 << 20;
  const auto bytes = [&](DType t) {
    return expand(sent(tokens, {16, 1, 1, 1, t}), Algorithm::direct, grid(1, 8)).phases.at(0).bytes;
  };
  CHECK(bytes(DType::fp8) == Bytes(tokens / 8));
  CHECK(bytes(DType::fp8_block) == Bytes(tokens / 8 + 4 * (tokens / 8 / 128)));
  CHECK(bytes(DType::mxfp8) == Bytes(tokens / 8 + tokens / 8 / 32));
}

TEST_CASE("copies weigh what rows weigh where a token has one expert") {
  const TokenCopies one{16, 1};
  Collective rows = sent(1 << 16, one);
  rows.copies = {};
  const auto whole = [](const Expansion& e) {
    std::int64_t bytes = 0;
    for (const CommPhase& p : e.phases) bytes += p.steps * p.bytes.count() * static_cast<std::int64_t>(p.flows.size());
    return bytes;
  };
  const GroupShape node = grid(1, 8);
  CHECK(whole(expand(sent(1 << 16, one), Algorithm::direct, node)) == whole(expand(rows, Algorithm::direct, node)));
}

TEST_CASE("copies go to each rank where nodes have one member or unlike numbers") {
  const TokenCopies c{12, 3};
  for (const GroupShape& shape : {grid(6, 1), GroupShape{{0, 0, 0, 1, 1, 2}, {}}}) {
    const Expansion e = expand(sent(12000, c), Algorithm::direct, shape);
    REQUIRE(e.phases.size() == 1);
    CHECK(e.phases.front().flows.size() == 30);
    CHECK(e.phases.front().bytes == Bytes(2 * std::llround(12000 * share_that_visits(c, 6))));
  }
}

TEST_CASE("a group of one sends no copies") { CHECK(expand(sent(100, {8, 2}), Algorithm::direct, grid(1, 1)).phases.empty()); }
