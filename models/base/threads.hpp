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

/// Threads that this machine runs at once, at least 1.
int all_cores();

/// Threads, all of them joined before their group ends. One thread at a time may use a group.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  /// Starts a thread that calls `work`; false where the host gives none.
  bool try_start(std::function<void()> work);
  /// The same. Throws DeviceError where the host gives none.
  void start(std::function<void()> work);
  /// Waits for every thread. Throws the first exception that one of them ended with.
  void join();

 private:
  void wait();

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// One thread for small work that may come and go while memory is short: its stack is small, and the host has it back behind join().
/// The C library keeps the stacks of other threads.
class SmallThread {
 public:
  SmallThread() = default;
  ~SmallThread() { wait(); }
  SmallThread(const SmallThread&) = delete;
  SmallThread& operator=(const SmallThread&) = delete;

  /// Starts it with `work`, which throws nothing. Once. Throws DeviceError where the host gives none.
  void start(std::function<void()> work);
  /// Waits for it if it was started.
  void wait();

 private:
  static void* call(void* self);

  std::function<void()> work_;
  void* stack_ = nullptr;
  pthread_t thread_{};
};

/// How a list of work is spread over threads.
struct Jobs {
  int most = 1;                                ///< threads at once, the caller's included
  std::function<bool()> stop = nullptr;        ///< asked before each piece of work: true ends the list early; may be empty
  std::function<void(int)> fewer = nullptr;    ///< told how many threads there are where these are fewer; may be empty
};

/// Calls `work(i)` once for each i below `count`, in no order, on as many threads as `jobs` wishes and the host gives, but at
/// least on the caller's. Begins nothing new after an exception. Throws that of the smallest i after all threads have ended.
void for_each_index(std::size_t count, const Jobs& jobs, const std::function<void(std::size_t)>& work);

/// Calls `body(i)` for each i below `count`, each on a thread of its own and all at once, so that they may wait for each other.
/// Throws DeviceError before any begins where the host gives too few threads. When one throws, `wake` is called, which must
/// release those that wait for it; the first exception is thrown after all threads have ended.
void run_at_once(std::size_t count, const std::function<void(std::size_t)>& body, const std::function<void()>& wake);

}  // namespace tandem
