// Ranks of several processes: what collectives and messages give is what threads give, and who does not come is named.
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "exec/process/world.hpp"
#include "tests/catch.hpp"
#include "tests/exec/communicator/on_ranks.hpp"
#include "tests/exec/process/mail_carrier.hpp"

using namespace tandem;
using namespace tandem::exec;
using namespace tandem::exec::tests;
using namespace std::chrono_literals;

namespace {

/// `body(world)` in each of so many processes; what each ended with.
std::vector<std::string> in_processes(int processes, const WorldOptions& options, const std::function<void(World&)>& body) {
  const auto ways = make_ways(processes);
  return on_ranks(processes, [&](int p) {
    World world(std::make_unique<MailCarrier>(ways, p), options);
    body(world);
    world.leave(0);
  });
}

/// `body(rank, communicator)` on a thread for each rank of the world.
void on_ranks_of(World& world, int ranks, const std::function<void(int, Communicator&)>& body) {
  world.place(ranks);
  auto comms = world.make_communicators();
  const auto here = world.here();
  std::string first;
  const auto one = [&](int i) { body(here[static_cast<std::size_t>(i)].value(), *comms[static_cast<std::size_t>(i)]); };
  for (const std::string& e : on_ranks(static_cast<int>(here.size()), one))
    if (first.empty()) first = e;
  if (!first.empty()) throw CommError(first);
}

constexpr int kRanks = 4;
using Buffers = std::vector<std::vector<float>>;

/// What a collective leaves in every rank's output, over so many processes; over threads alone with one.
Buffers outcome(const Collective& op, int processes) {
  const bool gathers = op.kind == CollectiveKind::all_gather, scatters = op.kind == CollectiveKind::reduce_scatter;
  const bool in_place = op.kind == CollectiveKind::all_reduce || op.kind == CollectiveKind::broadcast;
  auto in = values<float>(kRanks, gathers ? op.elements / kRanks : op.elements);
  Buffers out(kRanks, std::vector<float>(static_cast<std::size_t>(scatters ? op.elements / kRanks : op.elements), -1));
  const auto one = [&](int r, Communicator& comm) {
    const auto i = static_cast<std::size_t>(r);
    if (in_place) out[i] = in[i];
    comm.run(op, ranks(kRanks), in_place ? bytes(out[i]) : bytes(in[i]), bytes(out[i]));
  };
  if (processes == 1) {
    World alone;
    on_ranks_of(alone, kRanks, one);
    return out;
  }
  const auto errors = in_processes(processes, {}, [&](World& world) { on_ranks_of(world, kRanks, one); });
  REQUIRE(errors == std::vector<std::string>(static_cast<std::size_t>(processes)));
  return out;
}

}  // namespace

TEST_CASE("Collectives of several processes give what those of threads give, bit for bit", "[tsan]") {
  const auto kind = GENERATE(CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather,
                             CollectiveKind::all_to_all, CollectiveKind::broadcast, CollectiveKind::shift);
  const std::int64_t elements = GENERATE(0, 4, 1028, 40000);
  const Collective op{kind, Group::world, elements, DType::fp32};
  const Buffers threads = outcome(op, 1);
  for (const int processes : {2, 3, 4}) {
    const Buffers there = outcome(op, processes);
    for (std::size_t r = 0; r < kRanks; ++r) CHECK(same_bits(there[r], threads[r]));
  }
}

TEST_CASE("Messages cross processes in their order, and a mismatch names both ends", "[tsan]") {
  const auto errors = in_processes(2, {}, [&](World& world) {
    on_ranks_of(world, 2, [&](int r, Communicator& comm) {
      std::vector<float> v(5000);
      for (int i = 0; i < 20; ++i) {
        std::fill(v.begin(), v.end(), r == 0 ? static_cast<float>(i) : -1.0F);
        r == 0 ? comm.send(bytes(v), 20000, Rank(1), {i, 1}) : comm.recv(bytes(v), 20000, Rank(0), {i, 1});
        if (v.back() != static_cast<float>(i)) throw CommError("another message");
      }
    });
  });
  CHECK(errors == std::vector<std::string>(2));
  std::string told;
  in_processes(2, {60s, nullptr}, [&](World& world) {
    on_ranks_of(world, 2, [&](int r, Communicator& comm) {
      std::vector<float> v(8);
      try {
        r == 0 ? comm.send(bytes(v), 32, Rank(1), {7, 1}) : comm.recv(bytes(v), 16, Rank(0), {7, 1});
      } catch (const CommError& e) {
        if (r == 1) told = e.what();
        world.fail({Failure::Kind::comm, r, 0, Activity::training, e.what(), e.what(), -1});
      }
    });
  });
  CHECK(told == "mismatched send and receive: rank 0 sends 32 bytes with tag 7, rank 1 expects 16 bytes with tag 7");
}

