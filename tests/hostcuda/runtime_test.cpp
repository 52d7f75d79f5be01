// The host's CUDA runtime itself: what it orders, what it leaves unordered, and what it refuses as CUDA does.

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/catch.hpp"
#include "tests/hostcuda/runtime/issue.hpp"

using namespace tandem;

namespace {

struct Stream {
  cudaStream_t s = nullptr;
  Stream() { cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); }
  ~Stream() { cudaStreamDestroy(s); }
  operator cudaStream_t() const { return s; }
};
struct Event {
  cudaEvent_t e = nullptr;
  explicit Event(unsigned flags = 0) { cudaEventCreateWithFlags(&e, flags); }
  ~Event() { cudaEventDestroy(e); }
  operator cudaEvent_t() const { return e; }
};

/// Work that waits until it is let go.
class Held {
 public:
  void operator()(cudaStream_t s) {
    hostcuda::issue(s, [this] {
      while (!free_) std::this_thread::sleep_for(std::chrono::microseconds(50));
    });
  }
  void release() { free_ = true; }

 private:
  std::atomic<bool> free_ = false;
};

cudaError_t begin(cudaStream_t s) { return cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal); }
/// Ends a capture; the graph is thrown away.
cudaError_t end(cudaStream_t s) {
  cudaGraph_t graph = nullptr;
  const cudaError_t code = cudaStreamEndCapture(s, &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  return code;
}

}  // namespace

TEST_CASE("the host's runtime runs a stream in order, and other streams only behind events", "[hostcuda]") {
  Stream first, second;
  const Event done, other;
  Held held;
  std::vector<int> order;
  held(first);
  hostcuda::issue(first, [&] { order.push_back(1); });
  CHECK(cudaEventRecord(done, first) == cudaSuccess);
  CHECK(cudaEventQuery(done) == cudaErrorNotReady);
  CHECK(cudaEventRecord(other, second) == cudaSuccess);
  CHECK(cudaEventSynchronize(other) == cudaSuccess);  // the held stream does not hold it
  CHECK(cudaStreamWaitEvent(second, done, 0) == cudaSuccess);
  hostcuda::issue(second, [&] { order.push_back(2); });
  held.release();
  CHECK(cudaStreamSynchronize(second) == cudaSuccess);
  CHECK(order == std::vector<int>{1, 2});
  CHECK(cudaEventQuery(done) == cudaSuccess);
}

TEST_CASE("the host's runtime gives memory whose bytes are no numbers, and refuses copies and frees of what it did not give", "[hostcuda]") {
  void *device = nullptr, *pinned = nullptr;
  REQUIRE(cudaMalloc(&device, 100) == cudaSuccess);
  REQUIRE(cudaMallocHost(&pinned, 100) == cudaSuccess);
  CHECK(reinterpret_cast<std::uintptr_t>(device) % 256 == 0);
  Stream s;
  std::vector<unsigned char> bytes(200, 7);
  REQUIRE(cudaMemcpyAsync(bytes.data(), device, 100, cudaMemcpyDeviceToHost, s) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(bytes == [] {
    std::vector<unsigned char> all(200, 7);
    std::fill_n(all.begin(), 100, 0xFF);
    return all;
  }());
  CHECK(cudaMemcpyAsync(bytes.data(), device, 101, cudaMemcpyDeviceToHost, s) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(device, bytes.data(), 10, cudaMemcpyDeviceToHost, s) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(device, pinned, 10, cudaMemcpyDeviceToDevice, s) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(pinned, 0, 10, s) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaFree(static_cast<std::byte*>(device) + 1) == cudaErrorInvalidValue);
  CHECK(cudaFree(pinned) == cudaErrorInvalidValue);
  CHECK(cudaFree(device) == cudaSuccess);
  CHECK(cudaFree(device) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  void* much = nullptr;
  CHECK(cudaMalloc(&much, std::size_t{1} << 50) == cudaErrorMemoryAllocation);
}

TEST_CASE("the host's runtime frees memory behind the work that uses it", "[hostcuda]") {
  void* device = nullptr;
  REQUIRE(cudaMalloc(&device, 8) == cudaSuccess);
  Stream s;
  Held held;
  held(s);
  cudaMemsetAsync(device, 0, 8, s);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    held.release();
  });
  CHECK(cudaFree(device) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  later.join();
}

TEST_CASE("the host's runtime captures forks that join, and replays them as often as they are launched", "[hostcuda]") {
  Stream main, side;
  const Event fork, join;
  std::atomic<int> a = 0, b = 0;
  REQUIRE(begin(main) == cudaSuccess);
  hostcuda::issue(main, [&] { ++a; });
  CHECK(cudaEventRecord(fork, main) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(side, fork, 0) == cudaSuccess);
  hostcuda::issue(side, [&] { b += a; });
  CHECK(cudaEventRecord(join, side) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(main, join, 0) == cudaSuccess);
  hostcuda::issue(main, [&] { a += 10 * b; });
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(main, &graph) == cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  cudaGraphDestroy(graph);
  CHECK(cudaStreamSynchronize(side) == cudaSuccess);
  CHECK(a == 0);  // nothing has run
  for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(exec, main) == cudaSuccess);
  CHECK(cudaStreamSynchronize(main) == cudaSuccess);
  CHECK(b == 1 + 12);
  CHECK(a == 12 + 130);
  cudaGraphExecDestroy(exec);
}

