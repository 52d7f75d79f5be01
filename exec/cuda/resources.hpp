#pragma once
// RAII owners of CUDA objects, and CUDA error codes as exceptions.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

#include "models/base/error.hpp"

namespace tandem::exec::cuda {

/// Throws DeviceError with what failed and the runtime's message.
inline void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw DeviceError(std::string("CUDA: ") + what + ": " + cudaGetErrorString(code));
}

/// Device memory or pinned host memory. Throws DeviceError if there is not enough.
class Buffer {
 public:
  enum class Where { device, host };
  Buffer() = default;
  explicit Buffer(std::size_t bytes, Where where = Where::device) : bytes_(bytes), where_(where) {
    check(where == Where::device ? cudaMalloc(&data_, bytes) : cudaMallocHost(&data_, bytes), "allocating memory");
  }
  ~Buffer() { release(); }
  Buffer(Buffer&& o) noexcept { *this = std::move(o); }
  Buffer& operator=(Buffer&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    std::swap(where_, o.where_);
    return *this;
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size() const { return bytes_; }

 private:
  void release() {
    if (data_) where_ == Where::device ? cudaFree(data_) : cudaFreeHost(data_);
  }
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Where where_ = Where::device;
};

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void wait() const { check(cudaStreamSynchronize(stream_), "waiting for the device"); }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() : Event(cudaEventDefault) {}
  /// cudaEventBlockingSync: waiting threads sleep.
  explicit Event(unsigned flags) { check(cudaEventCreateWithFlags(&event_, flags), "creating an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t s) const { check(cudaEventRecord(event_, s), "recording an event"); }
  void wait() const { check(cudaEventSynchronize(event_), "waiting for the device"); }
  /// True if the recorded work has completed, or if nothing was recorded.
  bool reached() const {
    const cudaError_t code = cudaEventQuery(event_);
    if (code != cudaErrorNotReady) check(code, "asking for an event");
    return code == cudaSuccess;
  }
  operator cudaEvent_t() const { return event_; }
  /// Seconds since an earlier event. Both must have completed.
  double since(const Event& begin) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.event_, event_), "reading a time");
    return ms * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A device buffer handed out piece by piece, cyclically. So
/// repeated calls do not find their operands in the cache.
class Pool {
 public:
  explicit Pool(std::size_t bytes) : buffer_(bytes) {}
  std::size_t size() const { return buffer_.size(); }
  std::byte* data() const { return buffer_.data(); }
  bool holds(std::size_t bytes) const { return bytes <= size(); }
  std::byte* next(std::size_t bytes) {
    const std::size_t step = (bytes + 255) / 256 * 256;
    if (at_ + step > size()) at_ = 0;
    std::byte* piece = buffer_.data() + at_;
    at_ += step;
    return piece;
  }

 private:
  Buffer buffer_;
  std::size_t at_ = 0;
};

}  // namespace tandem::exec::cuda
