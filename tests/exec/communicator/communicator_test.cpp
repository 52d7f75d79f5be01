// Who meets whom and when: groups, lanes, messages, mismatches and aborts. What collectives compute: collective_test.cpp.
#include <numeric>

#include "tests/catch.hpp"
#include "tests/exec/communicator/on_ranks.hpp"

using namespace tandem;
using namespace tandem::exec;
using namespace tandem::exec::tests;

TEST_CASE("Collectives of different groups run at once from different threads of a rank", "[tsan]") {
  constexpr int n = 4, rounds = 200;
  auto comms = make_thread_communicators(n);
  const auto loop = [&](int r, Group g, const std::vector<Rank>& members, std::int64_t elements) {
    std::vector<double> v(static_cast<std::size_t>(elements));
    for (int round = 0; round < rounds; ++round) {
      std::fill(v.begin(), v.end(), 1.0 + r);
      in_place(*comms[static_cast<std::size_t>(r)], {CollectiveKind::all_reduce, g, elements, DType::fp64}, members, v);
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
    std::thread other([&] { in_place(comm, {CollectiveKind::all_reduce, Group::model, 1, DType::fp32}, ranks(2), r ? d : c); });
    in_place(comm, {CollectiveKind::all_reduce, Group::tensor, 2, DType::fp32}, ranks(2), r ? b : a);
    other.join();
  });
  REQUIRE(errors == std::vector<std::string>(2));
  CHECK(a == std::vector<float>{11, 22});
  CHECK(d == std::vector<float>{1100});
}

TEST_CASE("One group on two lanes of a rank's threads is two groups", "[tsan]") {
  auto comms = make_thread_communicators(2);
  std::vector<double> sums(2), longer(2);
  const auto errors = on_ranks(2, [&](int r) {
    auto& comm = *comms[static_cast<std::size_t>(r)];
    const auto all = ranks(2);
    std::vector<double> one{1.0 + r}, two{10.0 + r, 20.0 + r};
    const Collective first{CollectiveKind::all_reduce, Group::data, 1, DType::fp64};
    const Collective second{CollectiveKind::all_reduce, Group::data, 2, DType::fp64};
    // The two ranks begin with different ones: on one lane they would disagree.
    std::thread other([&] { r ? in_place(comm, first, {all, 0}, one) : in_place(comm, second, {all, 1}, two); });
    r ? in_place(comm, second, {all, 1}, two) : in_place(comm, first, {all, 0}, one);
    other.join();
    sums[static_cast<std::size_t>(r)] = one[0], longer[static_cast<std::size_t>(r)] = two[1];
  });
  REQUIRE(errors == std::vector<std::string>(2));
  CHECK(sums == std::vector<double>{3, 3});
  CHECK(longer == std::vector<double>{41, 41});
}

TEST_CASE("A message arrives whole and is counted at its sender", "[tsan]") {
  const std::size_t elements = GENERATE(0, 1, 50000);
  auto comms = make_thread_communicators(3);
  std::vector<float> sent(elements), got(elements, -1);
  std::iota(sent.begin(), sent.end(), 0.5F);
  const auto size = static_cast<std::int64_t>(elements * 4);
  on_ranks(3, [&](int r) {
    if (r == 2) comms[2]->send(bytes(sent), size, Rank(0), {7});
    if (r == 0) comms[0]->recv(bytes(got), size, Rank(2), {7});
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
        comm.send(reinterpret_cast<const std::byte*>(&value), 4, peer, {i});
      }
    });
    for (int i = 0; i < 100; ++i) {
      int value = -1;
      comm.recv(reinterpret_cast<std::byte*>(&value), 4, peer, {i});
      if (value != 1000 * (1 - r) + i) comm.abort("wrong value");
    }
    out.join();
  });
  REQUIRE(errors == std::vector<std::string>(2));
}

TEST_CASE("Messages of different ways between two ranks do not meet each other", "[tsan]") {
  // Rank 0 sends forwards, then backwards; rank 1 asks for the one from behind first.
  auto comms = make_thread_communicators(2);
  const std::int32_t sent[] = {11, 22};
  std::int32_t got[] = {0, 0};
  const auto errors = on_ranks(2, [&](int r) {
    auto& comm = *comms[static_cast<std::size_t>(r)];
    const auto transfer = [&](int i) {
      const MessageName name{100 + i, i == 0 ? 1 : -1};
      if (r == 0) comm.send(reinterpret_cast<const std::byte*>(sent + i), 4, Rank(1), name);
      else comm.recv(reinterpret_cast<std::byte*>(got + i), 4, Rank(0), name);
    };
    std::thread other([&] { transfer(r == 0 ? 0 : 1); });
    transfer(r == 0 ? 1 : 0);
    other.join();
  });
  REQUIRE(errors == std::vector<std::string>(2));
  CHECK(got[0] == 11);
  CHECK(got[1] == 22);
}

TEST_CASE("A send and a receive that disagree name both ends on both ranks") {
  const auto [bytes_expected, tag, text] = GENERATE(table<std::int64_t, std::int64_t, std::string>(
      {{8, 4, "rank 1 expects 8 bytes with tag 4"}, {4, 5, "rank 1 expects 4 bytes with tag 5"}}));
  auto comms = make_thread_communicators(2);
  double room = 0;
  auto* buffer = reinterpret_cast<std::byte*>(&room);
  const auto errors = on_ranks(2, [&, b = bytes_expected, t = tag](int r) {
    if (r == 0) comms[0]->send(buffer, 4, Rank(1), {4});
    else comms[1]->recv(buffer, b, Rank(0), {t});
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
    in_place(*comms[i], r == 2 ? w : right, ranks(3), all[i]);
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
    if (r == 0) in_place(comm, {CollectiveKind::all_reduce, Group::world, 1, DType::fp32}, all, v);
    if (r == 1) comm.send(bytes(v), 4, Rank(3), {});
    if (r == 2) comm.recv(bytes(v), 4, Rank(3), {});
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
  REQUIRE_THROWS_WITH(in_place(*comms[0], op, ranks(2), v), "rank 1 failed: broken");
  REQUIRE_THROWS_WITH(comms[0]->send(bytes(v), 4, Rank(1), {}), "rank 1 failed: broken");
  REQUIRE_THROWS_AS(comms[0]->recv(bytes(v), 4, Rank(1), {}), CommError);
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
    full[i] = in_place(*comms[i], {CollectiveKind::all_reduce, Group::world, 1, DType::fp32}, ranks(3), v);
  });
  CHECK(full[0] == full[1]);
  CHECK(full[1] == full[2]);
  CHECK(full[0] >= late);
}

TEST_CASE("A rank outside the group, or a message to itself, is a contract error") {
  auto comms = make_thread_communicators(3);
  std::vector<float> v(1);
  const Collective op{CollectiveKind::all_reduce, Group::tensor, 1, DType::fp32};
  REQUIRE_THROWS_AS(in_place(*comms[2], op, ranks(2), v), ContractError);
  REQUIRE_THROWS_AS(comms[2]->send(bytes(v), 4, Rank(2), {}), ContractError);
  REQUIRE_THROWS_AS(comms[2]->send(bytes(v), 4, Rank(3), {}), ContractError);
}
