// Every collective against its definition, done serially: where the members' buffers lie apart and where they may share bytes.
#include <algorithm>
#include <numeric>

#include "tests/catch.hpp"
#include "tests/exec/communicator/on_ranks.hpp"

using namespace tandem;
using namespace tandem::exec;
using namespace tandem::exec::tests;

namespace {

template <class T>
using Vectors = std::vector<std::vector<T>>;  // by member

/// ((b0 + b1) + b2) + ... element by element.
template <class T>
std::vector<T> left_fold(const Vectors<T>& all, Reduce reduce) {
  std::vector<T> sum = all[0];
  for (std::size_t j = 1; j < all.size(); ++j)
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] = reduce == Reduce::sum ? static_cast<T>(sum[i] + all[j][i]) : std::max(sum[i], all[j][i]);
  return sum;
}

template <class T>
std::vector<T> share(const std::vector<T>& whole, std::size_t n, std::size_t r) {
  const auto size = static_cast<std::ptrdiff_t>(whole.size() / n), at = static_cast<std::ptrdiff_t>(r) * size;
  return {whole.begin() + at, whole.begin() + at + size};
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) { to.insert(to.end(), more.begin(), more.end()); }

/// The oracle: what member `r` of all is to get.
template <class T>
std::vector<T> expected(const Collective& op, const Vectors<T>& given, std::size_t r) {
  const auto n = given.size();
  std::vector<T> got;
  switch (op.kind) {
    case CollectiveKind::all_reduce: return left_fold(given, op.reduce);
    case CollectiveKind::broadcast: return given[0];
    case CollectiveKind::reduce_scatter: return share(left_fold(given, op.reduce), n, r);
    case CollectiveKind::shift: return given[r == 0 ? n - 1 : r - 1];
    case CollectiveKind::all_gather:
      for (const auto& v : given) append(got, v);
      return got;
    case CollectiveKind::all_to_all:
      for (const auto& v : given) append(got, share(v, n, r));
      return got;
  }
  return got;
}

bool has_shares_in(CollectiveKind k) { return k == CollectiveKind::all_gather; }
bool has_shares_out(CollectiveKind k) { return k == CollectiveKind::reduce_scatter; }

enum class Place { apart, inside, same };

/// One member's memory: what it gives and gets, which may be part of one another.
template <class T>
struct Member {
  std::vector<T> a, b;
  T *in, *out;

  Member(const std::vector<T>& given, std::size_t got, std::size_t index, Place place) : a(given), b(got, T{77}) {
    in = a.data(), out = b.data();
    if (place == Place::same) out = in;
    if (place == Place::inside && got > given.size()) {  // a share at its place in the whole
      in = b.data() + index * given.size();
      std::copy(given.begin(), given.end(), in);
    }
    if (place == Place::inside && got < given.size()) out = a.data() + index * got;
  }
  std::vector<T> result(std::size_t got) const { return {out, out + got}; }
};

template <class T>
struct Done {
  std::vector<Member<T>> members;
  std::vector<std::unique_ptr<Communicator>> comms;
};

template <class T>
Done<T> perform(const Collective& op, const Vectors<T>& given, Place place) {
  const auto n = static_cast<int>(given.size());
  const auto got = static_cast<std::size_t>(has_shares_out(op.kind) ? op.elements / n : op.elements);
  Done<T> done{{}, make_thread_communicators(n)};
  for (std::size_t i = 0; i < given.size(); ++i) done.members.emplace_back(given[i], got, i, place);
  const auto errors = on_ranks(n, [&](int r) {
    const auto i = static_cast<std::size_t>(r);
    auto& m = done.members[i];
    done.comms[i]->run(op, ranks(n), reinterpret_cast<const std::byte*>(m.in), reinterpret_cast<std::byte*>(m.out));
  });
  for (const auto& e : errors) REQUIRE(e == "");
  return done;
}

template <class T>
Vectors<T> given_for(const Collective& op, int n) {
  return values<T>(n, has_shares_in(op.kind) ? op.elements / n : op.elements);
}

using Case = std::pair<CollectiveKind, Place>;

/// Every way in which buffers may lie.
std::vector<Case> cases() {
  return {{CollectiveKind::all_reduce, Place::same},      {CollectiveKind::broadcast, Place::same},
          {CollectiveKind::all_gather, Place::apart},     {CollectiveKind::all_gather, Place::inside},
          {CollectiveKind::reduce_scatter, Place::apart}, {CollectiveKind::reduce_scatter, Place::inside},
          {CollectiveKind::all_to_all, Place::apart},     {CollectiveKind::shift, Place::apart}};
}

