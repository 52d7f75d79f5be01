#include "exec/measure/measure_comm.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>

#include "exec/communicator/communicator.hpp"
#include "exec/communicator/rendezvous.hpp"
#include "exec/cpu/backend.hpp"
#include "exec/measure/measuring_stopped.hpp"
#include "exec/run/stream_worker.hpp"
#include "exec/run/task_board.hpp"
#include "models/base/threads.hpp"
#include "models/ops/collective.hpp"

namespace tandem::exec {
namespace {

constexpr double kPerSize = 0.015;  // seconds
constexpr int kFewest = 5, kMost = 100;
constexpr int kPasses = 3;  // over all sizes, so that a short disturbance of the machine does not enter the table

double seconds(TimePoint from, TimePoint to) { return std::chrono::duration<double>(to - from).count(); }

double median(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

/// Keeps the core busy, like the computation before a communication. A sleeping core would wake up late.
void compute_for(std::chrono::microseconds t) {
  for (const auto end = Clock::now() + t; Clock::now() < end;) {
  }
}

/// Differs between ranks and rounds, so that no rank is always the last.
std::chrono::microseconds uneven(int rank, int round) { return std::chrono::microseconds(20 + (rank * 7 + round * 11) % 17); }

std::vector<Rank> ranks(int n) {
  std::vector<Rank> all;
  for (int r = 0; r < n; ++r) all.emplace_back(r);
  return all;
}

/// Buffers of one rank for an fp32 collective. One buffer if the collective works in place, else two, as in tensor-parallel layers.
class CollectiveBuffers {
 public:
  explicit CollectiveBuffers(const Collective& op) : given_(static_cast<std::size_t>(op.elements)) {
    if (op.kind != CollectiveKind::all_reduce && op.kind != CollectiveKind::broadcast) got_.resize(given_.size());
  }
  std::vector<float>& given() { return given_; }
  const std::byte* in() const { return reinterpret_cast<const std::byte*>(given_.data()); }
  std::byte* out() { return reinterpret_cast<std::byte*>((got_.empty() ? given_ : got_).data()); }

 private:
  std::vector<float> given_, got_;
};

Tensor tensor_of(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), DType::fp32, static_cast<std::int64_t>(values.size())};
}

/// Wakes ranks that wait for a failed one.
void release(Rendezvous& gate, Communicator& comm) {
  gate.abort();
  comm.abort("another rank of the measurement failed");
}

/// Times one size. rounds[i]: seconds of round i from the last arrival to the last return.
class CollectiveTimer {
 public:
  CollectiveTimer(const Collective& op, int n)
      : op_(op), n_(n), comms_(make_thread_communicators(n)), gate_(static_cast<std::size_t>(n)) {}

  double measure() {
    const auto once = std::max(run(kFewest), 1e-6);
    return run(std::clamp(static_cast<int>(kPerSize / (once + 40e-6 * n_)), kFewest, kMost));
  }

 private:
  double run(int rounds) {
    full_.assign(static_cast<std::size_t>(rounds), {});
    left_.assign(static_cast<std::size_t>(n_), std::vector<TimePoint>(static_cast<std::size_t>(rounds)));
    run_at_once(comms_.size(), [&](std::size_t r) { rank_main(static_cast<int>(r), rounds); },
                [this] { release(gate_, *comms_.front()); });
    std::vector<double> times;
    for (std::size_t i = 0; i < full_.size(); ++i) times.push_back(seconds(full_[i], last_left(i)));
    return median(std::move(times));
  }

  void rank_main(int r, int rounds) {
    const auto members = ranks(n_);
    CollectiveBuffers buffers(op_);
    for (int i = 0; i < rounds && gate_.arrive(); ++i) {
      compute_for(uneven(r, i));
      const auto full = comms_[static_cast<std::size_t>(r)]->run(op_, members, buffers.in(), buffers.out());
      left_[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)] = Clock::now();
      if (r == 0) full_[static_cast<std::size_t>(i)] = full;
    }
  }

  TimePoint last_left(std::size_t round) const {
    TimePoint last;
    for (const auto& rank : left_) last = std::max(last, rank[round]);
    return last;
  }

