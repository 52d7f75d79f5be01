#include "tests/hostcuda/runtime/objects.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/hostcuda/runtime/errors.hpp"
#include "tests/hostcuda/runtime/issue.hpp"

namespace tandem::hostcuda {
namespace {

/// Destroyed with its thread.
struct OwnStream {
  CUstream_st* stream = nullptr;
  ~OwnStream() {
    if (stream != nullptr && streams().remove(stream)) delete stream;
  }
};

/// Kicks streams that the host does not wait for.
void keep_kicking() {
  std::thread([] {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
      kick_all();
    }
  }).detach();
}

CUstream_st* made() {
  auto* stream = new CUstream_st;
  streams().add(stream);
  return stream;
}

}  // namespace

// Kept at the program's end: threads of streams may still run.
Live<CUstream_st>& streams() {
  static auto* const all = new Live<CUstream_st>;
  return *all;
}

Live<CUevent_st>& events() {
  static auto* const all = new Live<CUevent_st>;
  return *all;
}

CUstream_st* stream_of(cudaStream_t handle) {
  thread_local OwnStream own;
  static std::once_flag kicking;
  std::call_once(kicking, keep_kicking);
  static CUstream_st* const legacy = made();
  if (handle == nullptr || handle == cudaStreamLegacy) return legacy;
  if (handle != cudaStreamPerThread) return streams().has(handle) ? handle : nullptr;
  if (own.stream == nullptr) own.stream = made();
  return own.stream;
}

cudaError_t put(CUstream_st& stream, Work work) {
  if (failed()) return cudaErrorLaunchFailure;
  Position& at = stream.captured;
  if (at.capture == nullptr) return stream.lane.push([work = std::move(work)] { perform(work); }), cudaSuccess;
  Capture& c = *at.capture;
  if (c.invalid) return cudaErrorStreamCaptureInvalidated;
  const auto lane = std::find(c.streams.begin(), c.streams.end(), &stream) - c.streams.begin();
  c.nodes.push_back({std::move(work), std::move(at.after), static_cast<std::size_t>(lane)});
  at.after = {c.nodes.size() - 1};
  return cudaSuccess;
}

bool breaks_capture() {
  bool any = false;
  streams().each([&](CUstream_st& s) {
    Capture* const c = s.captured.capture.get();
    if (c == nullptr || c->thread != std::this_thread::get_id()) return;
    c->invalid = any = true;
  });
  return any;
}

void kick_all() {
  streams().each([](CUstream_st& s) { s.lane.kick(); });
}

void wait_for_device(const char* call) {
  using namespace std::chrono_literals;
  std::vector<std::shared_ptr<Point>> ends;
  streams().each([&](CUstream_st& s) {
    if (!s.lane.used()) return;
    ends.push_back(std::make_shared<Point>());
    s.lane.push([end = ends.back()] { end->reach(); });
  });
  kick_all();
  const auto last = std::chrono::steady_clock::now() + 60s;
  for (const auto& end : ends)
    while (!end->reached()) {
      std::this_thread::sleep_for(20us);
      if (std::chrono::steady_clock::now() < last) continue;
      std::fprintf(stderr, "host CUDA runtime: %s waits for the device, which has not ended its work for a minute\n", call);
      std::abort();
    }
}

cudaError_t issue(cudaStream_t handle, std::function<void()> work) {
  CUstream_st* const stream = stream_of(handle);
  return noted(stream == nullptr ? cudaErrorInvalidResourceHandle : put(*stream, std::move(work)));
}

}  // namespace tandem::hostcuda
