#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "exec/communicator.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

std::vector<Rank> ranks(int n, int first = 0) {
  std::vector<Rank> r;
  for (int i = 0; i < n; ++i) r.emplace_back(first + i);
  return r;
}

/// Runs `body(rank)` on n threads; the messages of the CommErrors they ended with, empty where there was none.
std::vector<std::string> on_ranks(int n, const std::function<void(int)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(n));
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      try {
        body(r);
      } catch (const CommError& e) {
        errors[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (auto& t : threads) t.join();
  return errors;
}

/// Values whose sums depend on the order they are added in.
template <class T>
std::vector<std::vector<T>> values(int n, std::int64_t elements) {
  std::uint64_t state = 88172645463325252ULL;
  std::vector<std::vector<T>> all(static_cast<std::size_t>(n), std::vector<T>(static_cast<std::size_t>(elements)));
  for (auto& v : all)
    for (auto& x : v) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      x = static_cast<T>(static_cast<double>(static_cast<std::int64_t>(state) >> 38) * 1.1);  // eight fit an int32
      if (state % 5 == 0) x = static_cast<T>(x / 1024);
    }
  return all;
}

template <class T>
std::byte* bytes(std::vector<T>& v) { return reinterpret_cast<std::byte*>(v.data()); }

template <class T>
constexpr DType dtype() {
  if constexpr (std::is_same_v<T, double>) return DType::fp64;
  else if constexpr (std::is_same_v<T, float>) return DType::fp32;
  else return DType::int32;
}

/// The oracle: ((b0 + b1) + b2) + ... element by element.
template <class T>
std::vector<T> left_fold(const std::vector<std::vector<T>>& all, Reduce reduce) {
  std::vector<T> sum = all[0];
  for (std::size_t j = 1; j < all.size(); ++j)
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] = reduce == Reduce::sum ? static_cast<T>(sum[i] + all[j][i]) : std::max(sum[i], all[j][i]);
  return sum;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

struct Slice { std::size_t begin, end; };
Slice slice(std::int64_t elements, int n, int r) {
  return {static_cast<std::size_t>(elements * r / n), static_cast<std::size_t>(elements * (r + 1) / n)};
}

/// Runs one collective on n ranks over `all` in place; the communicators, for their counters.
template <class T>
std::vector<std::unique_ptr<Communicator>> collective(CollectiveKind kind, std::vector<std::vector<T>>& all,
                                                      Reduce reduce = Reduce::sum) {
  const int n = static_cast<int>(all.size());
  auto comms = make_thread_communicators(n);
  const Collective op{kind, Group::world, static_cast<std::int64_t>(all[0].size()), dtype<T>(), reduce};
  const auto errors = on_ranks(n, [&](int r) {
    const auto i = static_cast<std::size_t>(r);
    comms[i]->run(op, ranks(n), bytes(all[i]));
  });
  for (const auto& e : errors) REQUIRE(e == "");
  return comms;
}

std::int64_t received(const std::vector<std::unique_ptr<Communicator>>& comms, CollectiveKind kind) {
  std::int64_t sum = 0;
  for (const auto& c : comms) sum += c->counters().collectives.at({kind, Group::world}).received_bytes;
  return sum;
}

}  // namespace

TEMPLATE_TEST_CASE("An all-reduce equals the serial left fold bit for bit for every group size", "[tsan]", float,
                   double, std::int32_t) {
  const int n = GENERATE(1, 2, 3, 4, 5, 6, 7, 8);
  const std::int64_t elements = GENERATE(0, 1, 7, 1031, 20011);  // both sides of the one-thread limit
  const auto reduce = GENERATE(Reduce::sum, Reduce::max);
  auto all = values<TestType>(n, elements);
  const auto expected = left_fold(all, reduce);
  collective(CollectiveKind::all_reduce, all, reduce);
  for (const auto& v : all) REQUIRE(same_bits(v, expected));
}

TEST_CASE("The serial left fold of the oracle differs from other orders on the values used") {
  auto all = values<float>(4, 1031);
  const auto ascending = left_fold(all, Reduce::sum);
  std::reverse(all.begin(), all.end());
  REQUIRE_FALSE(same_bits(ascending, left_fold(all, Reduce::sum)));
}