  Collective op_;
  int n_;
  std::vector<std::unique_ptr<Communicator>> comms_;
  Rendezvous gate_;
  std::vector<TimePoint> full_;
  std::vector<std::vector<TimePoint>> left_;
};

/// Measures what a collective adds to a step. Ranks compute between collectives, each on its own core. The result is the time of
/// rounds of product and collective, minus rounds of the product alone. It includes waiting for the last rank and waking sleeping
/// cores.
class StepCollectiveTimer {
 public:
  StepCollectiveTimer(const Collective& op, int n) : op_(op), n_(n), comms_(make_thread_communicators(n)) {}

  double measure() {
    std::vector<double> added;
    for (int i = 0; i < kRepeats; ++i) added.push_back(run(true) - run(false));
    return std::max(median(std::move(added)), 0.0);
  }

 private:
  static constexpr int kRounds = 24, kRepeats = 7;
  static constexpr MatMul kProduct{96, 192, 192, false, false, false};  // about the work between two collectives

  /// Seconds of one round.
  double run(bool communicate) {
    Rendezvous gate(static_cast<std::size_t>(n_));
    std::vector<TimePoint> begin(static_cast<std::size_t>(n_)), end(begin);
    const auto rank = [&](std::size_t r) {
      rank_main(static_cast<int>(r), communicate, gate, begin[r]);
      end[r] = Clock::now();
    };
    run_at_once(comms_.size(), rank, [&] { release(gate, *comms_.front()); });
    const auto first = *std::min_element(begin.begin(), begin.end());
    return seconds(first, *std::max_element(end.begin(), end.end())) / kRounds;
  }

  void rank_main(int r, bool communicate, Rendezvous& gate, TimePoint& begin) {
    const auto members = ranks(n_);
    const auto backend = make_cpu_backend();
    std::vector<float> a(96 * 192, 0.5F), b(192 * 192, 0.25F), c(96 * 192);
    CollectiveBuffers buffers(op_);
    const std::array in{tensor_of(a), tensor_of(b)};
    const std::array out{tensor_of(c)};
    const Op product = kProduct;
    const KernelContext context;
    Queue& queue = backend->queue(Stream::compute);
    queue.run({product, DType::fp32, in, out, context});
    if (!gate.arrive()) return;
    begin = Clock::now();
    for (int i = 0; i < kRounds; ++i) {
      queue.run({product, DType::fp32, in, out, context});
      std::ranges::fill(buffers.given(), 1.0F);  // as the product before a collective writes what it reduces
      if (communicate) comms_[static_cast<std::size_t>(r)]->run(op_, members, buffers.in(), buffers.out());
    }
  }

  Collective op_;
  int n_;
  std::vector<std::unique_ptr<Communicator>> comms_;
};

/// One end of a message as the executor performs it: on a stream's thread, awaited through the rank's task board.
class MessageEnd {
 public:
  explicit MessageEnd(std::function<void()> transfer)
      : board_(1), worker_([this, transfer](std::uint32_t) { transfer(); board_.complete(0); }, [this] { fail(); }) {}
  void start() {
    board_.reset();
    worker_.push(0);
  }
  void wait() {
    const std::uint32_t task = 0;
    const bool done = board_.wait(std::span(&task, 1));
    worker_.drain();
    if (!done) std::rethrow_exception(error_);
  }

 private:
  // Called inside the exception handler of the failed transfer.
  void fail() {
    error_ = std::current_exception();
    board_.fail();
  }

  std::exception_ptr error_;  ///< written before board_.fail()
  TaskBoard board_;
  StreamWorker worker_;
};

