#pragma once
// The thread of one stream. It runs the items it is given, in order.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "models/base/threads.hpp"

namespace tandem::exec {

/// Runs `work(item)` on its own thread for every item pushed. If `work` throws, calls `failed` there once (it must not throw) and
/// drops all later items.
class StreamWorker {
 public:
  /// Throws DeviceError if the host cannot start a thread.
  StreamWorker(std::function<void(std::uint32_t)> work, std::function<void()> failed);
  ~StreamWorker();
  StreamWorker(const StreamWorker&) = delete;
  StreamWorker& operator=(const StreamWorker&) = delete;

  void push(std::uint32_t item);
  /// Blocks until every pushed item has run or was dropped.
  void drain();

 private:
  void loop();
  bool next(std::uint32_t& item);
  void run_one(std::uint32_t item);

  std::function<void(std::uint32_t)> work_;
  std::function<void()> failed_;
  std::mutex mutex_;
  std::condition_variable pushed_, drained_;
  std::vector<std::uint32_t> queue_;  ///< items pushed since the last drain
  std::size_t done_ = 0;
  bool closed_ = false, broken_ = false;
  ThreadGroup thread_;  ///< last: it uses all of the above
};

}  // namespace tandem::exec