// Stages of an interleaved pipeline of two.
TEST_CASE("Two ranks of two processes send to each other in one way", "[tsan]") {
  const auto errors = in_processes(2, {}, [&](World& world) {
    on_ranks_of(world, 2, [&](int r, Communicator& comm) {
      constexpr int kMessages = 50;
      std::vector<float> given(64), taken(64);
      std::string wrong;
      std::thread sender([&] {
        try {
          for (int i = 0; i < kMessages; ++i) comm.send(bytes(given), 256, Rank(1 - r), {10 * i + r, 1});
        } catch (const CommError& e) {
          wrong = e.what();
          world.fail({Failure::Kind::comm, r, 0, Activity::training, wrong, wrong, -1});
        }
      });
      std::string also;
      try {
        for (int i = 0; i < kMessages; ++i) comm.recv(bytes(taken), 256, Rank(1 - r), {10 * i + 1 - r, 1});
      } catch (const CommError& e) {
        also = e.what();
        world.fail({Failure::Kind::comm, r, 0, Activity::training, also, also, -1});
      }
      sender.join();
      if (!wrong.empty() || !also.empty()) throw CommError(wrong + also);
    });
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("A rank that does not come is named with the collective and its group, once, and wakes all processes", "[tsan]") {
  std::mutex mutex;
  std::vector<std::string> told;
  const auto tell = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    told.push_back(text);
  };
  const auto begin = std::chrono::steady_clock::now();
  in_processes(3, {400ms, tell}, [&](World& world) {
    on_ranks_of(world, 3, [&](int r, Communicator& comm) {
      std::vector<float> v(6);
      while (r == 2 && !world.verdict()) std::this_thread::sleep_for(10ms);  // rank 1 waits for it, and rank 0 for rank 1
      if (r == 2) return;
      in_place(comm, {CollectiveKind::all_reduce, r == 1 ? Group::data : Group::tensor, 6, DType::fp32},
               r == 1 ? std::vector{Rank(1), Rank(2)} : std::vector{Rank(0), Rank(1)}, v);
    });
  });
  CHECK(std::chrono::steady_clock::now() - begin < 400ms + 3s);
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("all_reduce of 6 fp32 on group data: rank 2 has not come within 0.4 s, rank 1 waits; rank 2 of process 2") == 0);
}

TEST_CASE("A stopped step wakes every rank and leaves the processes connected, wherever each rank is", "[tsan]") {
  const int processes = GENERATE(2, 3, 4), stops_in = GENERATE(0, 1, 7);
  const Failure cause{Failure::Kind::device, 3, 5, Activity::training, "no room", "rank 3 failed in step 5: no room", -1};
  std::mutex mutex;
  std::vector<std::string> told;
  const auto tell = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    told.push_back(text);
  };
  const auto errors = in_processes(processes, {20s, tell}, [&](World& world) {
    world.place(kRanks);
    auto comms = world.make_communicators();
    const auto here = world.here();
    const auto ends = on_ranks(static_cast<int>(here.size()), [&](int i) {
      const int r = here[static_cast<std::size_t>(i)].value();
      Communicator& comm = *comms[static_cast<std::size_t>(i)];
      std::vector<float> v(20000), one(8);
      const std::vector<Rank> pair{Rank(r % 2), Rank(r % 2 + 2)};
      try {
        for (int n = 0;; ++n) {
          if (r == 3 && n == stops_in) world.stop_step(cause);
          in_place(comm, {CollectiveKind::all_reduce, Group::world, 20000, DType::fp32}, ranks(kRanks), v);
          r % 2 == 0 ? comm.send(bytes(one), 32, Rank(r + 1), {n, 1}) : comm.recv(bytes(one), 32, Rank(r - 1), {n, 1});
          in_place(comm, {CollectiveKind::all_reduce, Group::data, 8, DType::fp32}, pair, one);
        }
      } catch (...) {
        comm.abort(cause.text);  // as a run does, for the ranks of this process
        throw;
      }
    });
    for (const std::string& e : ends)
      if (e.find("no room") == std::string::npos) throw CommError("a rank ended with: " + e);
    if (!world.step_stopped() || world.stop_cause().text != cause.text) throw CommError("another cause");
    world.control().barrier();  // the carrier still carries
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(processes)));
  CHECK(told.empty());
}