constexpr std::int64_t kSmall = 24, kLarge = 24 * 1501;  // both sides of the one-thread limit, for 1, 2, 3, 4 and 8 members

}  // namespace

TEMPLATE_TEST_CASE("Every collective gives every member what its definition says, bit for bit", "[tsan]", float, double,
                   std::int32_t, std::int64_t) {
  const int n = GENERATE(1, 2, 3, 4, 8);
  const std::int64_t elements = GENERATE(0, kSmall, kLarge);
  for (const auto& [kind, place] : cases()) {
    const Collective op{kind, Group::world, elements, dtype<TestType>()};
    const auto given = given_for<TestType>(op, n);
    const auto done = perform(op, given, place);
    INFO("kind " << static_cast<int>(kind) << " place " << static_cast<int>(place));
    for (std::size_t r = 0; r < given.size(); ++r) {
      const auto want = expected(op, given, r);
      REQUIRE(same_bits(done.members[r].result(want.size()), want));
    }
  }
}

TEMPLATE_TEST_CASE("Reductions take sums and maxima over any number of elements", "", float, double, std::int32_t,
                   std::int64_t) {
  const int n = GENERATE(2, 3, 5, 8);
  const auto reduce = GENERATE(Reduce::sum, Reduce::max);
  const std::int64_t elements = GENERATE(1, 7, 1031, 20011);  // an all-reduce need not divide
  const Collective all{CollectiveKind::all_reduce, Group::world, elements, dtype<TestType>(), reduce};
  const Collective part{CollectiveKind::reduce_scatter, Group::world, elements * n, dtype<TestType>(), reduce};
  for (const auto& op : {all, part}) {
    const auto given = given_for<TestType>(op, n);
    const auto done = perform(op, given, op.kind == CollectiveKind::all_reduce ? Place::same : Place::inside);
    for (std::size_t r = 0; r < given.size(); ++r) {
      const auto want = expected(op, given, r);
      REQUIRE(same_bits(done.members[r].result(want.size()), want));
    }
  }
}

TEST_CASE("The serial left fold of the oracle differs from other orders on the values used") {
  auto all = values<float>(4, 1031);
  const auto ascending = left_fold(all, Reduce::sum);
  std::reverse(all.begin(), all.end());
  REQUIRE_FALSE(same_bits(ascending, left_fold(all, Reduce::sum)));
}

TEST_CASE("What a member gives is left as it was, but for the share that a reduce-scatter puts there") {
  const int n = GENERATE(2, 3, 8);
  const std::int64_t elements = GENERATE(kSmall, kLarge);
  for (const auto& [kind, place] : cases()) {
    if (place == Place::same) continue;
    const Collective op{kind, Group::world, elements, DType::fp64};
    const auto given = given_for<double>(op, n);
    const auto done = perform(op, given, place);
    for (std::size_t r = 0; r < given.size(); ++r) {
      auto want = given[r];
      const auto got = expected(op, given, r);
      if (kind == CollectiveKind::reduce_scatter && place == Place::inside)
        std::copy(got.begin(), got.end(), want.begin() + static_cast<std::ptrdiff_t>(r * got.size()));
      REQUIRE(same_bits(done.members[r].a, want));
    }
  }
}

TEST_CASE("Bytes received add up to the bus traffic that nccl-tests states for each collective") {
  const int n = GENERATE(2, 3, 4, 7, 8);
  const std::int64_t elements = GENERATE(168, 84000);  // divisible by every n
  const std::int64_t payload = elements * 4;
  for (const auto& [kind, place] : cases()) {
    // All ranks together: all-reduce 2(n-1)/n each, a shift all of it each, broadcast payload to all but one, others (n-1)/n.
    const std::int64_t total = kind == CollectiveKind::all_reduce ? 2 * (n - 1) * payload
                               : kind == CollectiveKind::shift    ? n * payload
                                                                  : (n - 1) * payload;
    const Collective op{kind, Group::world, elements, DType::fp32};
    const auto done = perform(op, given_for<float>(op, n), place);
    std::int64_t received = 0;
    for (const auto& c : done.comms) {
      const auto line = c->counters().collectives.at({kind, Group::world});
      CHECK(line.calls == 1);
      CHECK(line.payload_bytes == payload);
      if (kind != CollectiveKind::broadcast) CHECK(line.received_bytes == total / n);
      received += line.received_bytes;
    }
    REQUIRE(received == total);
  }
}