TEST_CASE("A reduce-scatter leaves each member the folded slice and nothing else changed") {
  const int n = GENERATE(2, 3, 5, 8);
  const std::int64_t elements = GENERATE(11, 30011);
  auto all = values<float>(n, elements);
  const auto before = all;
  const auto expected = left_fold(all, Reduce::sum);
  collective(CollectiveKind::reduce_scatter, all);
  for (int r = 0; r < n; ++r) {
    const auto s = slice(elements, n, r);
    const auto& mine = all[static_cast<std::size_t>(r)];
    for (std::size_t i = 0; i < mine.size(); ++i)
      REQUIRE(mine[i] == (i >= s.begin && i < s.end ? expected[i] : before[static_cast<std::size_t>(r)][i]));
  }
}

TEST_CASE("An all-gather hands every slice to every member") {
  const int n = GENERATE(2, 3, 5, 8);
  const std::int64_t elements = GENERATE(11, 30011);
  auto all = values<double>(n, elements);
  std::vector<double> expected(static_cast<std::size_t>(elements));
  for (int r = 0; r < n; ++r) {
    const auto s = slice(elements, n, r);
    for (auto i = s.begin; i < s.end; ++i) expected[i] = all[static_cast<std::size_t>(r)][i];
  }
  collective(CollectiveKind::all_gather, all);
  for (const auto& v : all) REQUIRE(same_bits(v, expected));
}

TEST_CASE("A broadcast copies the first member's vector") {
  const int n = GENERATE(2, 3, 8);
  const std::int64_t elements = GENERATE(3, 30011);
  auto all = values<float>(n, elements);
  const auto expected = all[0];
  collective(CollectiveKind::broadcast, all);
  for (const auto& v : all) REQUIRE(same_bits(v, expected));
}

TEST_CASE("An all-to-all transposes slices between members", "[tsan]") {
  const int n = GENERATE(2, 3, 4, 5, 8);
  const std::int64_t per_slice = GENERATE(1, 3, 5003);
  auto all = values<std::int32_t>(n, per_slice * n);
  const auto before = all;
  collective(CollectiveKind::all_to_all, all);
  for (std::size_t r = 0; r < all.size(); ++r)
    for (std::size_t j = 0; j < all.size(); ++j)
      for (std::size_t i = 0; i < static_cast<std::size_t>(per_slice); ++i)
        REQUIRE(all[r][j * static_cast<std::size_t>(per_slice) + i] ==
                before[j][r * static_cast<std::size_t>(per_slice) + i]);
}

TEST_CASE("An all-to-all that does not divide is refused") {
  auto comms = make_thread_communicators(2);
  std::vector<float> v(3);
  REQUIRE_THROWS_AS(comms[0]->run({CollectiveKind::all_to_all, Group::world, 3, DType::fp32}, ranks(2), bytes(v)),
                    ContractError);
}

TEST_CASE("Bytes received add up to the bus traffic that nccl-tests states for each collective") {
  const int n = GENERATE(2, 3, 4, 7, 8);
  const std::int64_t elements = GENERATE(168, 84000);  // divisible by every n
  const std::int64_t payload = elements * 4;
  // Per rank times n: all-reduce 2(n-1)/n, the other symmetric ones (n-1)/n, broadcast payload to all but one.
  const auto [kind, total] = GENERATE_COPY(
      table<CollectiveKind, std::int64_t>({{CollectiveKind::all_reduce, 2 * (n - 1) * payload},
                                           {CollectiveKind::reduce_scatter, (n - 1) * payload},
                                           {CollectiveKind::all_gather, (n - 1) * payload},
                                           {CollectiveKind::all_to_all, (n - 1) * payload},
                                           {CollectiveKind::broadcast, (n - 1) * payload}}));
  auto all = values<float>(n, elements);
  const auto comms = collective(kind, all);
  REQUIRE(received(comms, kind) == total);
  for (const auto& c : comms) {
    const auto line = c->counters().collectives.at({kind, Group::world});
    CHECK(line.calls == 1);
    CHECK(line.payload_bytes == payload);
    if (kind != CollectiveKind::broadcast) CHECK(line.received_bytes == total / n);
  }
}