TEST_CASE("The first failure counts in every process") {
  std::vector<std::string> verdicts(3);
  in_processes(3, {}, [&](World& world) {
    const int p = world.control().process();
    if (p == 1) world.fail({Failure::Kind::device, 1, 4, Activity::training, "no room", "rank 1 failed in step 4: no room", -1});
    try {
      world.control().barrier();
    } catch (const CommError& e) {
      verdicts[static_cast<std::size_t>(p)] = e.what();
    }
  });
  CHECK(verdicts == std::vector<std::string>(3, "rank 1 failed in step 4: no room"));
}

namespace {

/// Takes half a second for each frame of process 0, and sends nothing after an abort, as where the cores are busy.
class SlowCarrier final : public Carrier {
 public:
  SlowCarrier(std::shared_ptr<Ways> ways, int process) : mail_(std::move(ways), process) {}
  int process() const override { return mail_.process(); }
  int processes() const override { return mail_.processes(); }
  std::unique_ptr<Transfer> send(int to, Tag tag, std::span<const std::byte> bytes) override {
    if (process() == 0 && tag == kFrameTag) std::this_thread::sleep_for(500ms);
    if (const auto cause = this->cause(); !cause.empty()) throw CommError(cause);
    return mail_.send(to, tag, bytes);
  }
  std::unique_ptr<Transfer> receive(int from, Tag tag, std::span<std::byte> bytes) override {
    return mail_.receive(from, tag, bytes);
  }
  void abort(const std::string& cause) override {
    {
      const std::lock_guard lock(mutex_);
      cause_ = cause;
    }
    mail_.abort(cause);
  }
  void close() override {}

 private:
  std::string cause() {
    const std::lock_guard lock(mutex_);
    return cause_;
  }

  MailCarrier mail_;
  std::mutex mutex_;
  std::string cause_;
};

}  // namespace

TEST_CASE("Every process hears the failure that counts before the one that decided ends, however slow the host is") {
  const int fails_in = GENERATE(0, 1);
  const auto ways = make_ways(3);
  const std::string text = "rank 1 failed in step 4: no room";
  std::mutex mutex;
  std::vector<std::string> told, verdicts(3);
  const WorldOptions options{1500ms, [&](const std::string& one) {
                               const std::lock_guard lock(mutex);
                               told.push_back(one);
                             }};
  on_ranks(3, [&](int p) {
    World world(std::make_unique<SlowCarrier>(ways, p), options);
    try {
      if (p == fails_in) world.fail({Failure::Kind::device, 1, 4, Activity::training, "no room", text, -1});
      world.control().barrier();
    } catch (const CommError& e) {
      verdicts[static_cast<std::size_t>(p)] = e.what();
    }
    world.leave(7);
  });
  CHECK(told == std::vector<std::string>{text});
  CHECK(verdicts == std::vector<std::string>(3, text));
}

// Signs of life that the first two give each other meanwhile are behind the last message that either hears.
TEST_CASE("Processes end though the last leaves long after the others", "[tsan]") {
  const auto errors = in_processes(3, {}, [](World& world) {
    if (world.control().process() == 2) std::this_thread::sleep_for(500ms);
  });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("Ranks are dealt to processes in order, evenly") {
  const std::int64_t world = GENERATE(1, 4, 7, 64);
  for (int processes = 1; processes <= world && processes < 9; ++processes) {
    const Places places(world, processes);
    std::int64_t next = 0;
    for (int p = 0; p < processes; ++p) {
      const auto here = places.ranks_of(p);
      CHECK(static_cast<std::int64_t>(here.size()) - world / processes <= 1);
      for (const Rank r : here) {
        CHECK(r.value() == next++);
        CHECK(places.process_of(r) == p);
        CHECK(here[static_cast<std::size_t>(places.place_in_process(r))] == r);
      }
    }
    CHECK(next == world);
  }
}