/// Seconds from the moment both ends are issued until the receiver's next computation may start.
double measure_message(std::int64_t bytes, int rounds) {
  auto comms = make_thread_communicators(2);
  std::vector<std::byte> out(static_cast<std::size_t>(bytes)), in(out.size());
  MessageEnd send([&] { comms[0]->send(out.data(), bytes, Rank(1), {}); });
  MessageEnd recv([&] { comms[1]->recv(in.data(), bytes, Rank(0), {}); });
  Rendezvous gate(2);
  std::vector<TimePoint> sent(static_cast<std::size_t>(rounds)), got(sent), asked(sent);
  const auto sender = [&] {
    for (auto& at : sent) {
      if (!gate.arrive()) return;
      compute_for(std::chrono::microseconds(40));
      at = Clock::now();
      send.start();
      send.wait();
    }
  };
  const auto receiver = [&] {
    for (std::size_t i = 0; i < got.size() && gate.arrive(); ++i) {
      asked[i] = Clock::now();
      recv.start();
      recv.wait();
      got[i] = Clock::now();
    }
  };
  run_at_once(2, [&](std::size_t end) { end == 0 ? sender() : receiver(); }, [&] { release(gate, *comms[0]); });
  std::vector<double> times;
  for (std::size_t i = 0; i < got.size(); ++i) times.push_back(seconds(std::max(sent[i], asked[i]), got[i]));
  return median(std::move(times));
}

CommSample measure_message(std::int64_t bytes) {
  const auto once = measure_message(bytes, kFewest);
  const auto rounds = std::clamp(static_cast<int>(kPerSize / (once + 100e-6)), kFewest, kMost);
  return {"send", 2, Bytes(bytes), measure_message(bytes, rounds)};
}

std::vector<std::int64_t> sizes(bool few) {
  std::vector<std::int64_t> all;
  for (std::int64_t bytes = few ? 256 : 64; bytes <= 16 << 20; bytes *= few ? 16 : 4) all.push_back(bytes);
  if (!few) all.insert(all.begin(), 4);
  return all;
}

/// All kinds, even if quick: the CPU has no link time that could replace a missing one.
constexpr CollectiveKind kKinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                     CollectiveKind::broadcast, CollectiveKind::all_to_all, CollectiveKind::shift};

/// The group sizes and message sizes for a kind of collective.
struct Grid {
  std::vector<int> ranks;
  std::vector<std::int64_t> bytes;
};

Grid grid(CollectiveKind kind, bool quick) {
  if (kind == CollectiveKind::all_reduce) return {{2, 4, 8}, sizes(quick)};
  if (quick) return {{2, 8}, {256, 16 << 10, 1 << 20}};
  return {{2, 4, 8}, sizes(true)};
}

struct Case {
  CollectiveKind kind;
  int ranks;
  std::int64_t bytes;
  CommSample measure() const {
    const Collective op{kind, Group::world, bytes / 4, DType::fp32};
    // Ranks that share a core never leave it idle. Then the collective's own time is its whole cost.
    const bool own_cores = ranks <= all_cores();
    const double alone = CollectiveTimer(op, ranks).measure();
    const double in_step = own_cores ? StepCollectiveTimer(op, ranks).measure() : alone;
    return {std::string(communication_name(op)), ranks, Bytes(bytes), std::max(alone, in_step)};
  }
};

std::vector<Case> cases(bool quick) {
  std::vector<Case> all;
  for (const auto kind : kKinds) {
    const Grid points = grid(kind, quick);
    for (const int n : points.ranks)
      for (const auto bytes : points.bytes) all.push_back({kind, n, bytes});
  }
  return all;
}

std::vector<CommSample> one_pass(bool quick, const std::function<bool()>& stop) {
  std::vector<CommSample> samples;
  for (const auto& c : cases(quick)) end_where_stopped(stop), samples.push_back(c.measure());
  for (const auto bytes : sizes(quick)) end_where_stopped(stop), samples.push_back(measure_message(bytes));
  return samples;
}

}  // namespace

std::vector<CommSample> measure_communication(bool quick, const std::function<bool()>& stop) {
  std::vector<std::vector<CommSample>> passes;
  for (int pass = 0; pass < kPasses; ++pass) passes.push_back(one_pass(quick, stop));
  auto samples = passes.front();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::vector<double> times;
    for (const auto& p : passes) times.push_back(p[i].seconds);
    samples[i].seconds = median(std::move(times));
  }
  return samples;
}

}  // namespace tandem::exec