namespace {

/// Members that have rows of three elements, and what each gets by a gather or a scatter of them, with the bytes it received.
struct Rows {
  std::vector<std::int32_t> counts;   ///< two numbers a member
  std::int64_t of(std::size_t r) const { return counts[2 * r] + counts[2 * r + 1]; }
  std::int64_t all() const { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }

  std::pair<Vectors<double>, std::vector<std::int64_t>> perform(CollectiveKind kind, Vectors<double> given,
                                                                std::int64_t room) const {
    const auto n = static_cast<int>(given.size());
    const Collective op{kind, Group::tensor, 3 * all(), DType::fp64, Reduce::sum, 3};
    const auto comms = make_thread_communicators(n);
    Vectors<double> out(given.size(), std::vector<double>(static_cast<std::size_t>(3 * room), 77));
    std::vector<std::vector<std::int32_t>> mine(given.size(), counts);
    const auto errors = on_ranks(n, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      try {
        comms[r]->run(op, ranks(n), {bytes(given[r]), bytes(out[r]), {mine[r].data(), mine[r].data(), 2, room}});
      } catch (const DeviceError& e) {
        comms[r]->abort(e.what());  // as a run does: the others wait for this rank
        throw CommError(e.what());
      }
    });
    for (const auto& e : errors)
      if (!e.empty()) throw CommError(e);
    std::vector<std::int64_t> received;
    for (const auto& c : comms) received.push_back(c->counters().collectives.at({kind, Group::tensor}).received_bytes);
    return {out, received};
  }
};

}  // namespace

TEST_CASE("rows of unequal numbers are gathered in order of the members, and scattered as shares of their sum") {
  const Rows rows{{2, 0, 0, 0, 1, 4000}};
  const auto whole = values<double>(3, 3 * rows.all());
  const std::vector<double> sum = left_fold(whole, Reduce::sum);
  Vectors<double> shares;
  auto first = whole[0].begin();
  for (std::size_t r = 0; r < 3; first += 3 * rows.of(r++)) shares.emplace_back(first, first + 3 * rows.of(r));
  const auto [gathered, came] = rows.perform(CollectiveKind::all_gather, shares, rows.all());
  const auto [scattered, got] = rows.perform(CollectiveKind::reduce_scatter, whole, 4001);
  auto at = sum.begin();
  for (std::size_t r = 0; r < 3; ++r) {
    const std::int64_t own = 3 * rows.of(r);
    CHECK(gathered[r] == whole[0]);
    CHECK(came[r] == (3 * rows.all() - own) * 8);
    CHECK(std::equal(at, at + own, scattered[r].begin()));
    CHECK(std::all_of(scattered[r].begin() + own, scattered[r].end(), [](double x) { return x == 77; }));
    CHECK(got[r] == own * 2 * 8);
    at += own;
  }
  CHECK_THROWS_AS(rows.perform(CollectiveKind::all_gather, shares, rows.all() - 1), CommError);
}

TEST_CASE("Shares that would not be equal are refused") {
  const auto kind = GENERATE(CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_to_all);
  auto comms = make_thread_communicators(2);
  std::vector<float> in(3), out(3);
  const Collective op{kind, Group::world, 3, DType::fp32};
  REQUIRE_THROWS_AS(comms[0]->run(op, ranks(2), bytes(in), bytes(out)), ContractError);
}

TEST_CASE("Buffers that share bytes in another way than their collective allows are refused") {
  auto comms = make_thread_communicators(2);
  std::vector<float> v(16);
  const auto at = [&](int element) { return bytes(v) + 4 * element; };
  const auto run = [&](CollectiveKind kind, int in, int out) {
    comms[1]->run({kind, Group::world, 4, DType::fp32}, ranks(2), at(in), at(out));
  };
  REQUIRE_THROWS_AS(run(CollectiveKind::all_reduce, 0, 8), ContractError);
  REQUIRE_THROWS_AS(run(CollectiveKind::broadcast, 0, 4), ContractError);
  REQUIRE_THROWS_AS(run(CollectiveKind::all_gather, 0, 0), ContractError);      // member 1's share belongs at 2
  REQUIRE_THROWS_AS(run(CollectiveKind::all_gather, 3, 0), ContractError);
  REQUIRE_THROWS_AS(run(CollectiveKind::reduce_scatter, 0, 1), ContractError);
  REQUIRE_THROWS_AS(run(CollectiveKind::all_to_all, 0, 0), ContractError);
  REQUIRE_THROWS_AS(run(CollectiveKind::shift, 3, 0), ContractError);
}
