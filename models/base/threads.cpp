#include "models/base/threads.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <new>
#include <system_error>
#include <utility>

#include "models/base/error.hpp"

namespace tandem {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr std::size_t kSmallStack = std::size_t{4} << 20;  // the sanitizer uses 0.9 MB of it
#else
constexpr std::size_t kSmallStack = std::size_t{512} << 10;
#endif

[[noreturn]] void refuse_thread() {
  throw DeviceError("the host gives no thread: its limit of processes, of memory or of the container is reached");
}

}  // namespace

int all_cores() {
  // The C library opens a file of the kernel for the answer, which is the same for the life of the process.
  static const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return cores;
}

ThreadGroup::~ThreadGroup() { wait(); }

void ThreadGroup::wait() {
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

bool ThreadGroup::try_start(std::function<void()> work) {
  const auto guarded = [this, work = std::move(work)] {
    try {
      work();
    } catch (...) {
      const std::lock_guard guard(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  };
  try {
    threads_.emplace_back(guarded);
    return true;
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void ThreadGroup::start(std::function<void()> work) {
  if (!try_start(std::move(work))) refuse_thread();
}

void ThreadGroup::join() {
  wait();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void* SmallThread::call(void* self) {
  static_cast<SmallThread*>(self)->work_();
  return nullptr;
}

void SmallThread::start(std::function<void()> work) {
  work_ = std::move(work);
  void* stack = mmap(nullptr, kSmallStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) refuse_thread();
  pthread_attr_t how;
  pthread_attr_init(&how);
  pthread_attr_setstack(&how, stack, kSmallStack);
  const int failed = pthread_create(&thread_, &how, call, this);
  pthread_attr_destroy(&how);
  if (failed == 0) {
    stack_ = stack;
    return;
  }
  munmap(stack, kSmallStack);
  refuse_thread();
}

void SmallThread::wait() {
  if (stack_ == nullptr) return;
  pthread_join(thread_, nullptr);
  munmap(std::exchange(stack_, nullptr), kSmallStack);
}

namespace {

/// Indices that threads take one by one: pieces of work differ too much to deal them out beforehand.
class WorkList {
 public:
  WorkList(std::size_t count, const Jobs& jobs, const std::function<void(std::size_t)>& work)
      : jobs_(jobs), work_(work), failed_(count) {}

  /// Works until nothing is left, or nothing more is wanted.
  void take_all() {
    while (!broken_ && !(jobs_.stop && jobs_.stop())) {
      const std::size_t i = next_++;
      if (i >= failed_.size()) return;
      try {
        work_(i);
      } catch (...) {
        failed_[i] = std::current_exception();
        broken_ = true;
      }
    }
  }

  void rethrow() const {
    for (const std::exception_ptr& e : failed_)
      if (e) std::rethrow_exception(e);
  }

 private:
  const Jobs& jobs_;
  const std::function<void(std::size_t)>& work_;
  std::vector<std::exception_ptr> failed_;  ///< by index
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> broken_{false};
};

}  // namespace

void for_each_index(std::size_t count, const Jobs& jobs, const std::function<void(std::size_t)>& work) {
  WorkList list(count, jobs, work);
  const int wished = static_cast<int>(std::min(static_cast<std::size_t>(std::max(jobs.most, 1)), std::max<std::size_t>(count, 1)));
  ThreadGroup others;
  int there = 1;
  while (there < wished && others.try_start([&list] { list.take_all(); })) ++there;
  if (there < wished && jobs.fewer) jobs.fewer(there);
  list.take_all();
  others.join();
  list.rethrow();
}

namespace {

/// State shared by bodies that wait for each other. None begins before the gate opens.
class CommonStart {
 public:
  CommonStart(const std::function<void(std::size_t)>& body, const std::function<void()>& wake) : body_(body), wake_(wake) {}

  void run(std::size_t i) {
    gate_.wait();
    if (!complete_) return;
    try {
      body_(i);
    } catch (...) {
      if (failed_.exchange(true)) return;  // a consequence of the first failure
      error_ = std::current_exception();
      wake_();
    }
  }
  void open(bool complete) {
    complete_ = complete;
    gate_.count_down();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const std::function<void(std::size_t)>& body_;
  const std::function<void()>& wake_;
  std::latch gate_{1};
  bool complete_ = false;  ///< written before the gate opens
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

}  // namespace

void run_at_once(std::size_t count, const std::function<void(std::size_t)>& body, const std::function<void()>& wake) {
  CommonStart members(body, wake);
  ThreadGroup threads;
  try {
    for (std::size_t i = 0; i < count; ++i) threads.start([&members, i] { members.run(i); });
  } catch (...) {
    members.open(false);
    throw;
  }
  members.open(true);
  threads.join();
  members.rethrow();
}

}  // namespace tandem
