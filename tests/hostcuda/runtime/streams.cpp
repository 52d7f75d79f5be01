// Streams, events and captures of CUDA's runtime.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/hostcuda/runtime/errors.hpp"
#include "tests/hostcuda/runtime/objects.hpp"
#include "tests/hostcuda/runtime/settings.hpp"

namespace tandem::hostcuda {
namespace {

std::atomic<std::int64_t> waits_made = 0, replays_made = 0, recorder = -1;

Settings of_environment() {
  Settings s;
  if (const char* seed = std::getenv("TANDEM_HOSTCUDA_SEED"); seed != nullptr) s.seed = std::strtoull(seed, nullptr, 10);
  if (const char* named = std::getenv("TANDEM_HOSTCUDA_EPILOGUES"); named != nullptr)
    s.epilogues = std::string_view(named) == "all" ? Epilogues::all : std::string_view(named) == "bias" ? Epilogues::bias : Epilogues::none;
  return s;
}

/// An injected fault: this wait is left out.
bool drops(const CUevent_st& event) {
  if (waits_made.fetch_add(1) != settings().dropped_wait) return false;
  recorder = event.recorder;
  return true;
}

cudaError_t invalidated(const std::shared_ptr<Capture>& capture, cudaError_t code) {
  if (capture) capture->invalid = true;
  return code;
}

cudaError_t wait_in_capture(CUstream_st& stream, const Position& event) {
  Position& at = stream.captured;
  if (event.capture->ended) return cudaErrorCapturedEvent;
  if (at.capture != nullptr && at.capture != event.capture) return invalidated(at.capture, cudaErrorStreamCaptureMerge);
  if (at.capture == nullptr) {
    at = {event.capture, {}};
    auto& all = event.capture->streams;
    if (std::find(all.begin(), all.end(), &stream) == all.end()) all.push_back(&stream);
  }
  at.after.insert(event.after.begin(), event.after.end());
  return cudaSuccess;
}

cudaError_t wait_for(CUstream_st& stream, CUevent_st& event) {
  const std::lock_guard lock(event.mutex);
  if (drops(event)) return cudaSuccess;
  if (event.captured.capture) return wait_in_capture(stream, event.captured);
  if (event.point == nullptr) return cudaSuccess;
  if (stream.captured.capture) return invalidated(stream.captured.capture, cudaErrorStreamCaptureIsolation);
  stream.lane.push([point = event.point] { point->wait(); });
  return cudaSuccess;
}

cudaError_t record(CUevent_st& event, CUstream_st& stream) {
  const std::lock_guard lock(event.mutex);
  event.captured = stream.captured;
  event.point = nullptr;
  if (event.captured.capture) return event.captured.capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  event.point = std::make_shared<Point>();
  stream.lane.push([point = event.point] { point->reach(); });
  event.recorder = stream.lane.number();
  return cudaSuccess;
}

/// What the host may ask of an event: its point, if it has one.
cudaError_t host_point(cudaEvent_t event, std::shared_ptr<Point>& point) {
  if (!events().has(event)) return cudaErrorInvalidResourceHandle;
  const std::lock_guard lock(event->mutex);
  if (event->captured.capture) return invalidated(event->captured.capture, cudaErrorCapturedEvent);
  point = event->point;
  return cudaSuccess;
}

cudaError_t end_capture(CUstream_st& stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const std::shared_ptr<Capture> c = stream.captured.capture;
  if (c == nullptr || c->origin != &stream) return cudaErrorStreamCaptureUnmatched;
  if (c->thread != std::this_thread::get_id()) return cudaErrorStreamCaptureWrongThread;
  bool joined = true;
  for (cudaStream_t s : c->streams) {
    if (!streams().has(s)) continue;
    joined = joined && c->reaches(stream.captured.after, s->captured.after);
    if (s != &stream) s->captured = {};
  }
  stream.captured = {};
  c->ended = true;
  if (c->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{std::move(c->nodes), c->streams.size()};
  return cudaSuccess;
}

}  // namespace

Settings& settings() {
  static auto* const all = new Settings(of_environment());
  return *all;
}

Counts counts() { return {waits_made, replays_made, recorder}; }

void reset_counts() {
  waits_made = replays_made = 0;
  recorder = -1;
  renumber();
}

}  // namespace tandem::hostcuda

using namespace tandem::hostcuda;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (stream == nullptr || flags > cudaStreamNonBlocking) return noted(cudaErrorInvalidValue);
  if (failed()) return noted(cudaErrorLaunchFailure);
  *stream = new CUstream_st;
  streams().add(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!streams().has(stream)) return noted(cudaErrorInvalidResourceHandle);
  if (stream->captured.capture) return noted(invalidated(stream->captured.capture, cudaErrorStreamCaptureUnsupported));
  streams().remove(stream);
  delete stream;
  return noted(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  if (stream->captured.capture) return noted(invalidated(stream->captured.capture, cudaErrorStreamCaptureUnsupported));
  const auto end = std::make_shared<Point>();
  stream->lane.push([end] { end->reach(); });
  kick_all();
  end->wait();
  return noted(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr || !events().has(event)) return noted(cudaErrorInvalidResourceHandle);
  return noted(wait_for(*stream, *event));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (failed()) return noted(cudaErrorLaunchFailure);
  *event = new CUevent_st{flags, nullptr, {}, {}, -1};
  events().add(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!events().remove(event)) return noted(cudaErrorInvalidResourceHandle);
  delete event;
  return noted(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr || !events().has(event)) return noted(cudaErrorInvalidResourceHandle);
  return noted(record(*event, *stream));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::shared_ptr<Point> point;
  const cudaError_t code = host_point(event, point);
  kick_all();
  if (point) point->wait();
  return noted(code);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (breaks_capture()) return noted(cudaErrorStreamCaptureUnsupported);
  std::shared_ptr<Point> point;
  const cudaError_t code = host_point(event, point);
  kick_all();
  return noted(code == cudaSuccess && point && !point->reached() ? cudaErrorNotReady : code);
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  std::shared_ptr<Point> first, last;
  for (auto [event, point] : {std::pair{begin, &first}, std::pair{end, &last}}) {
    if (const cudaError_t code = host_point(event, *point); code != cudaSuccess) return noted(code);
    if (*point == nullptr || (event->flags & cudaEventDisableTiming) != 0) return noted(cudaErrorInvalidResourceHandle);
    if (!(*point)->reached()) return noted(cudaErrorNotReady);
  }
  *ms = std::chrono::duration<float, std::milli>(last->time() - first->time()).count();
  return noted(cudaSuccess);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  if (stream == stream_of(cudaStreamLegacy) || mode != cudaStreamCaptureModeThreadLocal)
    return noted(cudaErrorStreamCaptureUnsupported);  // Tandem uses no other mode
  if (stream->captured.capture) return noted(invalidated(stream->captured.capture, cudaErrorIllegalState));
  stream->captured = {std::make_shared<Capture>(Capture{stream, std::this_thread::get_id(), {}, {stream}}), {}};
  return noted(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  CUstream_st* const stream = stream_of(handle);
  return noted(stream == nullptr ? cudaErrorInvalidResourceHandle : end_capture(*stream, graph));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return noted(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (graph == nullptr) return noted(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{std::make_shared<const CUgraph_st>(*graph)};
  return noted(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return noted(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  CUstream_st* const stream = stream_of(handle);
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  if (stream->captured.capture) return noted(invalidated(stream->captured.capture, cudaErrorStreamCaptureUnsupported));
  if (failed()) return noted(cudaErrorLaunchFailure);
  ++replays_made;
  stream->lane.push([graph = exec->graph] { replay(graph->nodes, graph->lanes); });
  return noted(cudaSuccess);
}

}  // extern "C"
