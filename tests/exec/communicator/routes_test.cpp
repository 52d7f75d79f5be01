// Collectives as messages between members, whole and in windows, against the same collective in one memory.
#include "exec/communicator/routes.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "models/ops/collective.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

constexpr float kUnset = -7;

struct Case {
  Collective op;
  std::size_t members;
  bool in_place = false;
  std::vector<OwnedRange> owned = {};
};

using Buffers = std::vector<std::vector<float>>;

Buffers inputs(const Case& c) {
  Buffers all(c.members, std::vector<float>(static_cast<std::size_t>(c.op.elements)));
  std::uint32_t x = 1;
  for (auto& v : all)
    for (float& e : v) x = x * 1664525u + 1013904223u, e = static_cast<float>(x >> 8) / 65536.0f;
  return all;
}

std::size_t out_elements(const Case& c) {
  const auto n = static_cast<std::size_t>(c.op.elements);
  return c.op.kind == CollectiveKind::reduce_scatter ? n / c.members : n;
}

std::vector<MemberBuffers> buffers(const Case& c, Buffers& in, Buffers& out) {
  std::vector<MemberBuffers> all;
  for (std::size_t j = 0; j < c.members; ++j)
    all.push_back({std::as_bytes(std::span(in[j])).data(), std::as_writable_bytes(std::span(c.in_place ? in[j] : out[j])).data(),
                   {}, c.owned});
  return all;
}

/// Messages in the order in which members that wait for each of their windows send them.
void pass(const std::vector<Routes>& routes, std::size_t members) {
  for (std::size_t from = 0; from < members; ++from)
    for (std::size_t to = 0; to < members; ++to) {
      if (from == to || routes[from].give.empty()) continue;
      const auto give = routes[from].give[to];
      const auto take = routes[to].take[from];
      REQUIRE(give.size() == take.size());
      if (!give.empty()) std::memcpy(take.data(), give.data(), give.size());
    }
}

/// What members have behind the collective; `most`: bytes of room that any of them took.
Buffers by_messages(const Case& c, std::size_t window, std::size_t& most) {
  Buffers in = inputs(c), out(c.members, std::vector<float>(out_elements(c), kUnset));
  const std::vector<MemberBuffers> all = buffers(c, in, out);
  std::vector<std::vector<std::byte>> rooms(c.members);
  std::vector<MessageSteps> ways;
  for (std::size_t j = 0; j < c.members; ++j)
    ways.push_back(message_steps({c.op, all}, j, [&](std::size_t bytes) {
      rooms[j].resize(bytes);
      most = std::max(most, bytes);
      return rooms[j].data();
    }, window));
  for (const MessageSteps& w : ways) perform(w.pack);
  std::size_t longest = 0;
  for (const MessageSteps& w : ways)
    for (std::size_t j = 0; j < c.members; ++j) longest = std::max({longest, w.own.size(), w.first.give[j].size()});
  for (std::size_t first = 0; first < longest; first += std::min(window, longest)) {
    std::vector<MessageSteps> parts;
    std::vector<Routes> routes;
    for (const MessageSteps& w : ways) parts.push_back(window_of(w, first, window)), routes.push_back(parts.back().first);
    pass(routes, c.members);
    for (std::size_t j = 0; j < c.members; ++j) {
      if (parts[j].folds && !parts[j].own.empty()) fold(parts[j], c.op, j);
      if (!parts[j].folds) copy_own(parts[j], j);
    }
  }
  std::vector<Routes> routes;
  for (const MessageSteps& w : ways) routes.push_back(w.second);
  pass(routes, c.members);
  for (const MessageSteps& w : ways) perform(w.unpack);
  return c.in_place ? in : out;
}

Buffers in_one_memory(const Case& c) {
  Buffers in = inputs(c), out(c.members, std::vector<float>(out_elements(c), kUnset));
  const std::vector<MemberBuffers> all = buffers(c, in, out);
  std::vector<std::int64_t> received(c.members);
  for (std::size_t j = 0; j < c.members; ++j) perform_share({c.op, all}, j, received);
  return c.in_place ? in : out;
}

Case of(CollectiveKind kind, std::size_t members, std::int64_t elements, bool in_place = false) {
  return {Collective{kind, Group::data, elements, DType::fp32, Reduce::sum}, members, in_place};
}

}  // namespace

TEST_CASE("collectives by messages have the bits of one memory, in windows too") {
  const std::size_t members = GENERATE(2, 3, 5);
  const auto n = static_cast<std::int64_t>(members);
  // Slices of unequal lengths, and less than a window for some members.
  const Case c = GENERATE_COPY(of(CollectiveKind::all_reduce, members, 30011), of(CollectiveKind::all_reduce, members, 30011, true),
                               of(CollectiveKind::all_reduce, members, 100), of(CollectiveKind::reduce_scatter, members, n * 7001),
                               of(CollectiveKind::all_gather, members, n * 64), of(CollectiveKind::all_to_all, members, n * 100));
  const Buffers expected = in_one_memory(c);
  for (const std::size_t window : {std::size_t{4}, std::size_t{4096}, std::size_t{65536}, SIZE_MAX}) {
    if (window == 4 && c.op.elements > 1000) continue;  // as many steps as elements
    INFO(name(c.op.kind) << " of " << c.op.elements << " over " << members << ", window " << window);
    std::size_t most = 0;
    CHECK((by_messages(c, window, most) == expected));
    if (window < SIZE_MAX / members) CHECK(most <= window * members);
  }
}

TEST_CASE("a gather of what members own gives all of them each range from its owner, and nothing between the ranges") {
  // Member 1 has ranges apart, member 2 none; elements 9 and 14 .. 15 belong to nobody.
  const Case c{Collective{CollectiveKind::all_gather, Group::shard, 16, DType::fp32}, 4, true,
               {{1, 0, 3}, {0, 3, 6}, {1, 10, 2}, {3, 12, 2}}};
  const Buffers before = inputs(c);
  Buffers expected = before;
  for (const OwnedRange& r : c.owned)
    for (auto& member : expected) std::copy_n(before[r.member].begin() + r.first, r.elements, member.begin() + r.first);
  CHECK((in_one_memory(c) == expected));
  std::size_t most = 0;
  CHECK((by_messages(c, SIZE_MAX, most) == expected));
  CHECK(most == 13 * sizeof(float));
  std::vector<std::int64_t> received(4);
  Buffers in = before, out = before;
  const auto all = buffers(c, in, out);
  for (std::size_t j = 0; j < 4; ++j) perform_share({c.op, all}, j, received);
  CHECK(received == std::vector<std::int64_t>{28, 32, 52, 44});
}