TEST_CASE("Collectives of different groups run at once from different threads of a rank", "[tsan]") {
  constexpr int n = 4, rounds = 200;
  auto comms = make_thread_communicators(n);
  const auto loop = [&](int r, Group g, const std::vector<Rank>& members, std::int64_t elements) {
    std::vector<double> v(static_cast<std::size_t>(elements));
    for (int round = 0; round < rounds; ++round) {
      std::fill(v.begin(), v.end(), 1.0 + r);
      comms[static_cast<std::size_t>(r)]->run({CollectiveKind::all_reduce, g, elements, DType::fp64}, members, bytes(v));
      double expected = 0;
      for (auto m : members) expected += 1.0 + m.value();
      if (v.front() != expected || v.back() != expected) throw CommError("wrong sum");
    }
  };
  const auto errors = on_ranks(n, [&](int r) {
    std::string inner;
    std::thread data([&] {
      try {
        loop(r, Group::data, r % 2 ? std::vector{Rank(1), Rank(3)} : std::vector{Rank(0), Rank(2)}, 9000);
      } catch (const CommError& e) {
        inner = e.what();
      }
    });
    loop(r, Group::world, ranks(n), 5);
    data.join();
    if (!inner.empty()) throw CommError(inner);
  });
  for (const auto& e : errors) REQUIRE(e == "");
}

TEST_CASE("Two groups of the same members do not meet each other", "[tsan]") {
  auto comms = make_thread_communicators(2);
  std::vector<float> a{1, 2}, b{10, 20}, c{100}, d{1000};
  const auto errors = on_ranks(2, [&](int r) {
    auto& comm = *comms[static_cast<std::size_t>(r)];
    std::thread other([&] { comm.run({CollectiveKind::all_reduce, Group::model, 1, DType::fp32}, ranks(2), bytes(r ? d : c)); });
    comm.run({CollectiveKind::all_reduce, Group::tensor, 2, DType::fp32}, ranks(2), bytes(r ? b : a));
    other.join();
  });
  REQUIRE(errors == std::vector<std::string>(2));
  CHECK(a == std::vector<float>{11, 22});
  CHECK(d == std::vector<float>{1100});
}

TEST_CASE("A message arrives whole and is counted at its sender", "[tsan]") {
  const std::size_t elements = GENERATE(0, 1, 50000);
  auto comms = make_thread_communicators(3);
  std::vector<float> sent(elements), got(elements, -1);
  std::iota(sent.begin(), sent.end(), 0.5F);
  const auto size = static_cast<std::int64_t>(elements * 4);
  on_ranks(3, [&](int r) {
    if (r == 2) comms[2]->send(bytes(sent), size, Rank(0), 7);
    if (r == 0) comms[0]->recv(bytes(got), size, Rank(2), 7);
  });
  CHECK(got == sent);
  CHECK(comms[2]->counters().sends == 1);
  CHECK(comms[2]->counters().sent_bytes == size);
  CHECK(comms[0]->counters().sends == 0);
}

TEST_CASE("Both directions between two ranks carry messages at once", "[tsan]") {
  auto comms = make_thread_communicators(2);
  const auto errors = on_ranks(2, [&](int r) {
    auto& comm = *comms[static_cast<std::size_t>(r)];
    const Rank peer(1 - r);
    std::thread out([&] {
      for (int i = 0; i < 100; ++i) {
        const int value = 1000 * r + i;
        comm.send(reinterpret_cast<const std::byte*>(&value), 4, peer, i);
      }
    });
    for (int i = 0; i < 100; ++i) {
      int value = -1;
      comm.recv(reinterpret_cast<std::byte*>(&value), 4, peer, i);
      if (value != 1000 * (1 - r) + i) comm.abort("wrong value");
    }
    out.join();
  });
  REQUIRE(errors == std::vector<std::string>(2));
}

TEST_CASE("A send and a receive that disagree name both ends on both ranks") {
  const auto [bytes_expected, tag, text] = GENERATE(table<std::int64_t, std::int64_t, std::string>(
      {{8, 4, "rank 1 expects 8 bytes with tag 4"}, {4, 5, "rank 1 expects 4 bytes with tag 5"}}));
  auto comms = make_thread_communicators(2);
  double room = 0;
  auto* buffer = reinterpret_cast<std::byte*>(&room);
  const auto errors = on_ranks(2, [&, b = bytes_expected, t = tag](int r) {
    if (r == 0) comms[0]->send(buffer, 4, Rank(1), 4);
    else comms[1]->recv(buffer, b, Rank(0), t);
  });
  for (const auto& e : errors) {
    CHECK(e.find("rank 0 sends 4 bytes with tag 4") != std::string::npos);
    CHECK(e.find(text) != std::string::npos);
  }
}

