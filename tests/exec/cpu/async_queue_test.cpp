#include "exec/cpu/async/async_queue.hpp"

#include <array>
#include <future>

#include "exec/backend/forwarding_backend.hpp"
#include "exec/cpu/backend.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

const Op kDouble = Accumulate{1, DType::fp64, DType::fp64};  // out += in

/// Two streams over one memory of doubles, and a door that holds up whoever is told to.
class TwoStreams {
 public:
  TwoStreams()
      : door_(opened_.get_future().share()),
        backend(make_async_backend(make_cpu_backend(),
                                   [this](Stream s) -> std::function<void()> {
                                     if (s != Stream::compute) return {};
                                     return [door = door_] { door.wait(); };
                                   })),
        memory(backend->allocate(64)),
        first(backend->queue(Stream::compute)),
        second(backend->queue(Stream::tensor)) {
    memory->fill(0, 64, std::byte{0});
  }
  ~TwoStreams() { open(); }
  /// Lets the first queue work.
  void open() {
    if (!std::exchange(is_open_, true)) opened_.set_value();
  }

  Tensor at(std::size_t i) { return {memory->address() + i * 8, DType::fp64, 1}; }
  void add(Queue& queue, std::size_t from, std::size_t to) {
    const std::array in{at(from), at(to)};
    const std::array out{at(to)};
    queue.run({kDouble, DType::fp64, in, out, context});
  }
  void put(Queue& queue, std::size_t i, double value) { queue.upload(at(i).address, std::as_bytes(std::span(&value, 1))); }
  double value(std::size_t i) { return read_value<double>(*memory, i * 8); }

 private:
  std::promise<void> opened_;
  std::shared_future<void> door_;
  bool is_open_ = false;

 public:
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Memory> memory;
  KernelContext context;
  Queue &first, &second;
};

}  // namespace

TEST_CASE("A queue returns before its work has begun, keeps its order and takes copies of what it is given", "[tsan]") {
  TwoStreams s;
  s.put(s.first, 0, 3);  // from a variable that is gone when the door opens
  s.add(s.first, 0, 1);
  s.add(s.first, 1, 2);
  CHECK(s.value(2) == 0);
  double seen = 0;
  s.first.download(std::as_writable_bytes(std::span(&seen, 1)), s.at(2).address);
  s.open();
  s.first.finish();
  CHECK(s.value(2) == 3);
  CHECK(seen == 3);
}

TEST_CASE("A queue that waits for a mark of another one starts behind it", "[tsan]") {
  TwoStreams s;
  const auto mark = s.backend->make_mark();
  s.put(s.first, 0, 5);
  s.first.mark(*mark);
  s.second.wait(*mark);
  s.add(s.second, 0, 1);
  s.open();
  s.second.finish();
  CHECK(s.value(1) == 5);
}

TEST_CASE("A queue waits for a mark as it was set then, and not at all for one that was never set", "[tsan]") {
  TwoStreams s;
  const auto mark = s.backend->make_mark(), never = s.backend->make_mark();
  s.second.mark(*mark);
  s.second.finish();
  s.second.wait(*mark);
  s.first.mark(*mark);  // behind the door, and later
  s.second.wait(*never);
  s.put(s.second, 3, 7);
  s.second.finish();
  CHECK(s.value(3) == 7);
  s.open();
  s.first.finish();  // the mark is here no longer than this
}

TEST_CASE("The host that waits for a mark sees what was issued before it", "[tsan]") {
  TwoStreams s;
  const auto mark = s.backend->make_mark();
  s.put(s.first, 0, 9);
  s.first.mark(*mark);
  s.open();
  mark->wait();
  CHECK(s.value(0) == 9);
  s.first.finish();
  CHECK(mark->reached() > std::chrono::steady_clock::time_point{});
}

TEST_CASE("A failure ends its queue, and those that wait for it, with its own exception", "[tsan]") {
  TwoStreams s;
  const auto mark = s.backend->make_mark();
  const Op unknown = Send{1, DType::fp64, 1};
  s.first.run({unknown, DType::fp64, {}, {}, s.context});
  s.put(s.first, 0, 1);
  s.first.mark(*mark);
  s.second.wait(*mark);
  s.put(s.second, 1, 1);
  s.open();
  CHECK_THROWS_WITH(s.second.finish(), Catch::Contains("send"));
  CHECK_THROWS_AS(s.first.finish(), DeviceError);
  CHECK_THROWS_AS(mark->wait(), DeviceError);
  CHECK(s.value(0) == 0);
  CHECK(s.value(1) == 0);
}

TEST_CASE("An asynchronous backend is named after its kernels and counts what they did") {
  TwoStreams s;
  CHECK(s.backend->name() == "cpu-async");
  CHECK(s.backend->asynchronous());
  const Op product = MatMul{1, 1, 1};
  const std::array in{s.at(0), s.at(1)};
  const std::array out{s.at(2)};
  s.second.run({product, DType::fp64, in, out, s.context});
  s.second.finish();
  CHECK(s.backend->counters().gemm_flops == 2);
  CHECK_THROWS_AS(make_async_backend(make_async_cpu_backend()), ContractError);
}