TEST_CASE("the host's runtime refuses in a capture what CUDA refuses", "[hostcuda]") {
  Stream s, other;
  const Event event, outside;
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 8) == cudaSuccess);
  REQUIRE(cudaEventRecord(outside, other) == cudaSuccess);
  SECTION("the host cannot wait for a captured stream") {
    REQUIRE(begin(s) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaErrorStreamCaptureUnsupported);
    CHECK(hostcuda::issue(s, [] {}) == cudaErrorStreamCaptureInvalidated);
  }
  SECTION("nor for an event in it") {
    REQUIRE(begin(s) == cudaSuccess);
    REQUIRE(cudaEventRecord(event, s) == cudaSuccess);
    CHECK(cudaEventSynchronize(event) == cudaErrorCapturedEvent);
  }
  SECTION("memory cannot be allocated or freed, and no event can be asked") {
    const auto call = GENERATE(0, 1, 2);
    REQUIRE(begin(s) == cudaSuccess);
    void* more = nullptr;
    if (call == 0) CHECK(cudaMalloc(&more, 8) == cudaErrorStreamCaptureUnsupported);
    if (call == 1) CHECK(cudaFree(memory) == cudaErrorStreamCaptureUnsupported);
    if (call == 2) CHECK(cudaEventQuery(outside) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("other threads may allocate") {
    REQUIRE(begin(s) == cudaSuccess);
    cudaError_t code = cudaErrorUnknown;
    std::thread([&] {
      void* more = nullptr;
      code = cudaMalloc(&more, 8);
      cudaFree(more);
    }).join();
    CHECK(code == cudaSuccess);
    CHECK(end(s) == cudaSuccess);
    REQUIRE(begin(s) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(s, outside, 0) == cudaErrorStreamCaptureIsolation);
  }
  SECTION("two captures do not merge") {
    REQUIRE(begin(s) == cudaSuccess);
    REQUIRE(begin(other) == cudaSuccess);
    REQUIRE(cudaEventRecord(event, other) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(s, event, 0) == cudaErrorStreamCaptureMerge);
    CHECK(end(other) == cudaSuccess);
  }
  CHECK(end(s) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaFree(memory) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("the host's runtime ends no capture with a fork that does not join", "[hostcuda]") {
  Stream s, side;
  const Event fork;
  REQUIRE(begin(s) == cudaSuccess);
  cudaEventRecord(fork, s);
  cudaStreamWaitEvent(side, fork, 0);
  hostcuda::issue(side, [] {});
  CHECK(end(side) == cudaErrorStreamCaptureUnmatched);
  CHECK(end(s) == cudaErrorStreamCaptureUnjoined);
  CHECK(cudaStreamSynchronize(side) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("the host's runtime times events only if they can be timed and have come", "[hostcuda]") {
  Stream s;
  const Event first, last, untimed(cudaEventDisableTiming), never;
  Held held;
  float ms = -1;
  cudaEventRecord(first, s);
  held(s);
  cudaEventRecord(last, s);
  cudaEventRecord(untimed, s);
  CHECK(cudaEventElapsedTime(&ms, first, last) == cudaErrorNotReady);
  held.release();
  cudaStreamSynchronize(s);
  CHECK(cudaEventElapsedTime(&ms, first, last) == cudaSuccess);
  CHECK(ms >= 0);
  CHECK(cudaEventElapsedTime(&ms, first, untimed) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventElapsedTime(&ms, first, never) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventSynchronize(never) == cudaSuccess);
  cudaGetLastError();
}
