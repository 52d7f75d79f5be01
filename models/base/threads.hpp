#pragma once
// The one place that starts threads. A host may give fewer than wished: a limit of processes, of memory, of a container.

#include <pthread.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem {

/// Number of threads that this machine runs at once, at least 1.
int all_cores();

/// A group of threads, joined before it ends. Only one thread at a time may use a group.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  /// Starts a thread that calls `work`; false if the host allows no more.
  bool try_start(std::function<void()> work);
  /// Starts a thread that calls `work`. Throws DeviceError if the host allows no more.
  void start(std::function<void()> work);
  /// Waits for all threads. Throws the first exception of any.
  void join();

 private:
  void wait();

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// A thread for small work while memory is short. Its small stack is returned
/// to the host by wait(). The C library keeps the stacks of other threads.
class SmallThread {
 public:
  SmallThread() = default;
  ~SmallThread() { wait(); }
  SmallThread(const SmallThread&) = delete;
  SmallThread& operator=(const SmallThread&) = delete;

  /// Starts the thread with `work`, which must not throw. Call once. Throws DeviceError if the host allows no more threads.
  void start(std::function<void()> work);
  /// Waits for the thread if it was started.
  void wait();

 private:
  static void* call(void* self);

  std::function<void()> work_;
  void* stack_ = nullptr;
  pthread_t thread_{};
};

/// How work is spread over threads.
struct Jobs {
  int most = 1;                                ///< maximum number of threads, the caller's included
  std::function<bool()> stop = nullptr;        ///< called before each piece of work; true ends the work early; may be empty
  std::function<void(int)> fewer = nullptr;    ///< called with the number of threads if these are fewer; may be empty
};

/// Calls `work(i)` once for each i below `count`, in any order, on up to `jobs.most` threads, including the caller's.
/// Starts no new work after an exception. Throws the exception of the smallest i after all threads have ended.
void for_each_index(std::size_t count, const Jobs& jobs, const std::function<void(std::size_t)>& work);

/// Calls `body(i)` for each i below `count` on its own thread, all at the same time, so that they may wait for
/// each other. Throws DeviceError before any starts if the host allows too few threads. If one throws, calls
/// `wake`, which must release the waiting ones. Throws the first exception after all threads have ended.
void run_at_once(std::size_t count, const std::function<void(std::size_t)>& body, const std::function<void()>& wake);

}  // namespace tandem