TEST_CASE("Collectives that disagree in kind, size or type are named, not waited for", "[tsan]") {
  const Collective right{CollectiveKind::all_reduce, Group::world, 4, DType::fp32};
  const auto [wrong, text] = GENERATE(table<Collective, std::string>(
      {{{CollectiveKind::broadcast, Group::world, 4, DType::fp32}, "rank 2 entered broadcast of 4 fp32"},
       {{CollectiveKind::all_reduce, Group::world, 3, DType::fp32}, "rank 2 entered all_reduce of 3 fp32"},
       {{CollectiveKind::all_reduce, Group::world, 4, DType::int32}, "rank 2 entered all_reduce of 4 int32"},
       {{CollectiveKind::all_reduce, Group::world, 4, DType::fp32, Reduce::max},
        "rank 2 entered all_reduce (max) of 4 fp32"}}));
  auto comms = make_thread_communicators(3);
  std::vector<std::vector<float>> all(3, std::vector<float>(4));
  const auto errors = on_ranks(3, [&, w = wrong](int r) {
    const auto i = static_cast<std::size_t>(r);
    comms[i]->run(r == 2 ? w : right, ranks(3), bytes(all[i]));
  });
  for (const auto& e : errors) {
    CHECK(e.find("rank 0 entered all_reduce of 4 fp32") != std::string::npos);
    CHECK(e.find(text) != std::string::npos);
  }
}

TEST_CASE("An abort wakes every blocked rank with the first cause and its rank", "[tsan]") {
  auto comms = make_thread_communicators(4);
  std::vector<float> v(4);
  const auto errors = on_ranks(4, [&](int r) {
    auto& comm = *comms[static_cast<std::size_t>(r)];
    const auto all = ranks(4);
    if (r == 0) comm.run({CollectiveKind::all_reduce, Group::world, 1, DType::fp32}, all, bytes(v));
    if (r == 1) comm.send(bytes(v), 4, Rank(3), 0);
    if (r == 2) comm.recv(bytes(v), 4, Rank(3), 0);
    if (r == 3) {
      comm.abort("out of memory");
      comm.abort("a later cause");
    }
  });
  for (std::size_t r = 0; r < 3; ++r) CHECK(errors[r] == "rank 3 failed: out of memory");
}

TEST_CASE("Calls after an abort throw at once") {
  auto comms = make_thread_communicators(2);
  comms[1]->abort("broken");
  std::vector<float> v(1);
  const Collective op{CollectiveKind::all_reduce, Group::world, 1, DType::fp32};
  REQUIRE_THROWS_WITH(comms[0]->run(op, ranks(2), bytes(v)), "rank 1 failed: broken");
  REQUIRE_THROWS_WITH(comms[0]->send(bytes(v), 4, Rank(1), 0), "rank 1 failed: broken");
  REQUIRE_THROWS_AS(comms[0]->recv(bytes(v), 4, Rank(1), 0), CommError);
}

TEST_CASE("The time a collective returns is the last member's arrival on all of them", "[tsan]") {
  auto comms = make_thread_communicators(3);
  std::vector<TimePoint> full(3);
  TimePoint late;
  on_ranks(3, [&](int r) {
    std::vector<float> v(1);
    if (r == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      late = std::chrono::steady_clock::now();
    }
    const auto i = static_cast<std::size_t>(r);
    full[i] = comms[i]->run({CollectiveKind::all_reduce, Group::world, 1, DType::fp32}, ranks(3), bytes(v));
  });
  CHECK(full[0] == full[1]);
  CHECK(full[1] == full[2]);
  CHECK(full[0] >= late);
}

TEST_CASE("A rank outside the group, or a message to itself, is a contract error") {
  auto comms = make_thread_communicators(3);
  std::vector<float> v(1);
  const Collective op{CollectiveKind::all_reduce, Group::tensor, 1, DType::fp32};
  REQUIRE_THROWS_AS(comms[2]->run(op, ranks(2), bytes(v)), ContractError);
  REQUIRE_THROWS_AS(comms[2]->send(bytes(v), 4, Rank(2), 0), ContractError);
  REQUIRE_THROWS_AS(comms[2]->send(bytes(v), 4, Rank(3), 0), ContractError);
}
